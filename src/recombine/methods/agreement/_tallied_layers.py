r"""Layers whose backward pass counts, for every weight, the signs of the examples' gradients.

With one environment per example, the AND-mask needs two sums over the examples of a batch: that of
their gradients and that of the gradients' signs. An ordinary backward pass gives the first. Here
every weight travels with a tally, an array of zeros that no layer reads; its "gradient" is the sum
of signs:

    wrapped = tally_weights(params)               # every weight w becomes Tallied(w, zeros)
    grads = jax.grad(sum_of_losses)(wrapped)      # every gradient is Tallied(sum, sum of signs)

So one backward pass over the batch gives both sums, and no example's gradient of the whole network
ever exists. An example's gradient is here what comes through its own activations. In a network that
takes each example for itself, that is the gradient of its loss. Where something couples the
examples, such as batch normalisation in training, it is a share of the batch's gradient, in which
the paths between examples count for the one where they arrive.

A weight must go through exactly one layer of this file, once: signs of a sum are not the sum of
signs. `Tallied` is no array, so that any other use of it is an error and not a wrong number.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from recombine.methods.agreement._conv_tally import per_example_conv_tally
from recombine.methods.agreement._convolution import convolve, input_gradient
from recombine.methods.agreement._signs import sign


class Tallied(eqx.Module):
    """A weight and its tally; as a gradient, the sum over examples and the sum of signs."""

    value: Float[Array, "..."]
    tally: Float[Array, "..."]


Weight = Float[Array, "..."] | Tallied
"""What the layers take: a plain array, or one whose signs are to be counted."""


def tally_weights(params: PyTree[Any]) -> PyTree[Any]:
    """Gives every array a tally of zeros."""
    return jax.tree.map(lambda leaf: Tallied(leaf, jnp.zeros_like(leaf)), params)


def split_tallies(tallied: PyTree[Any]) -> tuple[PyTree[Any], PyTree[Any]]:
    """Undoes `tally_weights`: returns the values (or gradients), and the tallies."""
    is_leaf = lambda leaf: isinstance(leaf, Tallied)  # noqa: E731
    values = jax.tree.map(lambda leaf: leaf.value, tallied, is_leaf=is_leaf)
    return values, jax.tree.map(lambda leaf: leaf.tally, tallied, is_leaf=is_leaf)


def tallied_conv(
    x: Float[Array, "examples rows columns inputs"], kernel: Weight
) -> Float[Array, "examples rows columns outputs"]:
    """Convolves images with a kernel `[height, width, inputs, outputs]` of odd sides.

    Stride 1, padded with zeros to keep the size, without a bias.

    Args:
        x: a batch of images, channels last.
        kernel: an array, or one with a tally.
    """
    size = (kernel.value if isinstance(kernel, Tallied) else kernel).shape
    if size[0] % 2 == 0 or size[1] % 2 == 0:
        raise ValueError(f"`kernel` must have odd sides to keep an image's size; got {size[:2]}")
    if not isinstance(kernel, Tallied):
        return convolve(x, kernel)
    return _conv(x, kernel.value, kernel.tally)


def tallied_linear(
    x: Float[Array, "examples inputs"], weight: Weight
) -> Float[Array, "examples outputs"]:
    r"""Multiplies with a matrix `[inputs, outputs]`, without a bias.

    The gradient of one example is an outer product, and so is its sign. The sum of signs is one
    matrix product: $\sum_n \mathrm{sign}(x_n \delta_n^\top) = \mathrm{sign}(X)^\top
    \mathrm{sign}(\Delta)$. Where a product of two small factors underflows to zero, this still
    counts its sign.
    """
    if not isinstance(weight, Tallied):
        return x @ weight
    return _linear(x, weight.value, weight.tally)


def tallied_scale_and_shift(
    x: Float[Array, " examples *positions channels"], scale: Weight, shift: Weight
) -> Float[Array, " examples *positions channels"]:
    """Multiplies every channel with a number and adds another, as a normalisation ends."""
    if not isinstance(scale, Tallied) or not isinstance(shift, Tallied):
        if isinstance(scale, Tallied) or isinstance(shift, Tallied):
            raise TypeError("`scale` and `shift` must both have a tally, or neither")
        return x * _channels(scale, x) + _channels(shift, x)
    return _affine(x, scale.value, scale.tally, shift.value, shift.tally)


@jax.custom_vjp
def _conv(x: Array, kernel: Array, tally: Array) -> Array:
    del tally
    return convolve(x, kernel)


def _conv_forward(x: Array, kernel: Array, tally: Array) -> Any:
    return _conv(x, kernel, tally), (x, kernel)


def _conv_backward(saved: Any, cotangent: Array) -> Any:
    x, kernel = saved
    sums = per_example_conv_tally(x, cotangent, kernel.shape[:2])
    total, signs = (values.astype(kernel.dtype) for values in sums)
    return input_gradient(x, kernel, cotangent), total, signs


_conv.defvjp(_conv_forward, _conv_backward)


@jax.custom_vjp
def _linear(x: Array, weight: Array, tally: Array) -> Array:
    del tally
    return x @ weight


def _linear_forward(x: Array, weight: Array, tally: Array) -> Any:
    return _linear(x, weight, tally), (x, weight)


def _linear_backward(saved: Any, cotangent: Array) -> Any:
    x, weight = saved
    return cotangent @ weight.T, x.T @ cotangent, sign(x).T @ sign(cotangent)


_linear.defvjp(_linear_forward, _linear_backward)


@jax.custom_vjp
def _affine(x: Array, scale: Array, scale_tally: Array, shift: Array, tally: Array) -> Any:
    del scale_tally, tally
    return x * _channels(scale, x) + _channels(shift, x)


def _affine_forward(x: Array, scale: Array, scale_tally: Array, shift: Array, tally: Array) -> Any:
    return _affine(x, scale, scale_tally, shift, tally), (x, scale)


def _affine_backward(saved: Any, cotangent: Array) -> Any:
    x, scale = saved
    positions = tuple(range(1, x.ndim - 1))
    of_scale = jnp.sum(x * cotangent, axis=positions)  # one row for every example
    of_shift = jnp.sum(cotangent, axis=positions)
    sums = [jnp.sum(values, axis=0) for values in (of_scale, sign(of_scale))]
    sums += [jnp.sum(values, axis=0) for values in (of_shift, sign(of_shift))]
    return cotangent * _channels(scale, x), *sums


_affine.defvjp(_affine_forward, _affine_backward)


def _channels(values: Array, like: Array) -> Array:
    """Gives a vector of channels the number of axes that it is combined with."""
    return values.reshape((1,) * (like.ndim - 1) + values.shape)
