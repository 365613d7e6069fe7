"""The student of the theory: one generated hidden layer, a shared readout, no biases.

It has the form of its teacher, W(z) = Σ z_m Θ_m between inputs and hidden units, and is larger by
chosen factors (Schug et al. 2024, multi-task teacher-student experiments). Inference starts from
one vector that is drawn once and never learned.
"""

import math
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.hypernetworks._frozen import Frozen
from recombine.methods.hypernetworks._layers import truncated_normal


class ModularStudent(eqx.Module):
    """Modules and a readout; a task is the latent that weighs the modules."""

    modules: Float[Array, "latents inputs units"]
    readout: Float[Array, "units outputs"]
    first: Frozen
    redraws: bool = eqx.field(static=True)

    def __init__(self, config: "ModularStudentConfig", *, key: PRNGKeyArray):
        module_key, readout_key, start_key = jr.split(key, 3)
        latents, units = config.num_latents, config.width
        self.modules = truncated_normal(
            module_key, (latents, config.num_inputs, units), fan_in=latents
        )
        self.readout = truncated_normal(readout_key, (units, config.num_outputs), fan_in=units)
        self.first = Frozen(jr.normal(start_key, (latents,)))
        self.redraws = config.redraws

    def start(
        self,
        inputs: Float[Array, "rows inputs"],
        targets: Float[Array, "rows outputs"],
        weights: Float[Array, " rows"] | None,
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, " latents"]:
        """Returns the fixed start, or a new one."""
        first = self.first.value
        return jr.normal(key, first.shape, first.dtype) if self.redraws else first

    def read(self, inputs: Float[Array, "rows inputs"]) -> Float[Array, "rows inputs"]:
        """Returns the inputs: the hidden layer depends on the task."""
        return inputs

    def predict(
        self, task: Float[Array, " latents"], features: Float[Array, "rows inputs"]
    ) -> Float[Array, "rows outputs"]:
        """Generates the hidden layer of a task and runs the student."""
        weight, readout = self.generate(task), self.readout
        hidden = features @ weight.astype(features.dtype) / math.sqrt(features.shape[-1])
        return jax.nn.relu(hidden) @ readout.astype(features.dtype)

    def generate(self, task: Float[Array, " latents"]) -> Float[Array, "inputs units"]:
        """Returns the weights of the hidden layer."""
        flat = task @ self.modules.reshape(len(task), -1)
        return flat.reshape(self.modules.shape[1:])


@dataclass(frozen=True)
class ModularStudentConfig:
    """The sizes of a `ModularStudent`; the defaults are twice the teacher's, as published."""

    num_inputs: int = 16
    num_outputs: int = 4
    num_latents: int = 12
    width: int = 32
    redraws: bool = False
    """Whether inference starts from a new random vector for each task."""

    def __post_init__(self) -> None:
        for name in ("num_inputs", "num_outputs", "num_latents", "width"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1; got {getattr(self, name)}")

    def make(self, *, key: PRNGKeyArray) -> ModularStudent:
        """Builds a student with fresh parameters."""
        return ModularStudent(self, key=key)
