"""A convolution whose backward pass is fast on a CPU inside a loop, too.

XLA's convolutions run well on a CPU in the forward direction. Their derivatives have the axes of
the operands exchanged, and within a loop on the device, where all training happens, those take 10
to 90 times as long (measured with JAX 0.10 for images of CIFAR-10). So on a CPU the derivative by
the input is written as a forward convolution with the turned kernel, and the one by the kernel as
one matrix product for every offset. Accelerators have kernels of their own for both.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Images = Float[Array, "examples rows columns channels"]
Kernel = Float[Array, "height width inputs outputs"]


@jax.custom_vjp
def convolve(x: Images, kernel: Kernel) -> Images:
    """Convolves with stride 1, padded with zeros to keep the size; both sides are odd."""
    return _convolve(x, kernel)


def input_gradient(x: Images, kernel: Kernel, cotangent: Images) -> Images:
    """Returns the derivative by the input, of which only the shape matters."""
    return jax.lax.platform_dependent(
        kernel,
        cotangent,
        cpu=_turned,
        default=lambda kernel, cotangent: jax.linear_transpose(
            lambda x: _convolve(x, kernel), jax.ShapeDtypeStruct(x.shape, x.dtype)
        )(cotangent)[0],
    )


class Offsets(NamedTuple):
    """The input with a margin of zeros, and what it must be shifted by to meet each weight."""

    padded: Images
    places: list[tuple[int, int]]  # in the order of the kernel's weights
    sides: tuple[int, int]  # rows and columns of the input

    @classmethod
    def of(cls, x: Images, kernel_size: tuple[int, int]) -> "Offsets":
        """Adds the margin that a kernel of this size needs."""
        height, width = kernel_size
        margins = [(0, 0), (height // 2, height // 2), (width // 2, width // 2), (0, 0)]
        places = [(dy, dx) for dy in range(height) for dx in range(width)]
        return cls(jnp.pad(x, margins), places, (x.shape[1], x.shape[2]))

    def shifted(self, place: tuple[int, int]) -> Images:
        """Returns what the weight of that place is multiplied with."""
        (dy, dx), (rows, columns) = place, self.sides
        return self.padded[:, dy : dy + rows, dx : dx + columns]


def _convolve(x: Images, kernel: Kernel) -> Images:
    return jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _forward(x: Images, kernel: Kernel) -> tuple[Images, Any]:
    return _convolve(x, kernel), (x, kernel)


def _backward(saved: Any, cotangent: Images) -> tuple[Images, Kernel]:
    x, kernel = saved

    def by_transposition(x: Images, cotangent: Images) -> Kernel:
        shape = jax.ShapeDtypeStruct(kernel.shape, kernel.dtype)
        return jax.linear_transpose(lambda kernel: _convolve(x, kernel), shape)(cotangent)[0]

    def by_products(x: Images, cotangent: Images) -> Kernel:
        flat = cotangent.reshape(-1, cotangent.shape[-1])
        offsets = Offsets.of(x, kernel.shape[:2])
        products = [
            offsets.shifted(place).reshape(-1, x.shape[-1]).T @ flat for place in offsets.places
        ]
        return jnp.stack(products).reshape(kernel.shape)

    to_kernel = jax.lax.platform_dependent(x, cotangent, cpu=by_products, default=by_transposition)
    return input_gradient(x, kernel, cotangent), to_kernel


convolve.defvjp(_forward, _backward)


def _turned(kernel: Kernel, cotangent: Images) -> Images:
    turned = jnp.flip(kernel, (0, 1)).swapaxes(2, 3)
    # Without the barrier the compiler would undo the turning.
    return _convolve(cotangent, jax.lax.optimization_barrier(turned))
