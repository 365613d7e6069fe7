"""Global alignment of a model that was matched greedily before.

The free run of an untrained model is noise, and so is its best alignment. The first part of a run
therefore matches one prediction after the other, with exploration, as the published method does.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recombine.methods.skipping import SkipLearner, SkipTraining
from recombine.methods.skipping._branching import anyone

Metrics = dict[str, Float[Array, ""]]


class GreedyFirstLearner(eqx.Module):
    """Matches greedily for `greedy_steps`, and then as the learner in it does."""

    inner: SkipLearner
    greedy_steps: Int[Array, ""] = eqx.field(converter=lambda n: jnp.asarray(n, jnp.int32))

    @property
    def vectorize_seeds(self) -> bool:
        """As the learner in it says."""
        return self.inner.vectorize_seeds

    def init(self, key: PRNGKeyArray) -> SkipTraining:
        """Starts the run."""
        return self.inner.init(key)

    def step(self, state: SkipTraining, key: PRNGKeyArray) -> tuple[SkipTraining, Metrics]:
        """Matches one batch in the way of its time, and makes one update."""
        greedy = dataclasses.replace(self.inner, matching="greedy")
        # All seeds are at the same step; saying so keeps this a branch where they are vectorised.
        is_late = anyone(state.step >= self.greedy_steps)
        return jax.lax.cond(
            is_late,
            lambda state, key: self.inner.step(state, key),
            lambda state, key: greedy.step(state, key),
            state,
            key,
        )

    def evaluate(self, state: SkipTraining, key: PRNGKeyArray) -> Metrics:
        """Measures free runs on some validation trajectories."""
        return self.inner.evaluate(state, key)

    def final(self, state: SkipTraining, key: PRNGKeyArray) -> Metrics:
        """Measures free runs on all validation trajectories."""
        return self.inner.final(state, key)

    def inspect(self, state: SkipTraining, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns what the model makes of a few trajectories."""
        return self.inner.inspect(state, key)
