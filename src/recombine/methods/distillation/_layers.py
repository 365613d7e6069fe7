r"""Layers of students and teachers. Weights and biases are drawn uniformly in ±1/√fan-in.

Convolutions are written as one matrix product with all neighbours side by side: of several seeds at
once, that stays one product, where a convolution would become a grouped one. So do the derivatives
of derivatives.
"""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.distillation._interface import BATCH_AXIS

SMALLEST_SQUARE = 1e-12
"""Added to the squared length of a direction. Decay within Adam drives the directions of dead units
to zero, where an unguarded division is not a number."""

NORM_EPS = 1e-5  # of batch norm, as usual


class WeightNormLinear(eqx.Module):
    r"""A linear layer with weight norm: row k of its matrix is $g_k v_k / \|v_k\|$.

    At the start g is the length of v, so that the layer computes what a plain one would.
    """

    direction: Float[Array, "outputs inputs"]
    length: Float[Array, " outputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, num_inputs: int, num_outputs: int, *, key: PRNGKeyArray):
        plain = eqx.nn.Linear(num_inputs, num_outputs, key=key)
        assert plain.bias is not None
        self.direction, self.bias = plain.weight, plain.bias
        self.length = _lengths(plain.weight)

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """Applies the layer to one example."""
        scale = self.length / _lengths(self.direction)
        return (self.direction * scale[:, None]) @ x + self.bias


class BatchStatisticsNorm(eqx.Module):
    """Batch norm by the statistics of the present batch, in training and ever after.

    The mean is over the batch and all axes but the last. There are no running statistics: a teacher
    is never used on a single example.
    """

    scale: Float[Array, " units"]
    shift: Float[Array, " units"]

    def __init__(self, units: int):
        self.scale = jnp.ones(units)
        self.shift = jnp.zeros(units)

    def __call__(self, x: Float[Array, "*places units"]) -> Float[Array, "*places units"]:
        """Normalizes one example of a batch; see `BATCH_AXIS`."""
        places = x.reshape(-1, x.shape[-1])
        mean = jax.lax.pmean(jnp.mean(places, axis=0), BATCH_AXIS)
        centred = places - mean[None]
        variance = jax.lax.pmean(jnp.mean(jnp.square(centred), axis=0), BATCH_AXIS)
        factor = self.scale / jnp.sqrt(variance + NORM_EPS)
        return (centred * factor[None] + self.shift[None]).reshape(x.shape)


class Convolution(eqx.Module):
    """A convolution over the leading axes of one example, which keeps their lengths.

    Time with channels is `[time, channels]`, a map `[height, width, channels]`; places beyond the
    edge are 0.
    """

    weight: Float[Array, "neighbours_inputs outputs"]
    bias: Float[Array, " outputs"]
    num_axes: int = eqx.field(static=True)
    kernel: int = eqx.field(static=True)

    def __init__(
        self,
        num_inputs: int,
        num_outputs: int,
        *,
        num_axes: int,
        kernel: int = 3,
        key: PRNGKeyArray,
    ):
        if kernel % 2 == 0:
            raise ValueError(f"`kernel` must be odd to keep lengths; got {kernel}")
        weight_key, bias_key = jr.split(key)
        fan_in = num_inputs * kernel**num_axes
        bound = fan_in**-0.5
        self.weight = jr.uniform(weight_key, (fan_in, num_outputs), minval=-bound, maxval=bound)
        self.bias = jr.uniform(bias_key, (num_outputs,), minval=-bound, maxval=bound)
        self.num_axes, self.kernel = num_axes, kernel

    def __call__(self, x: Float[Array, "*places inputs"]) -> Float[Array, "*places outputs"]:
        """Applies the layer to one example."""
        beside = neighbours(x, self.num_axes, self.kernel)
        return jnp.matmul(beside, self.weight) + self.bias.reshape([1] * self.num_axes + [-1])


def neighbours(
    x: Float[Array, "*places inputs"], num_axes: int, kernel: int
) -> Float[Array, "*places neighbours_inputs"]:
    """Puts the channels of all places within reach side by side.

    Example:
        >>> import jax.numpy as jnp
        >>> neighbours(jnp.array([[1.0], [2.0], [3.0]]), 1, 3).tolist()
        [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 0.0]]
    """
    reach = kernel // 2
    padded = jnp.pad(x, [(reach, reach)] * num_axes + [(0, 0)])
    shifted = [
        padded[tuple(slice(s, s + n) for s, n in zip(start, x.shape[:num_axes], strict=True))]
        for start in itertools.product(range(kernel), repeat=num_axes)
    ]
    return jnp.concatenate(shifted, axis=-1)


def _lengths(rows: Float[Array, "outputs inputs"]) -> Float[Array, " outputs"]:
    return jnp.sqrt(jnp.sum(jnp.square(rows), axis=1) + SMALLEST_SQUARE)
