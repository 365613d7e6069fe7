r"""Linear regression with a weight for each environment and one weight for all.

The only example of environment i has a large input of its own, 3, and a small one that all share,
0.3; the target is always 1. The large input is the faster way down, and useless elsewhere: what is
learned by it does not carry over to an environment that was not seen. (The notebook of the authors'
code, with one example in each of four environments.)

$$x_i = (3 e_i,\ 0.3), \qquad y_i = 1, \qquad L_i(\theta) = \tfrac12 (x_i^\top \theta - y_i)^2$$
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

NUM_ENVS = 4
"""As in the notebook."""

OWN = 3.0
"""The input that only one environment has."""

SHARED = 0.3
"""The input that all environments have."""


class Examples(NamedTuple):
    """One example for each environment."""

    inputs: Float[Array, "envs features"]
    targets: Float[Array, " envs"]


def make_examples(num_envs: int = NUM_ENVS) -> Examples:
    """Returns the environments, one example each.

    Example:
        >>> make_examples(2).inputs[:, :2].tolist()  # beside them, 0.3 for both
        [[3.0, 0.0], [0.0, 3.0]]
    """
    if num_envs < 1:
        raise ValueError(f"`num_envs` must be at least 1; got {num_envs}")
    shared = jnp.full((num_envs, 1), SHARED)
    inputs = jnp.concatenate([OWN * jnp.eye(num_envs), shared], axis=-1)
    return Examples(inputs, jnp.ones(num_envs))


def loss(
    params: Float[Array, " features"], example: tuple[Float[Array, " features"], Float[Array, ""]]
) -> Float[Array, ""]:
    """Returns half the squared error of one environment's example."""
    inputs, target = example
    return 0.5 * (jnp.dot(inputs, params) - target) ** 2
