"""Convolutions that keep the size of an image, up to their stride.

On a CPU they are products of matrices: a convolution that is called in a loop is slow there, and so
are its derivatives. Other devices have kernels for them.
"""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

Precision = Literal["highest", "default", "bfloat16"]
"""Of the convolutions: float32, what the device likes (TF32 on some), or bfloat16 where pixels are
seen together; the last two layers, which see single pixels, are then as the device likes."""


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
        if is_transposed and (size, stride) != (5, 2):
            raise ValueError(
                f"a transposed convolution has 5 x 5 weights and a stride of 2; got a size of "
                f"{size} and a stride of {stride}"
            )
        bound = (6.0 / (size * size * inputs)) ** 0.5
        shape = (size, size, inputs, outputs)
        self.weight = jr.uniform(key, shape, minval=-bound, maxval=bound)
        self.bias = jnp.zeros(outputs)
        self.stride, self.dilation, self.is_transposed = stride, dilation, is_transposed

    def __call__(
        self, image: Float[Array, "height width inputs"], precision: Precision = "default"
    ) -> Float[Array, "tall wide outputs"]:
        """Convolves one image."""
        weight = self.weight
        if precision == "bfloat16":
            image, weight = image.astype(jnp.bfloat16), weight.astype(jnp.bfloat16)
        rounding = jax.lax.Precision.HIGHEST if precision == "highest" else None
        if self.is_transposed:
            result = _convolve_transposed(image, weight, rounding)
        elif self.dilation > 1:
            result = _convolve_dilated(image, weight, self.dilation, rounding)
        else:
            result = _convolve(image[None], weight, rounding, self.stride)[0]
        # In float32 also where pixels are not: the bias' gradient is a sum over all of them, which
        # would not grow beyond 256 ones in bfloat16.
        return (result.astype(self.bias.dtype) + self.bias[None, None]).astype(result.dtype)


def _convolve(
    images: Float[Array, "batch height width inputs"],
    weight: Float[Array, "rows columns inputs outputs"],
    rounding: jax.lax.Precision | None,
    stride: int = 1,
) -> Float[Array, "batch tall wide outputs"]:
    """Convolves with zeros around the images."""
    if weight.shape[:2] == (1, 1) or jax.default_backend() == "cpu":
        return _as_product(images, weight, rounding, stride)
    if images.dtype == jnp.bfloat16:  # kernels for 16 bits take channels by eights, or are slow
        few = -images.shape[-1] % 8
        images = jnp.pad(images, [*[(0, 0)] * 3, (0, few)])
        weight = jnp.pad(weight, [*[(0, 0)] * 2, (0, few), (0, 0)])
    return jax.lax.conv_general_dilated(
        *(images, weight, (stride, stride), "SAME"),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        precision=rounding,
    )


def _as_product(
    images: Float[Array, "batch height width inputs"],
    weight: Float[Array, "rows columns inputs outputs"],
    rounding: jax.lax.Precision | None,
    stride: int,
) -> Float[Array, "batch tall wide outputs"]:
    """Does the same as one product with shifted copies side by side."""
    rows, columns, inputs, outputs = weight.shape
    down, tall = _reach(images.shape[1], rows, stride)
    across, wide = _reach(images.shape[2], columns, stride)
    padded = jnp.pad(images, ((0, 0), down, across, (0, 0)))

    def product(copies: list[Array], weight: Array) -> Array:
        beside = copies[0] if len(copies) == 1 else jnp.concatenate(copies, axis=-1)
        return jnp.einsum("bhwi,io->bhwo", beside, weight, precision=rounding)

    if stride == 1 and columns * inputs + rows * outputs < rows * columns * inputs:
        # Copies for the columns only; the rows are products beside each other, and shifted then.
        copies = [padded[:, :, column : column + wide] for column in range(columns)]
        by_column = weight.transpose(1, 2, 0, 3).reshape(columns * inputs, rows * outputs)
        first, *others = jnp.split(product(copies, by_column), rows, axis=-1)
        total = first[:, :tall]
        for row, part in enumerate(others, 1):
            total += part[:, row : row + tall]
        return total
    copies = [
        padded[:, row : row + tall : stride, column : column + wide : stride]
        for row in range(rows)
        for column in range(columns)
    ]
    return product(copies, weight.reshape(rows * columns * inputs, outputs))


def _reach(size: int, weights: int, stride: int) -> tuple[tuple[int, int], int]:
    """Returns how many zeros go before and after an axis, and how much of it a copy covers."""
    reach = (-(-size // stride) - 1) * stride + 1
    missing = max(reach - 1 + weights - size, 0)
    return (missing // 2, missing - missing // 2), reach


# A dilated or a transposed convolution is the same sum as one without dilation, of small images or
# with small weights.


def _convolve_dilated(
    image: Float[Array, "height width inputs"],
    weight: Float[Array, "rows columns inputs outputs"],
    dilation: int,
    rounding: jax.lax.Precision | None,
) -> Float[Array, "height width outputs"]:
    """Convolves every `dilation`-th pixel with every `dilation`-th, as so many small images."""
    height, width, channels = image.shape
    tall, wide = -(-height // dilation), -(-width // dilation)
    fill = ((0, tall * dilation - height), (0, wide * dilation - width), (0, 0))
    parts = jnp.pad(image, fill).reshape(tall, dilation, wide, dilation, channels)
    small = parts.transpose(1, 3, 0, 2, 4).reshape(dilation**2, tall, wide, channels)
    result = _convolve(small, weight, rounding)
    whole = result.reshape(dilation, dilation, tall, wide, -1).transpose(2, 0, 3, 1, 4)
    return whole.reshape(tall * dilation, wide * dilation, -1)[:height, :width]


def _convolve_transposed(
    image: Float[Array, "height width inputs"],
    weight: Float[Array, "5 5 inputs outputs"],
    rounding: jax.lax.Precision | None,
) -> Float[Array, "2*height 2*width outputs"]:
    """Doubles the size of an image by a transposed convolution, as `jax.lax.conv_transpose` does.

    Of the five weights along an axis, pixels 2i + 1 of the output take the first, third and fifth,
    pixels 2i the second and fourth: one convolution with 3 x 3 pixels has four outputs in one.
    """
    height, width, inputs = image.shape
    outputs = weight.shape[-1]
    six = jnp.pad(weight, ((0, 1), (0, 1), (0, 0), (0, 0)))
    split = six.reshape(3, 2, 3, 2, inputs, outputs)[:, ::-1, :, ::-1]
    small = split.transpose(0, 2, 4, 1, 3, 5).reshape(3, 3, inputs, 4 * outputs)
    result = _convolve(image[None], small, rounding)[0]
    parts = result.reshape(height, width, 2, 2, outputs).transpose(0, 2, 1, 3, 4)
    return parts.reshape(2 * height, 2 * width, outputs)
