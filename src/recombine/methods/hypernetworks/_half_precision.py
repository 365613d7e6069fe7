"""A model whose networks run in bfloat16, for accelerators that wait for memory.

A meta-step moves the activations and the weights of all tasks through memory many times, and does
little with them each time. In bfloat16 they take half the room, hence half the time. Layers run in
the type of the rows they are given, so it is enough to round those. Products still add up in
float32. What is learned and adapted, what a hypernetwork makes of it, optimizers and losses stay in
float32: with embeddings and modules in bfloat16 too, a hypernetwork learned visibly more slowly.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recombine.methods.hypernetworks._shared_features import SharedFeatures


class HalfPrecision(eqx.Module):
    """A `FewShotModel` that gives rounded rows to another."""

    model: Any

    def start(
        self,
        inputs: Float[Array, "rows inputs"],
        targets: Float[Array, "rows outputs"],
        weights: Float[Array, " rows"] | None,
        *,
        key: PRNGKeyArray,
    ) -> PyTree[Any]:
        """Returns the start of the model itself."""
        return self.model.start(inputs, targets, weights, key=key)

    def read(self, inputs: Float[Array, "rows inputs"]) -> Float[Array, "rows features"]:
        """Returns the features in bfloat16."""
        return self.model.read(inputs.astype(jnp.bfloat16))

    def predict(
        self, task: PyTree[Any], features: Float[Array, "rows features"] | SharedFeatures
    ) -> Float[Array, "rows outputs"]:
        """Returns the outputs of features that were read, in float32."""
        return self.model.predict(task, features).astype(jnp.float32)

    @property
    def make_slots(self) -> Any:
        """The model's own, if it has such a method; see `SharedFeatures`."""
        return self.model.make_slots
