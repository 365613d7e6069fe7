"""Banks of modules: what turns an embedding into the weights of a layer (Schug et al. 2024)."""

from typing import Literal

import equinox as eqx
import jax
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.hypernetworks._layers import Layer, Norm, truncated_normal

BankKind = Literal["linear", "deep"]
"""How embeddings become weights: a sum of modules, or a network."""

TRUNK = (32, 32, 32, 32)
"""The hidden layers of a deep bank, as published."""


class LinearBank(eqx.Module):
    """One module for each entry of an embedding; weights are their sum, weighted by it."""

    modules: Float[Array, "templates weights"]

    def __init__(self, num_templates: int, num_weights: int, *, key: PRNGKeyArray):
        self.modules = truncated_normal(key, (num_templates, num_weights), num_templates)

    def __call__(self, embeddings: Float[Array, "rows templates"]) -> Float[Array, "rows weights"]:
        """Generates the weights of every row."""
        return self.mix(embeddings) @ self.modules

    def mix(self, embeddings: Float[Array, "rows templates"]) -> Float[Array, "rows modules"]:
        """Returns by how much each module counts: its entry of the embedding."""
        return embeddings


class DeepBank(eqx.Module):
    """A network that writes weights; its hidden layers are normalized."""

    first: Norm
    layers: list[Layer]
    norms: list[Norm]
    last: Layer

    def __init__(
        self,
        num_templates: int,
        num_weights: int,
        *,
        key: PRNGKeyArray,
        trunk: tuple[int, ...] = TRUNK,
    ):
        sizes = (num_templates, *trunk)
        *keys, last_key = jr.split(key, len(sizes))
        self.first = Norm(num_templates)
        self.layers = [
            Layer(i, o, key=k) for i, o, k in zip(sizes[:-1], sizes[1:], keys, strict=True)
        ]
        self.norms = [Norm(size) for size in trunk]
        self.last = Layer(sizes[-1], num_weights, key=last_key, use_bias=False)

    def __call__(self, embeddings: Float[Array, "rows templates"]) -> Float[Array, "rows weights"]:
        """Generates the weights of every row."""
        return self.mix(embeddings) @ self.modules

    def mix(self, embeddings: Float[Array, "rows templates"]) -> Float[Array, "rows modules"]:
        """Returns by how much each module counts: what the last hidden layer says."""
        rows = self.first(embeddings)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            rows = jax.nn.elu(norm(layer(rows)))
        return rows

    @property
    def modules(self) -> Float[Array, "modules weights"]:
        """What the last layer adds up."""
        return self.last.weight


def make_bank(
    kind: BankKind, num_templates: int, num_weights: int, trunk: tuple[int, ...], key: PRNGKeyArray
) -> LinearBank | DeepBank:
    """Builds a bank with fresh parameters; only a deep one has a trunk."""
    if kind == "linear":
        return LinearBank(num_templates, num_weights, key=key)
    return DeepBank(num_templates, num_weights, key=key, trunk=trunk)
