"""A model whose networks run in 16 bits, for accelerators that wait for memory.

A meta-step moves the activations and the weights of all tasks through memory many times, and does
little with them each time. In 16 bits they take half the room, hence half the time. Layers run in
the type of the rows they are given, so it is enough to round those. Products still add up in
float32. What is learned and adapted, what a hypernetwork makes of it, optimizers and losses stay in
float32: with embeddings and modules in bfloat16 too, a hypernetwork learned visibly more slowly.

Of the two types float16 rounds as TF32 does, to eleven bits, and bfloat16 to eight. What float16
lacks is range: it ends at 65,504, which networks of normal size are far from, and below 6e-8, where
a gradient no longer matters beside the others.
"""

from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recombine.methods.hypernetworks._shared_features import SharedFeatures

Half = Literal["float16", "bfloat16"]


class HalfPrecision(eqx.Module):
    """A `FewShotModel` that gives rounded rows to another."""

    model: Any
    dtype: Half = eqx.field(static=True, default="bfloat16")

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
        """Returns the features in 16 bits."""
        return self.model.read(inputs.astype(self.dtype))

    def predict(
        self, task: PyTree[Any], features: Float[Array, "rows features"] | SharedFeatures
    ) -> Float[Array, "rows outputs"]:
        """Returns the outputs of features that were read, in float32."""
        return self.model.predict(task, features).astype(jnp.float32)

    @property
    def make_slots(self) -> Any:
        """The model's own, if it has such a method; see `SharedFeatures`."""
        return self.model.make_slots
