"""A control that knows all trained tasks by heart, and nothing of how they are made.

It has the teacher itself for every trained combination, and answers a task with the one that comes
nearest on the support. No learner that only picks among trained tasks can do better; one that is
above it on unseen combinations has combined what it learned.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from recombine.experiments.hypernetworks._hyperteacher_learner import HyperteacherLearner
from recombine.methods.hypernetworks import MetaTraining, SoftLabels
from recombine.tasks.hyperteacher import (
    TEMPERATURE,
    GeneratedTeacher,
    Hyperteacher,
    HyperteacherWorld,
)

Metrics = dict[str, Float[Array, ""]]
AT_ONCE = 16  # tasks that are compared at once


class KnownTasks(eqx.Module):
    """All tasks of a hyperteacher, as the teacher has them, and which of them are known."""

    teacher: GeneratedTeacher
    is_known: Bool[Array, " tasks"]
    latents: Float[Array, "tasks layers modules"]
    means: Float[Array, "tasks outputs"]  # of the logits, over the teacher's reference inputs
    spreads: Float[Array, "tasks outputs"]

    def start(
        self,
        inputs: Float[Array, "rows inputs"],
        targets: Float[Array, "rows outputs"],
        weights: Float[Array, " rows"] | None,
        *,
        key: PRNGKeyArray,
    ) -> tuple[Array, Array, Array]:
        """Returns the trained task that is nearest to the support, as latent, mean and spread."""
        units = self.teacher.enter(inputs)

        def divergence(task: tuple[Array, Array, Array]) -> Float[Array, ""]:
            return SoftLabels().loss(self._answer(task, units), targets, weights)

        tasks = (self.latents, self.means, self.spreads)
        distances = jax.lax.map(divergence, tasks, batch_size=AT_ONCE)
        nearest = jnp.argmin(jnp.where(self.is_known, distances, jnp.inf))
        return self.latents[nearest], self.means[nearest], self.spreads[nearest]

    def read(self, inputs: Float[Array, "rows inputs"]) -> Float[Array, "rows units"]:
        """Returns what the generated layers read."""
        return self.teacher.enter(inputs)

    def predict(
        self, task: tuple[Array, Array, Array], features: Float[Array, "rows units"]
    ) -> Float[Array, "rows outputs"]:
        """Returns the teacher's logits for the task that was found."""
        return self._answer(task, features)

    def _answer(self, task: tuple[Array, Array, Array], units: Array) -> Array:
        latent, mean, spread = task
        return (self.teacher.leave(latent, units) - mean[None]) / spread[None] / TEMPERATURE


class NearestTaskLearner(eqx.Module):
    """Measures `KnownTasks` as other learners are measured; there is nothing to train."""

    learner: HyperteacherLearner

    def init(self, key: PRNGKeyArray) -> MetaTraining:
        """Draws a teacher, as other learners do, and takes all trained tasks from it."""
        state = self.learner.init(key)
        return state._replace(model=know_tasks(self.learner.source, state.world))

    def step(self, state: MetaTraining, key: PRNGKeyArray) -> tuple[MetaTraining, Metrics]:
        """Does nothing."""
        del key
        return state._replace(step=state.step + 1), {"loss": jnp.float32(0.0)}

    def evaluate(self, state: MetaTraining, key: PRNGKeyArray) -> Metrics:
        """Measures new tasks of trained combinations, and held-out combinations."""
        return self.learner.evaluate(state, key)

    def final(self, state: MetaTraining, key: PRNGKeyArray) -> Metrics:
        """Measures everything; what it holds are no parameters."""
        return self.learner.final(state, key) | {"parameters": jnp.float32(0.0)}

    def inspect(self, state: MetaTraining, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns which modules were trained together, and how well tasks were answered."""
        return self.learner.inspect(state, key)


def know_tasks(source: Hyperteacher, world: HyperteacherWorld) -> KnownTasks:
    """Takes all trained tasks from a teacher."""
    teacher = world.teacher
    latents: Any = source.latents_of(world.combinations.tasks)
    units = teacher.enter(world.reference)

    def moments(latent: Array) -> tuple[Array, Array]:
        logits = teacher.leave(latent, units)
        return jnp.mean(logits, axis=0), jnp.maximum(jnp.std(logits, axis=0), 1e-12)

    known = jax.lax.map(moments, latents, batch_size=AT_ONCE)
    return KnownTasks(teacher, world.combinations.is_trained, latents, *known)
