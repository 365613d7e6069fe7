"""MAML and ANIL: networks without modules, adapted as a whole or in their last layer.

ANIL's body is the same at all inner steps, so that its features of the support are computed once;
the result and its gradient are those of adapting the head of the whole network.
"""

from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.hypernetworks._layers import Layer, Stack
from recombine.methods.hypernetworks._shared_features import SharedFeatures, Slots, make_slots


class Network(eqx.Module):
    """An MLP in two parts: a body with ReLUs, and a linear head."""

    body: Stack
    head: Layer

    def __init__(self, sizes: tuple[int, ...], *, key: PRNGKeyArray):
        body_key, head_key = jr.split(key)
        self.body = Stack(sizes[:-1], key=body_key)
        self.head = Layer(*sizes[-2:], key=head_key)

    def __call__(self, rows: Float[Array, "rows inputs"]) -> Float[Array, "rows outputs"]:
        """Maps every row."""
        return self.head(self.body(rows))


class Maml(eqx.Module):
    """Learns a start for all weights of a network; a task adapts them all (Finn et al. 2017)."""

    network: Network

    def start(
        self,
        inputs: Float[Array, "rows inputs"],
        targets: Float[Array, "rows outputs"],
        weights: Float[Array, " rows"] | None,
        *,
        key: PRNGKeyArray,
    ) -> Network:
        """Returns the learned start, whatever the support."""
        return self.network

    def read(self, inputs: Float[Array, "rows inputs"]) -> Float[Array, "rows inputs"]:
        """Returns the inputs: every layer depends on the task."""
        return inputs

    def predict(
        self, task: Network, features: Float[Array, "rows inputs"]
    ) -> Float[Array, "rows outputs"]:
        """Runs the task's network."""
        return task(features)


class Anil(eqx.Module):
    """Learns a body for all tasks and a start for the head that each adapts (Raghu et al. 2020)."""

    network: Network

    def start(
        self,
        inputs: Float[Array, "rows inputs"],
        targets: Float[Array, "rows outputs"],
        weights: Float[Array, " rows"] | None,
        *,
        key: PRNGKeyArray,
    ) -> Layer:
        """Returns the learned head, whatever the support."""
        return self.network.head

    def read(self, inputs: Float[Array, "rows inputs"]) -> Float[Array, "rows features"]:
        """Returns the body's features, which no inner step changes."""
        return self.network.body(inputs)

    def predict(
        self, task: Layer, features: Float[Array, "rows features"] | SharedFeatures
    ) -> Float[Array, "rows outputs"]:
        """Runs the task's head."""
        return task(features)

    def make_slots(self, features: Float[Array, "rows features"], num_steps: int) -> Slots:
        """Returns what makes `SharedFeatures` of the features of a support, in every inner step."""
        return make_slots(features, num_steps, self.network.head.weight.shape[1])


@dataclass(frozen=True)
class MonolithicConfig:
    """The sizes of MAML's or ANIL's network; the defaults are ANIL's for the hyperteacher."""

    num_inputs: int = 16
    num_outputs: int = 8
    adapts: Literal["head", "everything"] = "head"
    width: int = 512
    num_hidden: int = 3

    def __post_init__(self) -> None:
        if self.adapts not in ("head", "everything"):
            raise ValueError(f"`adapts` must be head or everything; got {self.adapts!r}")
        for name in ("num_inputs", "num_outputs", "width", "num_hidden"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1; got {getattr(self, name)}")

    def make(self, *, key: PRNGKeyArray) -> Maml | Anil:
        """Builds the model with fresh parameters."""
        sizes = (self.num_inputs, *(self.width,) * self.num_hidden, self.num_outputs)
        network = Network(sizes, key=key)
        return Anil(network) if self.adapts == "head" else Maml(network)
