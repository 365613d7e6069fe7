"""Encoders of a support set: one pass over all rows, in no order, to one vector.

Rows of weight zero have no influence; weights otherwise count as repeated rows would.
"""

import math
from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.hypernetworks._layers import Layer, Norm, Stack

EncoderKind = Literal["deep-set", "transformer"]
"""How rows meet: only in their mean, or by attention too."""


@dataclass(frozen=True)
class EncoderConfig:
    """The sizes of an encoder."""

    kind: EncoderKind = "deep-set"
    width: int = 128
    num_layers: int = 2
    """Hidden layers before and after the mean of a deep set, or blocks of a transformer."""
    num_heads: int = 4

    def __post_init__(self) -> None:
        if self.kind not in ("deep-set", "transformer"):
            raise ValueError(f"`kind` must be deep-set or transformer; got {self.kind!r}")
        if self.kind == "transformer" and self.width % self.num_heads:
            raise ValueError(
                f"`width` must be a multiple of `num_heads`; got {self.width} and {self.num_heads}"
            )

    def make(
        self, num_inputs: int, num_outputs: int, *, key: PRNGKeyArray
    ) -> "DeepSet | SetTransformer":
        """Builds an encoder of rows of `num_inputs` numbers to a vector of `num_outputs`."""
        kinds = {"deep-set": DeepSet, "transformer": SetTransformer}
        return kinds[self.kind](self, num_inputs, num_outputs, key=key)


class DeepSet(eqx.Module):
    """A network for each row, the mean over rows, and a network for the mean (Zaheer 2017)."""

    before: Stack
    after: Stack
    last: Layer

    def __init__(
        self, config: EncoderConfig, num_inputs: int, num_outputs: int, *, key: PRNGKeyArray
    ):
        before_key, after_key, last_key = jr.split(key, 3)
        hidden = (config.width,) * config.num_layers
        self.before = Stack((num_inputs, *hidden), key=before_key)
        self.after = Stack((config.width, *hidden), key=after_key)
        self.last = Layer(config.width, num_outputs, key=last_key)

    def __call__(
        self, rows: Float[Array, "rows inputs"], weights: Float[Array, " rows"] | None
    ) -> Float[Array, " outputs"]:
        """Encodes a set."""
        pooled = weighted_mean(self.before(rows), weights)
        return self.last(self.after(pooled[None]))[0]


class Block(eqx.Module):
    """Attention among rows, then a layer for each, both added to what came in."""

    first: Norm
    second: Norm
    attention: Layer  # queries, keys and values, side by side
    joined: Layer
    wide: Layer
    narrow: Layer
    num_heads: int = eqx.field(static=True)

    def __init__(self, width: int, num_heads: int, *, key: PRNGKeyArray):
        keys = jr.split(key, 4)
        self.first, self.second = Norm(width), Norm(width)
        self.attention = Layer(width, 3 * width, key=keys[0], use_bias=False)
        self.joined = Layer(width, width, key=keys[1])
        self.wide = Layer(width, 2 * width, key=keys[2])
        self.narrow = Layer(2 * width, width, key=keys[3])
        self.num_heads = num_heads

    def __call__(
        self,
        rows: Float[Array, "rows width"],
        weights: Float[Array, " seen"] | None,
        seen: Float[Array, "seen width"] | None = None,
    ) -> Float[Array, "rows width"]:
        """Lets every row look at all that count: at rows of `seen`, or at those of its own set."""
        count, width = rows.shape
        parts = self._parts(rows)
        queries, keys, values = parts[:, 0], parts[:, 1], parts[:, 2]
        if seen is not None:
            others = self._parts(seen)
            keys, values = others[:, 1], others[:, 2]
        scores = jnp.einsum("qhd,khd->hqk", queries, keys) / math.sqrt(width // self.num_heads)
        if weights is not None:  # a weight of 2 is a row that is there twice
            logarithms = jnp.log(jnp.maximum(weights, 1e-30))
            scores = scores + jnp.where(weights > 0, logarithms, -1e9)[None, None, :]
        found = jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores, axis=-1), values)
        rows = rows + self.joined(found.reshape(count, width))
        return rows + self.narrow(jax.nn.relu(self.wide(self.second(rows))))

    def _parts(self, rows: Float[Array, "rows width"]) -> Float[Array, "rows 3 heads size"]:
        """Returns queries, keys and values."""
        return self.attention(self.first(rows)).reshape(rows.shape[0], 3, self.num_heads, -1)


class SetTransformer(eqx.Module):
    """Blocks of attention without positions, then the mean over rows (Lee et al. 2019)."""

    first: Layer
    blocks: list[Block]
    norm: Norm
    last: Layer

    def __init__(
        self, config: EncoderConfig, num_inputs: int, num_outputs: int, *, key: PRNGKeyArray
    ):
        first_key, last_key, *keys = jr.split(key, 2 + config.num_layers)
        self.first = Layer(num_inputs, config.width, key=first_key)
        self.blocks = [Block(config.width, config.num_heads, key=k) for k in keys]
        self.norm = Norm(config.width)
        self.last = Layer(config.width, num_outputs, key=last_key)

    def __call__(
        self, rows: Float[Array, "rows inputs"], weights: Float[Array, " rows"] | None
    ) -> Float[Array, " outputs"]:
        """Encodes a set."""
        rows = self.first(rows)
        for block in self.blocks:
            rows = block(rows, weights)
        return self.last(weighted_mean(self.norm(rows), weights)[None])[0]


def weighted_mean(
    rows: Float[Array, "rows units"], weights: Float[Array, " rows"] | None
) -> Float[Array, " units"]:
    """Returns the mean over rows; that of no rows at all is zero."""
    if weights is None:
        return jnp.mean(rows, axis=0)
    return weights @ rows / jnp.maximum(jnp.sum(weights), 1e-12)
