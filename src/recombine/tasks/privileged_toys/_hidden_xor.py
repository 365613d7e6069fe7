r"""Task A: the privileged data explain the label, and cannot be predicted from the input.

Two hidden numbers h decide the label, by XOR of their signs. The privileged data give them away,
but multiplied with random signs s that stand beside them:

$$x \sim N(0, I_D), \quad h = A x, \quad y = [h_1 > 0] \oplus [h_2 > 0], \quad
x^* = (s_1, s_2, s_1 h_1, s_2 h_2)$$

Whoever regresses x* from x learns nothing, since its mean is 0 for every x; whoever multiplies its
halves has h. (Neitz, thesis, §4.4.1 and App. C.) The matrix A is drawn once, from U(-1/√D, 1/√D),
and shared by training and test set, as in the authors' code; the text can be read otherwise.
"""

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recombine.tasks.privileged_toys._uniform import check_sizes, uniform_matrix


class XorWorld(NamedTuple):
    """What training and test set of a seed share."""

    projection: Float[Array, "2 inputs"]


class XorExamples(NamedTuple):
    """Examples of task A."""

    inputs: Float[Array, "examples inputs"]
    privileged: Float[Array, "examples 4"]
    """Two signs, then the two hidden numbers multiplied with them."""
    labels: Int[Array, " examples"]


def draw_xor_world(key: PRNGKeyArray, *, num_inputs: int = 64) -> XorWorld:
    """Draws the projection of a seed."""
    check_sizes(num_inputs=num_inputs)
    return XorWorld(uniform_matrix(key, 2, num_inputs))


@partial(jax.jit, static_argnames="num_examples")
def sample_xor(key: PRNGKeyArray, world: XorWorld, *, num_examples: int = 1000) -> XorExamples:
    """Draws examples of task A.

    Example:
        >>> world = draw_xor_world(jr.key(0), num_inputs=64)
        >>> examples = sample_xor(jr.key(1), world, num_examples=5)
        >>> examples.inputs.shape, examples.privileged.shape, examples.labels.shape
        ((5, 64), (5, 4), (5,))
    """
    check_sizes(num_examples=num_examples)
    input_key, sign_key = jr.split(key)
    inputs = jr.normal(input_key, (num_examples, world.projection.shape[1]))
    hidden = jnp.matmul(inputs, world.projection.T, precision="highest")
    signs = jr.rademacher(sign_key, hidden.shape, hidden.dtype)
    labels = jnp.logical_xor(hidden[:, 0] > 0, hidden[:, 1] > 0).astype(jnp.int32)
    return XorExamples(inputs, jnp.concatenate([signs, signs * hidden], axis=-1), labels)


def xor_rate(world: XorWorld) -> Float[Array, ""]:
    """Returns how often the label is 1: the angle between the rows of the projection, over π.

    Always giving the more frequent label is right this often, or one minus this.

    Example:
        >>> float(xor_rate(XorWorld(jnp.array([[1.0, 0.0], [0.0, 2.0]]))))
        0.5
    """
    first, second = world.projection
    cosine = jnp.dot(first, second, precision="highest") / (
        jnp.linalg.norm(first) * jnp.linalg.norm(second)
    )
    return jnp.arccos(jnp.clip(cosine, -1.0, 1.0)) / math.pi
