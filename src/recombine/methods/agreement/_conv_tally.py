"""The per-example gradients of a convolution's kernel, of which only two sums are kept.

This is where an AND-mask step with one environment per example spends its extra time, so it stands
alone: anything that returns the same two arrays may take its place.

The gradient of one example with respect to the kernel's weights at one offset (dy, dx) is a matrix
product over the positions of the image: the input, shifted by the offset, times the cotangent of
the output. One offset is worked on at a time, as one product with a batch axis of examples, and
what it yields is added up at once. So neither patches of the whole input nor gradients of the whole
kernel are ever written down, and a part small enough stays in the device's cache.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from recombine.methods.agreement._convolution import Offsets
from recombine.methods.agreement._signs import sign

MAX_BYTES = 64 * 2**20
"""How large the per-example gradients of a part of the kernel may be."""

FEW_CHANNELS = 8
"""With inputs as narrow as an image's, all offsets make one product: nine thin ones are slow."""


class ConvTally(NamedTuple):
    """Sums over the examples."""

    total: Float[Array, "height width inputs outputs"]  # of the gradients
    signs: Float[Array, "height width inputs outputs"]  # of the gradients' signs


def per_example_conv_tally(
    x: Float[Array, "examples rows columns inputs"],
    cotangent: Float[Array, "examples rows columns outputs"],
    kernel_size: tuple[int, int],
) -> ConvTally:
    """Sums every example's kernel gradient, and its sign, of a convolution that keeps the size.

    The convolution has stride 1 and pads with zeros ("SAME"); both sides of its kernel are odd. The
    sums of signs are whole numbers, exact in single precision up to 16 million examples. Products
    are as precise as `jax.default_matmul_precision` says: by default NVIDIA GPUs round factors to
    TF32. They are added up in single precision.

    Args:
        x: the input of the convolution.
        cotangent: the derivative of the loss with respect to its output.
        kernel_size: the height and the width of the kernel.
    """
    examples, inputs, outputs = len(x), x.shape[-1], cotangent.shape[-1]
    flat = cotangent.reshape(examples, -1, outputs)
    offsets = Offsets.of(x, kernel_size)
    parts = []
    if inputs <= FEW_CHANNELS:
        patches = [offsets.shifted(place) for place in offsets.places]
        both = jnp.concatenate(patches, axis=-1).reshape(examples, -1, len(patches) * inputs)
        parts.append(_tally(both, flat))
    else:
        for place in offsets.places:
            sums = _tally(offsets.shifted(place).reshape(examples, -1, inputs), flat)
            # The next offset waits for this one, so that only one is in memory.
            padded, sums = jax.lax.optimization_barrier((offsets.padded, sums))
            offsets = offsets._replace(padded=padded)
            parts.append(sums)
    total, signs = (jnp.concatenate(part) for part in zip(*parts, strict=True))
    shape = (*kernel_size, inputs, outputs)
    return ConvTally(total.reshape(shape), signs.reshape(shape))


def _tally(
    x: Float[Array, "examples positions inputs"],
    cotangent: Float[Array, "examples positions outputs"],
) -> tuple[Float[Array, "inputs outputs"], Float[Array, "inputs outputs"]]:
    examples, _, outputs = cotangent.shape
    width = outputs // _num_parts(examples * x.shape[-1] * 4, outputs)
    parts = [_sums(x, cotangent[..., i : i + width]) for i in range(0, outputs, width)]
    total, signs = (jnp.concatenate(part, axis=-1) for part in zip(*parts, strict=True))
    return total, signs


def _num_parts(bytes_per_output: int, outputs: int) -> int:
    """Returns the smallest divisor of `outputs` that makes parts of at most `MAX_BYTES`."""
    fitting = (
        parts
        for parts in range(1, outputs + 1)
        if outputs % parts == 0 and bytes_per_output * outputs // parts <= MAX_BYTES
    )
    return next(fitting, outputs)


def _sums(
    x: Float[Array, "examples positions inputs"],
    cotangent: Float[Array, "examples positions outputs"],
) -> tuple[Float[Array, "inputs outputs"], Float[Array, "inputs outputs"]]:
    fine = jnp.promote_types(x.dtype, jnp.float32)
    gradients = jnp.einsum("npi,npo->nio", x, cotangent, preferred_element_type=fine)
    return jnp.sum(gradients, axis=0), jnp.sum(sign(gradients), axis=0)
