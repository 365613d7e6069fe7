"""Oracles: learners that are told what a task is made of, which others have to infer."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.hypernetworks import Frozen
from recombine.tasks.hyperteacher import (
    NUM_REFERENCE,
    TEMPERATURE,
    GeneratedTeacher,
    Hyperteacher,
    draw_generated_teacher,
)


class ToldTasks(eqx.Module):
    """The tasks of a hyperteacher, with the latent of the task beside every input."""

    source: Hyperteacher

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the sets."""
        return self.source.sets

    def begin(self, key: PRNGKeyArray) -> Any:
        """Draws the world of a seed."""
        return self.source.begin(key)

    def sample(self, world: Any, key: PRNGKeyArray, num_tasks: int) -> Any:
        """Draws training tasks."""
        return _tell(self.source.sample(world, key, num_tasks))

    def sample_set(self, world: Any, name: str, key: PRNGKeyArray, num_tasks: int) -> Any:
        """Draws tasks of a named set."""
        return _tell(self.source.sample_set(world, name, key, num_tasks))


class ToldStudent(eqx.Module):
    """A network of the teacher's form that is told the latent: it has only the modules to learn.

    Like the teacher's, its logits are standardized over inputs that are the same for all tasks;
    they are not the teacher's inputs, but drawn alike.
    """

    network: GeneratedTeacher
    reference: Frozen
    latent_shape: tuple[int, int] = eqx.field(static=True)

    def start(
        self,
        inputs: Float[Array, "rows inputs"],
        targets: Float[Array, "rows outputs"],
        weights: Float[Array, " rows"] | None,
        *,
        key: PRNGKeyArray,
    ) -> Float[Array, "layers modules"]:
        """Returns the latent that stands beside every input."""
        return inputs[0, -self._num_told() :].reshape(self.latent_shape)

    def read(self, inputs: Float[Array, "rows inputs"]) -> Float[Array, "rows others"]:
        """Returns the inputs without the latent."""
        return inputs[:, : -self._num_told()]

    def predict(
        self, task: Float[Array, "layers modules"], features: Float[Array, "rows others"]
    ) -> Float[Array, "rows outputs"]:
        """Generates the network of a task and runs it."""
        return self.network.standardized(task, self.reference.value, features) / TEMPERATURE

    def _num_told(self) -> int:
        return self.latent_shape[0] * self.latent_shape[1]


@dataclass(frozen=True)
class ToldStudentConfig:
    """The sizes of a `ToldStudent`."""

    num_inputs: int  # with the latent
    num_outputs: int
    num_layers: int
    num_modules: int
    width: int
    has_first: bool

    def make(self, *, key: PRNGKeyArray) -> ToldStudent:
        """Builds a student with fresh modules."""
        network_key, reference_key = jr.split(key)
        others = self.num_inputs - self.num_layers * self.num_modules
        network = draw_generated_teacher(
            network_key,
            num_inputs=others,
            num_layers=self.num_layers,
            num_modules=self.num_modules,
            width=self.width,
            num_outputs=self.num_outputs,
            has_first=self.has_first,
            layer_local=False,
        )
        reference = jr.uniform(reference_key, (NUM_REFERENCE, others), minval=-1.0, maxval=1.0)
        return ToldStudent(network, Frozen(reference), (self.num_layers, self.num_modules))


def _tell(tasks: Any) -> Any:
    """Puts the latent of every task beside all of its inputs."""
    told = tasks.latent.reshape(len(tasks.latent), 1, -1)

    def widen(examples: Any) -> Any:
        copies = jnp.broadcast_to(told, (*examples.inputs.shape[:2], told.shape[-1]))
        return examples._replace(inputs=jnp.concatenate([examples.inputs, copies], axis=-1))

    return tasks._replace(support=widen(tasks.support), query=widen(tasks.query))
