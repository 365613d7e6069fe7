"""The model of images: seven convolutions from one frame to the next (Neitz, thesis, App. A.0.1).

The output is a whole new image. What stands still survives because the input is laid beside the
features before the last two layers, which look at single pixels.

Where the thesis and the authors' code differ we follow the code: the transposed convolution of the
strided variant has 5 x 5 pixels, not 7 x 7, and "He et al." means uniform in ±√(6/fan-in).
"""

from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

Architecture = Literal["simple", "dilated", "strided"]
"""Plain; with a fourth layer of dilation 2; or at half the resolution from layer 2 to layer 4."""

Precision = Literal["highest", "default", "bfloat16"]
"""Of the convolutions: float32, what the device likes (TF32 on some), or bfloat16 throughout."""

CHANNELS = 3
LAYOUT = ("NHWC", "HWIO", "NHWC")


class Convolution(eqx.Module):
    """A convolution that keeps the size of an image, up to its stride."""

    weight: Float[Array, "rows columns inputs outputs"]
    bias: Float[Array, " outputs"]
    stride: int = eqx.field(static=True)
    dilation: int = eqx.field(static=True)
    is_transposed: bool = eqx.field(static=True)

    def __init__(
        self,
        size: int,
        inputs: int,
        outputs: int,
        *,
        key: PRNGKeyArray,
        stride: int = 1,
        dilation: int = 1,
        is_transposed: bool = False,
    ):
        bound = (6.0 / (size * size * inputs)) ** 0.5
        shape = (size, size, inputs, outputs)
        self.weight = jr.uniform(key, shape, minval=-bound, maxval=bound)
        self.bias = jnp.zeros(outputs)
        self.stride, self.dilation, self.is_transposed = stride, dilation, is_transposed

    def __call__(
        self, image: Float[Array, "height width inputs"], precision: Precision = "default"
    ) -> Float[Array, "tall wide outputs"]:
        """Convolves one image."""
        weight, bias = self.weight, self.bias
        if precision == "bfloat16":
            image, weight = image.astype(jnp.bfloat16), weight.astype(jnp.bfloat16)
            bias = bias.astype(jnp.bfloat16)
        strides = (self.stride, self.stride)
        rounding = jax.lax.Precision.HIGHEST if precision == "highest" else None
        if self.is_transposed:
            result = jax.lax.conv_transpose(
                image[None], weight, strides, "SAME", dimension_numbers=LAYOUT, precision=rounding
            )
        else:
            result = jax.lax.conv_general_dilated(
                image[None],
                weight,
                strides,
                "SAME",
                rhs_dilation=(self.dilation, self.dilation),
                dimension_numbers=LAYOUT,
                precision=rounding,
            )
        return result[0] + bias[None, None]


class VideoModel(eqx.Module):
    """From one image with values in [0, 1] to the next one.

    Seven layers with ReLUs between them and a sigmoid at the end; the input joins the features
    before the sixth. No pixel sees further than 11 (simple), 14 (dilated) or about 12 (strided)
    pixels, which bounds how far a thing can move in one prediction.
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
        features = image
        for layer in self.layers[:5]:
            features = jax.nn.relu(layer(features, self.precision))
            if layer.is_transposed:  # an odd size comes back one too large
                features = features[:height, :width]
        features = jnp.concatenate([image.astype(features.dtype), features], axis=-1)
        features = jax.nn.relu(self.layers[5](features, self.precision))
        logits = self.layers[6](features, self.precision)
        return jax.nn.sigmoid(logits.astype(jnp.float32))


@dataclass(frozen=True)
class VideoModelShape:
    """The sizes of a `VideoModel`; calling it makes one."""

    architecture: Architecture = "simple"
    kernels: int = 48
    precision: Precision = "default"
    channels: int = CHANNELS
    """Of an image: 3 for colours, 1 for greys."""

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
        for name in ("kernels", "channels"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1; got {getattr(self, name)}")

    def __call__(self, key: PRNGKeyArray) -> VideoModel:
        """Returns a model at its random start."""
        return VideoModel(
            self.architecture,
            self.kernels,
            key=key,
            precision=self.precision,
            channels=self.channels,
        )
