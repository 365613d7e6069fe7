"""The sigmoid at the end of the video model, and the loss of what it makes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from recombine.methods.skipping import BINARY_CROSS_ENTROPY
from recombine.methods.skipping._frames import EPSILON
from recombine.methods.skipping._pixels import pixels_of

LOGITS = jnp.array([-40.0, -17.0, -14.0, -3.0, 0.0, 0.5, 3.0, 14.0, 17.0, 40.0])


def gradients(sigmoid, truth):
    def loss(logit):
        return BINARY_CROSS_ENTROPY(sigmoid(logit), jnp.float32(truth))

    return jax.vmap(jax.grad(loss))(LOGITS)


@pytest.mark.parametrize("truth", [0.0, 0.4, 1.0])
def test_the_gradient_is_that_of_a_cross_entropy_of_logits(truth):
    np.testing.assert_allclose(
        gradients(pixels_of, truth), jax.nn.sigmoid(LOGITS) - truth, atol=1e-4
    )


def test_the_derivatives_as_they_are_would_leave_saturated_pixels_wrong():
    as_it_is = gradients(jax.nn.sigmoid, 0.0)
    assert as_it_is[-1] == as_it_is[-2] == 0.0  # shown as white, and should be black
    assert as_it_is[-3] < 0.5


def test_pixels_are_those_of_a_sigmoid():
    assert jnp.array_equal(pixels_of(LOGITS), jax.nn.sigmoid(LOGITS))


def test_the_derivative_is_the_usual_one_up_to_the_epsilon_of_the_loss():
    ours, usual = (jax.vmap(jax.grad(f))(LOGITS) for f in (pixels_of, jax.nn.sigmoid))
    assert float(jnp.max(jnp.abs(ours - usual))) <= 1.1 * EPSILON
    (_, forwards) = jax.jvp(pixels_of, (LOGITS,), (jnp.ones_like(LOGITS),))
    assert jnp.array_equal(forwards, ours)
