r"""A network whose last layer is solved for, not descended to: ANIL with a closed form.

With the features $\Phi$ of the support, ones beside them for the bias, and its targets $Y$, the
head of a task is the ridge regression

$$H = (\Phi^\top \Phi + \lambda I)^{-1} \Phi^\top Y
= \Phi^\top (\Phi \Phi^\top + \lambda I)^{-1} Y,$$

by whichever of the two has the smaller matrix; derivatives go through the solution (Bertinetto et
al. 2019). Body and penalty $\lambda$ are learned, and so are the scale and the offset that turn a
regression onto probabilities into logits. Inner steps, where there are some, go on from $H$.
"""

import math
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.hypernetworks._layers import Stack


class RidgeHead(eqx.Module):
    """Learns a body for all tasks; the head of each is a ridge regression onto its support."""

    body: Stack
    log_penalty: Float[Array, ""]
    log_scale: Float[Array, ""]
    offset: Float[Array, " outputs"]

    def __init__(self, config: "RidgeHeadConfig", *, key: PRNGKeyArray):
        self.body = Stack((config.num_inputs, *(config.width,) * config.num_hidden), key=key)
        self.log_penalty = jnp.asarray(math.log(config.penalty), jnp.float32)
        self.log_scale = jnp.asarray(math.log(config.scale), jnp.float32)
        self.offset = jnp.zeros(config.num_outputs)

    def start(
        self,
        inputs: Float[Array, "rows inputs"],
        targets: Float[Array, "rows outputs"],
        weights: Float[Array, " rows"] | None,
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "features outputs"]:
        """Returns the head that fits the support; its last row is the bias."""
        features = _with_ones(self.body(inputs))
        return solve_ridge(features, targets, weights, jnp.exp(self.log_penalty))

    def read(self, inputs: Float[Array, "rows inputs"]) -> Float[Array, "rows features"]:
        """Returns the body's features, which no task changes."""
        return self.body(inputs)

    def predict(
        self, task: Float[Array, "features outputs"], features: Float[Array, "rows features"]
    ) -> Float[Array, "rows outputs"]:
        """Runs the task's head, and scales what it says."""
        return jnp.exp(self.log_scale) * (_with_ones(features) @ task) + self.offset[None]


@dataclass(frozen=True)
class RidgeHeadConfig:
    """The sizes of a `RidgeHead`, and where its learned numbers start."""

    num_inputs: int = 16
    num_outputs: int = 8
    width: int = 512
    num_hidden: int = 3
    penalty: float = 1.0
    scale: float = 1.0
    """About 1 for numbers; for classes about 10, which probabilities need to become logits."""

    def __post_init__(self) -> None:
        for name in ("num_inputs", "num_outputs", "width", "num_hidden"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1; got {getattr(self, name)}")
        for name in ("penalty", "scale"):
            if not getattr(self, name) > 0:
                raise ValueError(f"`{name}` must be positive; got {getattr(self, name)}")

    def make(self, *, key: PRNGKeyArray) -> RidgeHead:
        """Builds the model with fresh parameters."""
        return RidgeHead(self, key=key)


def solve_ridge(
    features: Float[Array, "rows features"],
    targets: Float[Array, "rows outputs"],
    weights: Float[Array, " rows"] | None,
    penalty: Float[Array, ""],
) -> Float[Array, "features outputs"]:
    """Returns the ridge regression of targets on features, differentiably; see the module.

    Args:
        features: one row for each example; there is no intercept but what they hold.
        targets: what to predict.
        weights: how often each row counts; None where all count once.
        penalty: on the sum of squares.

    Example:
        >>> import jax.numpy as jnp
        >>> found = solve_ridge(jnp.ones((3, 1)), jnp.full((3, 1), 4.0), None, jnp.asarray(1.0))
        >>> found.tolist()
        [[3.0]]
    """
    if weights is not None:
        roots = jnp.sqrt(weights)[:, None]
        features, targets = roots * features, roots * targets
    rows, width = features.shape
    with jax.default_matmul_precision("highest"):  # sums of squares do not survive rounding
        if rows < width:
            return features.T @ _solve(features @ features.T, targets, penalty)
        return _solve(features.T @ features, features.T @ targets, penalty)


def _solve(
    squares: Float[Array, "n n"], right: Float[Array, "n outputs"], penalty: Float[Array, ""]
) -> Float[Array, "n outputs"]:
    matrix = squares + penalty * jnp.eye(len(squares), dtype=squares.dtype)
    return jax.scipy.linalg.solve(matrix, right, assume_a="pos")


def _with_ones(features: Float[Array, "rows units"]) -> Float[Array, "rows more"]:
    ones = jnp.ones((features.shape[0], 1), features.dtype)
    return jnp.concatenate([features, ones], axis=1)
