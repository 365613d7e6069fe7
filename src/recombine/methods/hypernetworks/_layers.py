"""Layers as Schug et al. (2024) start them: truncated normal weights, biases at zero."""

import math
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.hypernetworks._shared_features import SharedFeatures


def truncated_normal(
    key: PRNGKeyArray, shape: tuple[int, ...], fan_in: int
) -> Float[Array, " *shape"]:
    """Draws normal numbers of scale 1/√fan-in, cut off at two scales.

    The scale is that before cutting; afterwards the standard deviation is 0.88 of it.
    """
    return jr.truncated_normal(key, -2.0, 2.0, shape) / math.sqrt(fan_in)


class Layer(eqx.Module):
    """`x W + b` for rows of inputs."""

    weight: Float[Array, "inputs outputs"]
    bias: Float[Array, " outputs"] | None

    def __init__(
        self, num_inputs: int, num_outputs: int, *, key: PRNGKeyArray, use_bias: bool = True
    ):
        self.weight = truncated_normal(key, (num_inputs, num_outputs), num_inputs)
        self.bias = jnp.zeros(num_outputs) if use_bias else None

    def __call__(
        self, rows: Float[Array, "rows inputs"] | SharedFeatures
    ) -> Float[Array, "rows outputs"]:
        """Maps every row, in the type of the rows."""
        outputs = rows @ self.weight.astype(rows.dtype)
        return outputs if self.bias is None else outputs + self.bias[None].astype(rows.dtype)


class Stack(eqx.Module):
    """Layers with a ReLU after every one."""

    layers: list[Layer]

    def __init__(self, sizes: tuple[int, ...], *, key: PRNGKeyArray):
        pairs = list(pairwise(sizes))
        keys = jr.split(key, len(pairs))
        self.layers = [Layer(*pair, key=k) for pair, k in zip(pairs, keys, strict=True)]

    def __call__(self, rows: Float[Array, "rows inputs"]) -> Float[Array, "rows outputs"]:
        """Maps every row."""
        for layer in self.layers:
            rows = jax.nn.relu(layer(rows))
        return rows


class Norm(eqx.Module):
    """Layer normalization of rows, with a scale and an offset."""

    scale: Float[Array, " units"]
    offset: Float[Array, " units"]

    def __init__(self, size: int):
        self.scale, self.offset = jnp.ones(size), jnp.zeros(size)

    def __call__(self, rows: Float[Array, "rows units"]) -> Float[Array, "rows units"]:
        """Normalizes every row."""
        centred = rows - jnp.mean(rows, axis=-1, keepdims=True)
        spread = jnp.sqrt(jnp.mean(jnp.square(centred), axis=-1, keepdims=True) + 1e-5)
        return centred / spread * self.scale[None] + self.offset[None]
