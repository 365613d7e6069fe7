r"""Task B: the labels are drawn by chance, and the privileged data show the chances.

$$x \sim N(0, I_D), \quad h = 3 A x, \quad y \sim \mathrm{Categorical}(\mathrm{softmax}\, h), \quad
x^* = B h$$

A large network that fits the drawn labels is sure of what is not certain; measured is how far its
predictions lie from the true chances. (Neitz, thesis, §4.4.1 and App. C.) A and B are drawn once,
uniformly within one over the root of their number of columns.

What differs from the text: the factor 3 is only in the authors' code. Without it an untrained
network already scores 0.12, not the 0.53 of the figure.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recombine.tasks.privileged_toys._uniform import check_sizes, uniform_matrix

SHARPNESS = 3.0
"""What the logits are multiplied with, in the authors' code."""


class NoisyWorld(NamedTuple):
    """What training and test set of a seed share."""

    projection: Float[Array, "classes inputs"]
    view: Float[Array, "privileged classes"]


class NoisyExamples(NamedTuple):
    """Examples of task B."""

    inputs: Float[Array, "examples inputs"]
    privileged: Float[Array, "examples privileged"]
    """The true logits in another form."""
    labels: Int[Array, " examples"]
    """Drawn with the true chances."""
    logits: Float[Array, "examples classes"]
    """The true chances, by softmax; to measure predictions by, not to learn from."""


def draw_noisy_world(
    key: PRNGKeyArray, *, num_inputs: int = 128, num_classes: int = 4, num_privileged: int = 32
) -> NoisyWorld:
    """Draws the two matrices of a seed; the sizes are the published ones."""
    check_sizes(num_inputs=num_inputs, num_classes=num_classes, num_privileged=num_privileged)
    projection_key, view_key = jr.split(key)
    return NoisyWorld(
        uniform_matrix(projection_key, num_classes, num_inputs),
        uniform_matrix(view_key, num_privileged, num_classes),
    )


@partial(jax.jit, static_argnames="num_examples")
def sample_noisy(
    key: PRNGKeyArray, world: NoisyWorld, *, num_examples: int = 1000
) -> NoisyExamples:
    """Draws examples of task B; 1,000 for training and 1,000 for testing were used.

    Example:
        >>> examples = sample_noisy(jr.key(1), draw_noisy_world(jr.key(0)), num_examples=5)
        >>> examples.inputs.shape, examples.privileged.shape, examples.logits.shape
        ((5, 128), (5, 32), (5, 4))
    """
    check_sizes(num_examples=num_examples)
    input_key, label_key = jr.split(key)
    inputs = jr.normal(input_key, (num_examples, world.projection.shape[1]))
    logits = SHARPNESS * jnp.matmul(inputs, world.projection.T, precision="highest")
    labels = jr.categorical(label_key, logits, axis=-1).astype(jnp.int32)
    privileged = jnp.matmul(logits, world.view.T, precision="highest")
    return NoisyExamples(inputs, privileged, labels, logits)


def divergence_from_truth(
    true_logits: Float[Array, "examples classes"], logits: Float[Array, "examples classes"]
) -> Float[Array, ""]:
    """Returns the mean KL divergence of predicted from true chances, D(true ‖ predicted).

    Example:
        >>> float(divergence_from_truth(jnp.zeros((2, 4)), jnp.ones((2, 4))))
        0.0
    """
    truth, predicted = (jax.nn.log_softmax(each, axis=-1) for each in (true_logits, logits))
    return jnp.mean(jnp.sum(jnp.exp(truth) * (truth - predicted), axis=-1))
