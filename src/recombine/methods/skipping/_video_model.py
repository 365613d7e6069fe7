"""The model of images: seven convolutions from one frame to the next (Neitz, thesis, App. A.0.1).

The output is a whole new image. What stands still survives because the input is laid beside the
features before the last two layers, which look at single pixels.

Where the thesis and the authors' code differ we follow the code: the transposed convolution of the
strided variant has 5 x 5 pixels, not 7 x 7, and "He et al." means uniform in ±√(6/fan-in).
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.skipping._convolution import Convolution, Precision
from recombine.methods.skipping._copying import start_as_copy
from recombine.methods.skipping._joining import MOST_KERNELS, Weights, join_pixels
from recombine.methods.skipping._pixels import pixels_of

Architecture = Literal["simple", "dilated", "strided"]
"""Plain; with a fourth layer of dilation 2; or at half the resolution from layer 2 to layer 4."""

Start = Literal["random", "copy"]
"""How weights start: all at random, as published, or so that the input is returned unchanged."""

CHANNELS = 3


class VideoModel(eqx.Module):
    """From one image with values in [0, 1] to the next one.

    Seven layers with ReLUs between them and a sigmoid at the end (`pixels_of`); the input joins the
    features before the sixth. No pixel sees further than 11 (simple), 14 (dilated) or about 12
    (strided) pixels, which bounds how far a thing can move in one prediction.
    """

    layers: list[Convolution]
    precision: Precision = eqx.field(static=True)

    def __init__(
        self,
        architecture: Architecture = "simple",
        kernels: int = 48,
        *,
        key: PRNGKeyArray,
        precision: Precision = "default",
        channels: int = CHANNELS,
    ):
        keys = jr.split(key, 7)
        n, is_strided = kernels, architecture == "strided"
        self.precision = precision
        self.layers = [
            Convolution(5, channels, n, key=keys[0]),
            Convolution(5, n, n, key=keys[1], stride=2 if is_strided else 1),
            Convolution(5, n, n, key=keys[2]),
            Convolution(5, n, n, key=keys[3], stride=2, is_transposed=True)
            if is_strided
            else Convolution(7, n, n, key=keys[3], dilation=2 if architecture == "dilated" else 1),
            Convolution(5, n, n, key=keys[4]),
            Convolution(1, channels + n, n, key=keys[5]),
            Convolution(1, n, channels, key=keys[6]),
        ]

    def __call__(
        self, image: Float[Array, "height width channels"]
    ) -> Float[Array, "height width channels"]:
        """Predicts the image that comes some time after this one."""
        height, width, _ = image.shape
        features = _convolved(self.layers[0], image, self.precision)
        for layer in self.layers[1:5]:
            features = _convolved(layer, features, self.precision, after_relu=True)
            if layer.is_transposed:  # an odd size comes back one too large
                features = features[:height, :width]
        # The image itself is never rounded: what stands still would fade from step to step.
        join, out = self.layers[5:]
        if self.precision != "bfloat16":
            return _join(join, out, image, features, self.precision)
        if jax.default_backend() == "gpu" and features.shape[-1] <= MOST_KERNELS:
            return _joined_by_kernel(join, out, image, features)
        return _join(join, out, image, features, "default")


# For the backward pass of a rollout only what enters these functions is kept: the shifted copies
# and what a ReLU lets through are several times as large, and quickly made again. The products of a
# convolution are not; nothing in its own derivative needs them.
_lean: Any = partial(eqx.filter_checkpoint, prevent_cse=False)


@_lean
def _convolved(
    layer: Convolution,
    image: Float[Array, "height width inputs"],
    precision: Precision,
    after_relu: bool = False,
) -> Float[Array, "tall wide outputs"]:
    return layer(jax.nn.relu(image) if after_relu else image, precision)


@_lean
def _join(
    join: Convolution,
    out: Convolution,
    image: Float[Array, "height width channels"],
    features: Float[Array, "height width kernels"],
    precision: Precision,
) -> Float[Array, "height width channels"]:
    """Lays the input beside the features, and makes an image of both."""
    features = jax.nn.relu(features).astype(image.dtype)
    features = join(jnp.concatenate([image, features], axis=-1), precision)
    return pixels_of(out(jax.nn.relu(features), precision))


def _joined_by_kernel(
    join: Convolution,
    out: Convolution,
    image: Float[Array, "height width channels"],
    features: Float[Array, "height width kernels"],
) -> Float[Array, "height width channels"]:
    """Does the same, with the products of features in bfloat16."""
    channels = image.shape[-1]
    of_image, of_features = join.weight[0, 0, :channels], join.weight[0, 0, channels:]
    weights = Weights(of_image, of_features, join.bias, out.weight[0, 0], out.bias)
    pixels: Any = join_pixels(
        image.reshape(-1, channels), features.reshape(-1, features.shape[-1]), weights
    )
    return pixels.reshape(image.shape)


@dataclass(frozen=True)
class VideoModelShape:
    """The sizes of a `VideoModel`; calling it makes one."""

    architecture: Architecture = "simple"
    kernels: int = 48
    precision: Precision = "default"
    channels: int = CHANNELS
    """Of an image: 3 for colours, 1 for greys."""
    start: Start = "random"
    """With "copy" a model starts by returning nearly what it is given, see `start_as_copy`."""

    def __post_init__(self) -> None:
        if self.architecture not in ("simple", "dilated", "strided"):
            raise ValueError(
                f'`architecture` must be "simple", "dilated" or "strided"; got '
                f"{self.architecture!r}"
            )
        if self.precision not in ("highest", "default", "bfloat16"):
            raise ValueError(
                f'`precision` must be "highest", "default" or "bfloat16"; got {self.precision!r}'
            )
        if self.start not in ("random", "copy"):
            raise ValueError(f'`start` must be "random" or "copy"; got {self.start!r}')
        for name in ("kernels", "channels"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1; got {getattr(self, name)}")
        if self.start == "copy" and self.kernels < self.channels:
            raise ValueError(
                f"a model that starts as a copy needs at least one kernel for each of the "
                f"{self.channels} channels; got {self.kernels}"
            )

    def __call__(self, key: PRNGKeyArray) -> VideoModel:
        """Returns a model at its start."""
        model = VideoModel(
            self.architecture,
            self.kernels,
            key=key,
            precision=self.precision,
            channels=self.channels,
        )
        return start_as_copy(model) if self.start == "copy" else model
