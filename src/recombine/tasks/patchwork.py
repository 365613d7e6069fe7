r"""A network that fits a function by patches, one for each environment.

Two sigmoid units make a staircase of two steps. Environment A shows the left half of it,
environment B the right half. The unit of the second step says nothing about A, so that A leaves
its output weight free: a solution of both is sewn together from what suits each. (Neitz, thesis,
App. B.1.1, Fig. B.1; the construction is that of the universal approximation theorem.)

$$f_\theta(x) = \theta_5\, s(\theta_1 x + \theta_2) + \theta_6\, s(\theta_3 x + \theta_4),
\qquad s(z) = 1 / (1 + e^{-z})$$

The data have no noise, so the loss of an environment is an integral; here it is the mean over the
middles of many small intervals of equal length.

The thesis prints $\theta_2 = -50$, which puts the first step at x = 0.5, and says that both losses
are small. The first ramp of the target has its middle at 0.45: with $\theta_2 = -45$ the loss of
environment A is 14 times smaller, and the sentence true. Both are here.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

PRINTED_OFFSET = -50.0
"""The second parameter as the thesis prints it: the first step at x = 0.5."""

CENTRED_OFFSET = -45.0
"""The second parameter that puts the first step in the middle of the target's ramp."""

NUM_POINTS = 4096
"""Points of an environment: the losses are then exact to the seventh digit or so."""


class Environments(NamedTuple):
    """Both halves of the function, A then B."""

    inputs: Float[Array, "2 points"]
    targets: Float[Array, "2 points"]


def target(inputs: Float[Array, " *shape"]) -> Float[Array, " *shape"]:
    """Returns the staircase: 0, a ramp from 0.4 to 0.5, 1, a ramp from 0.7 to 0.8, 2.

    Example:
        >>> import jax.numpy as jnp
        >>> target(jnp.array([0.25, 0.625, 1.0])).tolist()
        [0.0, 1.0, 2.0]
    """
    return jnp.clip(10 * (inputs - 0.4), 0.0, 1.0) + jnp.clip(10 * (inputs - 0.7), 0.0, 1.0)


def network(params: Float[Array, " 6"], inputs: Float[Array, " *shape"]) -> Float[Array, " *shape"]:
    """Returns the output of the two sigmoid units."""
    first = params[4] * jax.nn.sigmoid(params[0] * inputs + params[1])
    return first + params[5] * jax.nn.sigmoid(params[2] * inputs + params[3])


def solution(offset: float | Float[Array, ""] = PRINTED_OFFSET) -> Float[Array, " 6"]:
    """Returns the parameters that fit both environments.

    Example:
        >>> solution().tolist()
        [100.0, -50.0, 100.0, -75.0, 1.0, 1.0]
    """
    return jnp.array([100.0, offset, 100.0, -75.0, 1.0, 1.0])


def variation(offset: float | Float[Array, ""] = PRINTED_OFFSET) -> Float[Array, " 6"]:
    """Returns the solution with its last weight at -0.5, which A cannot see and B can."""
    return solution(offset).at[5].set(-0.5)


def make_environments(num_points: int = NUM_POINTS) -> Environments:
    """Returns evenly spread points of [0, 0.5) and of [0.5, 1], with the function there.

    Example:
        >>> make_environments(2).inputs.tolist()
        [[0.125, 0.375], [0.625, 0.875]]
    """
    if num_points < 1:
        raise ValueError(f"`num_points` must be at least 1; got {num_points}")
    left = (jnp.arange(num_points) + 0.5) / (2 * num_points)
    inputs = jnp.stack([left, left + 0.5])
    return Environments(inputs, target(inputs))


def loss(
    params: Float[Array, " 6"], environment: tuple[Float[Array, " points"], Float[Array, " points"]]
) -> Float[Array, ""]:
    """Returns the mean squared error on one environment: its inputs and its targets.

    Example:
        >>> from recombine.tasks import patchwork
        >>> inputs, targets = patchwork.make_environments()
        >>> round(float(patchwork.loss(patchwork.solution(), (inputs[0], targets[0]))), 6)
        0.046093
    """
    inputs, targets = environment
    return jnp.mean((network(params, inputs) - targets) ** 2)
