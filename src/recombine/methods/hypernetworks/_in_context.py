"""A transformer that reads the support beside every query: adaptation without an embedding.

Nothing forces it to sum a task up before it answers: a query looks at all rows of the support, in
every block. It stands beside hypernetworks with an encoder, in which all that is known of a task
passes through its embedding. Later work of the same group compares the two (arXiv 2407.12275).
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.hypernetworks._encoders import Block
from recombine.methods.hypernetworks._layers import Layer, Norm


class Context(NamedTuple):
    """A support as queries see it."""

    rows: tuple[Float[Array, "rows width"], ...]  # before each block
    weights: Float[Array, " rows"]


class InContextTransformer(eqx.Module):
    """Blocks of attention without positions; queries look at the support, not at each other."""

    first: Layer
    blocks: list[Block]
    norm: Norm
    last: Layer
    num_outputs: int = eqx.field(static=True)

    def __init__(self, config: "InContextConfig", *, key: PRNGKeyArray):
        first_key, last_key, *keys = jr.split(key, 2 + config.num_layers)
        # Beside an input stands its target, and whether there is one.
        self.first = Layer(config.num_inputs + config.num_outputs + 1, config.width, key=first_key)
        self.blocks = [Block(config.width, config.num_heads, key=k) for k in keys]
        self.norm = Norm(config.width)
        self.last = Layer(config.width, config.num_outputs, key=last_key)
        self.num_outputs = config.num_outputs

    def start(
        self,
        inputs: Float[Array, "rows inputs"],
        targets: Float[Array, "rows outputs"],
        weights: Float[Array, " rows"] | None,
        *,
        key: PRNGKeyArray,
    ) -> Context:
        """Reads the support: its rows look at each other."""
        shown = jnp.ones((inputs.shape[0], 1), inputs.dtype)
        rows = self.first(jnp.concatenate([inputs, targets, shown], axis=1))
        counted = shown[:, 0] if weights is None else weights
        seen = []
        for block in self.blocks:
            seen.append(rows)
            rows = block(rows, counted)
        return Context(tuple(seen), counted)

    def read(self, inputs: Float[Array, "rows inputs"]) -> Float[Array, "rows inputs"]:
        """Returns the inputs: every block looks at the support."""
        return inputs

    def predict(
        self, task: Context, features: Float[Array, "rows inputs"]
    ) -> Float[Array, "rows outputs"]:
        """Lets every query look at the support, and answers it."""
        asked = jnp.zeros((features.shape[0], self.num_outputs + 1), features.dtype)
        rows = self.first(jnp.concatenate([features, asked], axis=1))
        for block, seen in zip(self.blocks, task.rows, strict=True):
            rows = block(rows, task.weights, seen)
        return self.last(self.norm(rows))


@dataclass(frozen=True)
class InContextConfig:
    """The sizes of an `InContextTransformer`."""

    num_inputs: int = 16
    num_outputs: int = 8
    width: int = 128
    num_layers: int = 4
    """Blocks."""
    num_heads: int = 4

    def __post_init__(self) -> None:
        for name in ("num_inputs", "num_outputs", "width", "num_layers", "num_heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1; got {getattr(self, name)}")
        if self.width % self.num_heads:
            raise ValueError(
                f"`width` must be a multiple of `num_heads`; got {self.width} and {self.num_heads}"
            )

    def make(self, *, key: PRNGKeyArray) -> InContextTransformer:
        """Builds the model with fresh parameters."""
        return InContextTransformer(self, key=key)
