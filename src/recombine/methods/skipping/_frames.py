"""Frames, and how far a predicted one is from a true one.

Images are kept as bytes and become numbers in [0, 1] where they are used; state vectors are used as
they are. Losses are float32 whatever the model computes in: of an image's loss only a few percent
tell one frame from the next, and rounding would pick the wrong one.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import jax.numpy as jnp
from jaxtyping import Array, Float, Shaped

EPSILON = 1e-6


def as_floats(frames: Shaped[Array, " *shape"]) -> Float[Array, " *shape"]:
    """Turns bytes into numbers in [0, 1]; leaves floating-point frames as they are, in float32.

    Example:
        >>> as_floats(jnp.array([0, 255], jnp.uint8)).tolist()
        [0.0, 1.0]
    """
    if jnp.issubdtype(frames.dtype, jnp.integer):
        return frames.astype(jnp.float32) / 255
    return frames.astype(jnp.float32)


class FrameLoss(Protocol):
    """The distance of a prediction from a frame, for matching and for training alike."""

    def __call__(
        self, prediction: Float[Array, " *shape"], frame: Float[Array, " *shape"], /
    ) -> Float[Array, ""]:
        """Returns the loss of a prediction against one frame."""
        ...

    def against(
        self, prediction: Float[Array, " *shape"], frames: Float[Array, " frames *shape"], /
    ) -> Float[Array, " frames"]:
        """Returns the losses of one prediction against several frames."""
        ...


@dataclass(frozen=True)
class BinaryCrossEntropy:
    r"""The mean over pixels and channels of the cross entropy between two values in [0, 1].

    $$\ell(b, a) = -a \log(b + 10^{-6}) - (1 - a) \log(1 - b + 10^{-6})$$

    with the prediction b and the frame a (Neitz, thesis, §2.3.2). It is linear in the frame, so
    that many frames cost one logarithm and a product each.
    """

    def __call__(
        self, prediction: Float[Array, " *shape"], frame: Float[Array, " *shape"]
    ) -> Float[Array, ""]:
        """Returns the loss of a prediction against one frame."""
        prediction = prediction.astype(jnp.float32)
        yes, no = jnp.log(prediction + EPSILON), jnp.log(1 - prediction + EPSILON)
        return -jnp.mean(frame * yes + (1 - frame) * no)

    def against(
        self, prediction: Float[Array, " *shape"], frames: Float[Array, " frames *shape"]
    ) -> Float[Array, " frames"]:
        """Returns the losses of one prediction against several frames."""
        prediction = prediction.astype(jnp.float32)
        yes, no = jnp.log(prediction + EPSILON), jnp.log(1 - prediction + EPSILON)
        # A sum of products, not a matrix product: that would be rounded on some accelerators.
        axes = tuple(range(1, frames.ndim))
        fit = jnp.sum(frames * (yes - no)[None] + no[None], axis=axes)
        return -fit / math.prod(prediction.shape)


BINARY_CROSS_ENTROPY = BinaryCrossEntropy()
"""The loss of images, in the published experiments and by default."""


@dataclass(frozen=True)
class SquaredError:
    """The mean of squared differences, for state vectors."""

    def __call__(
        self, prediction: Float[Array, " *shape"], frame: Float[Array, " *shape"]
    ) -> Float[Array, ""]:
        """Returns the loss of a prediction against one frame."""
        return jnp.mean((prediction.astype(jnp.float32) - frame) ** 2)

    def against(
        self, prediction: Float[Array, " *shape"], frames: Float[Array, " frames *shape"]
    ) -> Float[Array, " frames"]:
        """Returns the losses of one prediction against several frames."""
        apart = (frames - prediction.astype(jnp.float32)[None]) ** 2
        return jnp.mean(apart, axis=tuple(range(1, frames.ndim)))
