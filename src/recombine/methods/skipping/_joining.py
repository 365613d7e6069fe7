r"""The last two layers of the video model: input and features, side by side, become an image.

$$y = \sigma\left(W_o^\top \max\left(0,\, W_x^\top x + W_f^\top \max(0, f) + b\right) + c\right)$$

for every pixel by itself, with the pixel of the input x and the features f. On a GPU these layers
took longer than the convolutions before them: little is computed, and everything goes to memory and
back again and again. With features of 16 bits they are therefore two kernels there, one for each
direction, which read a block of pixels once. The input and what is made of it stay in float32;
products with features are of 16-bit numbers, added up in float32. The sigmoid has the derivative of
`pixels_of`.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

from recombine.methods.skipping._pixels import slope_at

BLOCK = 128
"""Pixels of a program."""
MOST_KERNELS = 128
"""Every program holds all weights between features; with more of them that would be too much."""
WARPS = 8


class Weights(NamedTuple):
    """Of the two layers."""

    of_image: Float[Array, "channels hidden"]
    of_features: Float[Array, "kernels hidden"]
    hidden: Float[Array, " hidden"]
    out: Float[Array, "hidden channels"]
    last: Float[Array, " channels"]


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def join_pixels(
    image: Float[Array, "pixels channels"],
    features: Float[Array, "pixels kernels"],
    weights: Weights,
    interpret: bool = False,
) -> Float[Array, "pixels channels"]:
    """Returns the pixels of the next image, by a kernel.

    Args:
        image: what the model is fed, in float32.
        features: before their ReLU, in bfloat16.
        weights: of both layers, in float32.
        interpret: whether to run without a GPU, slowly.
    """
    filled = _fill(image, features, weights)
    made = _call(_forward, filled, (), [_pixels_like(filled.image)], interpret)
    return made[0][: len(image)]


def _join_forward(
    image: Array, features: Array, weights: Weights, interpret: bool
) -> tuple[Array, tuple[Array, Array, Weights]]:
    return join_pixels(image, features, weights, interpret), (image, features, weights)


def _join_backward(
    interpret: bool, kept: tuple[Array, Array, Weights], wanted: Array
) -> tuple[Array, Array, Weights]:
    image, features, weights = kept
    filled = _fill(image, features, weights)
    wanted = _rows(wanted, len(filled.image))
    blocks = len(filled.image) // BLOCK
    sums = [
        jax.ShapeDtypeStruct((blocks, *part.shape), jnp.float32)
        for part in (*filled.weights[:3], filled.weights.out.T, filled.weights.last)
    ]
    like = [_pixels_like(filled.image), _pixels_like(filled.features)]
    of_image, of_features, *sums = _call(_backward, filled, (wanted,), [*like, *sums], interpret)
    x, f, hidden, out, last = (jnp.sum(part, axis=0) for part in sums)
    kernels, width = weights.of_features.shape
    return (
        of_image[: len(image)],
        of_features[: len(image), :kernels],
        Weights(x[:, :width], f[:kernels, :width], hidden[:width], out.T[:width], last),
    )


join_pixels.defvjp(_join_forward, _join_backward)


# --- the calls ---------------------------------------------------------------------------------


class _Filled(NamedTuple):
    """Sizes as kernels take them: whole blocks, and powers of two; what fills them up is 0."""

    image: Array
    features: Array
    weights: Weights


def _fill(image: Array, features: Array, weights: Weights) -> _Filled:
    kernels, hidden = (_power_of_two(size) for size in weights.of_features.shape)
    rows = -(-len(image) // BLOCK) * BLOCK

    def columns(array: Array, size: int) -> Array:
        return jnp.pad(array, [*[(0, 0)] * (array.ndim - 1), (0, size - array.shape[-1])])

    of_features = columns(weights.of_features, hidden)
    of_features = jnp.pad(of_features, ((0, kernels - len(of_features)), (0, 0)))
    return _Filled(
        _rows(image, rows),
        columns(_rows(features, rows), kernels),
        Weights(
            columns(weights.of_image, hidden),
            of_features.astype(features.dtype),
            columns(weights.hidden, hidden),
            columns(weights.out.T, hidden).T,
            weights.last,
        ),
    )


def _power_of_two(size: int) -> int:
    """Returns the next one, and at least what a product of matrices takes."""
    return max(16, 1 << (size - 1).bit_length())


def _rows(array: Array, rows: int) -> Array:
    return jnp.pad(array, ((0, rows - len(array)), (0, 0)))


def _pixels_like(array: Array) -> Any:
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


def _call(
    kernel: Any, filled: _Filled, more: tuple[Array, ...], shapes: list[Any], interpret: bool
) -> Any:
    on_triton: dict[str, Any] = {}
    if not interpret:
        from jax.experimental.pallas import triton

        on_triton = {"compiler_params": triton.CompilerParams(num_warps=WARPS, num_stages=1)}
    rows = len(filled.image)
    of_pixels = (filled.image, filled.features, *more)
    weights = filled.weights._replace(out=filled.weights.out.T)

    def of_block(shape: Any) -> Any:
        if shape.shape[0] == rows:
            return pl.BlockSpec((BLOCK, shape.shape[1]), lambda block: (block, 0))
        zeros = (0,) * (len(shape.shape) - 1)
        return pl.BlockSpec((None, *shape.shape[1:]), lambda block: (block, *zeros))

    def everywhere(array: Array) -> Any:
        zeros = (0,) * array.ndim
        return pl.BlockSpec(array.shape, lambda block: zeros)

    return pl.pallas_call(
        kernel,
        out_shape=shapes,
        grid=(rows // BLOCK,),
        in_specs=[*map(of_block, of_pixels), *map(everywhere, weights)],
        out_specs=[of_block(shape) for shape in shapes],
        interpret=interpret,
        **on_triton,
    )(*of_pixels, *weights)


# --- the kernels -------------------------------------------------------------------------------


def _forward(image: Any, features: Any, *refs: Any) -> None:
    *weights, made = refs
    _, _, _, pixels = _joined(image, features, *weights)
    for channel, one in enumerate(pixels):
        made[:, channel] = one


def _backward(image: Any, features: Any, wanted: Any, *refs: Any) -> None:
    weights, refs = refs[:5], refs[5:]
    of_image, of_features, x_sum, f_sum, hidden_sum, out_sum, last_sum = refs
    of_x, of_f, _, out, _ = weights
    seen, hidden, is_active, pixels = _joined(image, features, *weights)
    channels = range(len(pixels))

    errors = [wanted[:, channel] * slope_at(y) for channel, y in enumerate(pixels)]
    back = jnp.zeros_like(hidden)
    for channel in channels:
        back += errors[channel][:, None] * out[channel, :][None]
        out_sum[channel, :] = jnp.sum(errors[channel][:, None] * hidden, axis=0)
        last_sum[channel] = jnp.sum(errors[channel])
    back = jnp.where(is_active, back, 0.0)
    hidden_sum[:] = jnp.sum(back, axis=0)
    for channel in channels:
        of_image[:, channel] = jnp.sum(back * of_x[channel, :][None], axis=1)
        x_sum[channel, :] = jnp.sum(image[:, channel][:, None] * back, axis=0)
    back = back.astype(seen.dtype)
    f_sum[...] = _product(seen, back, (0, 0))
    to_features = _product(back, of_f[...], (1, 1))
    of_features[...] = jnp.where(seen > 0, to_features, 0.0).astype(seen.dtype)


def _joined(
    image: Any, features: Any, of_x: Any, of_f: Any, bias: Any, out: Any, last: Any
) -> tuple[Any, Any, Any, list[Any]]:
    """Returns the features that are seen, the hidden layer, where it is not 0, and pixels."""
    seen = features[...]
    seen = jnp.where(seen > 0, seen, jnp.zeros_like(seen))
    hidden = _product(seen, of_f[...], (1, 0)) + bias[...][None]
    channels = range(last.shape[0])
    for channel in channels:
        hidden += image[:, channel][:, None] * of_x[channel, :][None]
    is_active = hidden > 0
    hidden = jnp.where(is_active, hidden, 0.0)
    sums = [jnp.sum(hidden * out[channel, :][None], axis=1) + last[channel] for channel in channels]
    return seen, hidden, is_active, [1 / (1 + jnp.exp(-one)) for one in sums]


def _product(first: Any, second: Any, axes: tuple[int, int]) -> Any:
    dimensions = (((axes[0],), (axes[1],)), ((), ()))
    return jax.lax.dot_general(first, second, dimensions, preferred_element_type=jnp.float32)
