"""The last two layers of the video model as kernels, beside the layers as they are."""

from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.skipping import BINARY_CROSS_ENTROPY
from recombine.methods.skipping._joining import BLOCK, Weights, join_pixels
from recombine.methods.skipping._pixels import pixels_of


def plainly(image, features, weights):
    seen = jax.nn.relu(features).astype(jnp.float32)
    of_features = weights.of_features.astype(jnp.bfloat16).astype(jnp.float32)
    hidden = image @ weights.of_image + seen @ of_features + weights.hidden[None]
    return pixels_of(jax.nn.relu(hidden) @ weights.out + weights.last[None])


def draw(kernels, pixels, channels=3):
    keys = jr.split(jr.key(kernels), 7)
    weights = Weights(
        jr.normal(keys[0], (channels, kernels)),
        0.3 * jr.normal(keys[1], (kernels, kernels)),
        jr.normal(keys[2], (kernels,)),
        0.3 * jr.normal(keys[3], (kernels, channels)),
        jr.normal(keys[4], (channels,)),
    )
    images = jr.uniform(keys[5], (2, pixels, channels))
    features = jr.normal(keys[6], (2, pixels, kernels)).astype(jnp.bfloat16)
    return images, features, weights


@pytest.mark.parametrize(
    ("kernels", "pixels", "channels"), [(32, BLOCK, 3), (12, 2 * BLOCK + 5, 3), (5, 7, 1)]
)
def test_kernels_compute_what_the_layers_do_and_its_gradients(kernels, pixels, channels):
    def graded(join):
        def loss(images, features, weights):
            made = jax.vmap(lambda image, seen: join(image, seen, weights))(images, features)
            return jnp.sum(jnp.sin(3 * made)), made

        parts = draw(kernels, pixels, channels)
        return jax.jit(jax.grad(loss, argnums=(0, 1, 2), has_aux=True))(*parts)

    ours, made = graded(lambda *parts: join_pixels(*parts, True))
    gradients, expected = graded(plainly)
    np.testing.assert_allclose(made, expected, atol=1e-6)
    for our, gradient in zip(jax.tree.leaves(ours), jax.tree.leaves(gradients), strict=True):
        assert our.dtype == gradient.dtype
        our, gradient = our.astype(jnp.float32), gradient.astype(jnp.float32)
        # Errors are rounded to 16 bits before they go to the features and their weights.
        np.testing.assert_allclose(our, gradient, atol=0.01 * float(jnp.abs(gradient).max()))


@pytest.mark.parametrize("join", [plainly, partial(join_pixels, interpret=True)])
def test_saturated_pixels_that_are_wrong_are_corrected(join):
    images, features, weights = draw(5, 7)
    weights = weights._replace(last=jnp.array([40.0, -40.0, 0.0]))  # white, black, between

    def loss(last, truth):
        made = join(images[0], features[0], weights._replace(last=last))
        return BINARY_CROSS_ENTROPY(made, truth)

    gradient = jax.grad(loss)(weights.last, jnp.tile(jnp.array([0.0, 1.0, 0.5]), (7, 1)))
    share = 1 / 3  # of a channel in the mean
    # One more than epsilon, less one, is only nearly epsilon in float32.
    np.testing.assert_allclose(gradient[:2], [share, -share], rtol=0.06)


def test_a_model_of_16_bits_can_be_compiled_for_a_gpu_with_them(monkeypatch):
    from recombine.methods.skipping import VideoModelShape

    model = VideoModelShape("strided", 12, precision="bfloat16")(jr.key(0))
    images = jnp.zeros((2, 9, 7, 3))

    def loss(images):
        return jnp.sum(jax.vmap(model)(images))

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    traced = jax.jit(jax.value_and_grad(loss)).trace(images)
    monkeypatch.undo()
    program = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert program.count("triton") >= 2  # one for each direction
