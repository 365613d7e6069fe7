"""A run whose data change, beside the model as it was then (Neitz, thesis, Fig. 2.11).

After the switch a model with fixed steps loses what it could do, although it would have been better
off without any further training. To show both, the model of the switch is kept and measured too.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.skipping import SkipLearner, SkipTraining

Metrics = dict[str, Float[Array, ""]]


class SwitchTraining(NamedTuple):
    """The state of one seed."""

    training: SkipTraining
    frozen: SkipTraining
    """As it was at the switch; before it, as it is."""


class SwitchLearner(eqx.Module):
    """Trains as the learner in it does, which must have two phases.

    `accuracy_frozen` is that of the kept model on the new data, and `drop` what the last model does
    worse than it: what further training has cost.
    """

    inner: SkipLearner

    @property
    def vectorize_seeds(self) -> bool:
        """As the learner in it says."""
        return self.inner.vectorize_seeds

    def init(self, key: PRNGKeyArray) -> SwitchTraining:
        """Starts the run."""
        training = self.inner.init(key)
        return SwitchTraining(training, training)

    def step(self, state: SwitchTraining, key: PRNGKeyArray) -> tuple[SwitchTraining, Metrics]:
        """Makes one update; until the switch the kept model follows."""
        training, metrics = self.inner.step(state.training, key)
        follows = training.step <= self.inner.switch_steps[0]

        def keep(new: Any, kept: Any) -> Any:
            return jnp.where(follows, new, kept) if eqx.is_array(new) else new

        return SwitchTraining(training, jax.tree.map(keep, training, state.frozen)), metrics

    def evaluate(self, state: SwitchTraining, key: PRNGKeyArray) -> Metrics:
        """Measures the model on both kinds of data."""
        return self.inner.evaluate(state.training, key)

    def final(self, state: SwitchTraining, key: PRNGKeyArray) -> Metrics:
        """Measures the model, and the one that was kept, on all validation trajectories."""
        metrics = self.inner.final(state.training, key)
        new = f"accuracy_soft/{self.inner.phases[-1].name}"
        # Both are watched equally long: bounces make falls longer, and what further training has
        # cost is not that the kept model would have been watched for fewer steps.
        now = state.training
        kept = state.frozen._replace(counts=now.counts, step=now.step)
        frozen = self.inner.final(kept, key)
        return metrics | {
            "accuracy_frozen": frozen[new],
            "accuracy_before": frozen[f"accuracy_soft/{self.inner.phases[0].name}"],
            "drop": frozen[new] - metrics[new],
        }

    def inspect(self, state: SwitchTraining, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns what the model makes of a few trajectories."""
        return self.inner.inspect(state.training, key)
