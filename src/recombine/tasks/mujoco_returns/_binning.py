r"""Returns as classes: the empirical distribution of the training returns, cut into equal parts.

With τ the share of training returns below a value, interpolated linearly between them,

$$\mathrm{class}(y) = \min(\lfloor K\, \tau(y) \rfloor,\ K - 1), \qquad v_k = \frac{k}{K - 1}$$

(Neitz, thesis, App. C.2). The smallest training return has τ = 0 and the largest 1; what lies
outside is clipped. The thesis says of the values of the classes only that they lie between 0 and 1:
here they are $k / (K-1)$. The middles of the bins would make every error 6 % smaller.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

NUM_CLASSES = 32
"""Of the returns (Neitz, thesis, App. C.2)."""


class Binning(NamedTuple):
    """The distribution that classes are made by."""

    values: Float[np.ndarray, " values"]
    """The training returns, each once, from the smallest."""
    levels: Float[np.ndarray, " values"]
    """τ of each; equal returns have the mean of their places."""
    num_classes: int

    def level_of(self, returns: Float[np.ndarray, " items"]) -> Float[np.ndarray, " items"]:
        """Returns τ, between 0 and 1."""
        return np.interp(returns, self.values, self.levels, left=0.0, right=1.0)

    def class_of(self, returns: Float[np.ndarray, " items"]) -> Int[np.ndarray, " items"]:
        """Returns the classes, from 0."""
        parts = np.floor(self.num_classes * self.level_of(returns)).astype(np.int32)
        return np.minimum(parts, np.int32(self.num_classes - 1))


def fit_binning(returns: Float[np.ndarray, " items"], num_classes: int = NUM_CLASSES) -> Binning:
    """Learns the classes from training returns.

    Example:
        >>> binning = fit_binning(np.array([1.0, 2.0, 4.0, 8.0]), num_classes=2)
        >>> binning.class_of(np.array([-5.0, 2.0, 4.0, 99.0])).tolist()
        [0, 0, 1, 1]
    """
    if num_classes < 2:
        raise ValueError(f"`num_classes` must be at least 2; got {num_classes}")
    returns = np.asarray(returns, np.float64)
    if returns.ndim != 1 or not np.isfinite(returns).all():
        raise ValueError(
            f"`returns` must be finite numbers along one axis; got an array of shape "
            f"{list(returns.shape)}{'' if np.isfinite(returns).all() else ' with others in it'}"
        )
    values, inverse, counts = np.unique(returns, return_inverse=True, return_counts=True)
    if len(values) < num_classes:
        raise ValueError(
            f"`returns` must have at least as many different values as there are classes, "
            f"{num_classes}; got {len(values)}. Take more examples or fewer classes."
        )
    places = np.zeros(len(values))
    np.add.at(places, inverse[np.argsort(returns, kind="stable")], np.arange(len(returns)))
    return Binning(values, places / counts / (len(returns) - 1), num_classes)


def class_values(num_classes: int = NUM_CLASSES) -> Float[np.ndarray, " classes"]:
    """Returns the number that each class stands for, evenly from 0 to 1.

    Example:
        >>> class_values(3).tolist()
        [0.0, 0.5, 1.0]
    """
    if num_classes < 2:
        raise ValueError(f"`num_classes` must be at least 2; got {num_classes}")
    return np.arange(num_classes, dtype=np.float32) / np.float32(num_classes - 1)


def normalized_mse(
    logits: Float[Any, "items classes"], labels: Int[Any, " items"]
) -> Float[Any, ""]:
    """Returns the mean squared error of the expected class value (Neitz, thesis, App. C.2).

    The truth is the value of the true class, not the return itself. Always predicting all classes
    alike scores 0.0887.

    Example:
        >>> import jax.numpy as jnp
        >>> round(float(normalized_mse(jnp.zeros((32, 32)), jnp.arange(32))), 4)
        0.0887
    """
    import jax  # here, so that data can be made where there is none
    import jax.numpy as jnp

    values = jnp.asarray(class_values(logits.shape[-1]), logits.dtype)
    expected = jnp.sum(jax.nn.softmax(logits, axis=-1) * values[None, :], axis=-1)
    return jnp.mean((expected - values[labels]) ** 2)
