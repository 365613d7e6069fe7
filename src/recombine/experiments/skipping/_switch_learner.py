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
        frozen = self.inner.final(self.kept(state), key)
        return metrics | {
            "accuracy_frozen": frozen[new],
            "accuracy_before": frozen[f"accuracy_soft/{self.inner.phases[0].name}"],
            "drop": frozen[new] - metrics[new],
        }

    def kept(self, state: SwitchTraining) -> SkipTraining:
        """Returns the model of the switch as it is measured in the end.

        It is watched for as many steps as it then needed, and for those of the last one if they are
        more: bounces make falls longer, and a model that has collapsed may skip to their ends at
        once. What further training has cost is not to be a matter of either.
        """
        now, then = state.training, state.frozen
        longer = self.inner.depth(then) > self.inner.depth(now)
        return then._replace(counts=jnp.where(longer, then.counts, now.counts), step=now.step)

    def inspect(self, state: SwitchTraining, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns what the model makes of a few trajectories."""
        return self.inner.inspect(state.training, key)
