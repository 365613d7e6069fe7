"""An `AgreementLearner` on data that come without a test set."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.agreement import (
    AgreementLearner,
    AgreementTraining,
    Fixed,
    LabelledEnvironments,
    LabelledExamples,
    Split,
)

MEASURED_ROWS = 2048
"""Of every environment, at most so many rows are looked at for the training curves."""


class OwnDataLearner(eqx.Module):
    """Trains as its `AgreementLearner` does, and measures accuracy in every environment."""

    trained: AgreementLearner
    measured: LabelledEnvironments

    def init(self, key: PRNGKeyArray) -> AgreementTraining:
        """Draws the network."""
        return self.trained.init(key)

    def step(
        self, state: AgreementTraining, key: PRNGKeyArray
    ) -> tuple[AgreementTraining, dict[str, Float[Array, ""]]]:
        """Takes one batch from every environment and makes one update."""
        return self.trained.step(state, key)

    def evaluate(self, state: AgreementTraining, key: PRNGKeyArray) -> dict[str, Float[Array, ""]]:
        """Returns the training accuracy: the mean over environments, and that of the worst."""

        def accuracy(data: LabelledEnvironments) -> Float[Array, ""]:
            logits = jax.vmap(state.model)(data.inputs)
            return jnp.mean(jax.vmap(self.trained.objective.is_right)(logits, data.labels))

        accuracies = jax.lax.map(accuracy, self.measured)
        return {"accuracy": jnp.mean(accuracies), "worst_accuracy": jnp.min(accuracies)}


def make_learner(train: LabelledEnvironments, **settings: Any) -> OwnDataLearner:
    """Makes a learner of environments in memory; `settings` are those of `AgreementLearner`."""
    nothing = LabelledExamples(train.inputs[0, :0], train.labels[0, :0])
    learner = AgreementLearner(source=Fixed(Split(train, nothing)), **settings)
    measured = LabelledEnvironments(
        train.inputs[:, :MEASURED_ROWS], train.labels[:, :MEASURED_ROWS]
    )
    return OwnDataLearner(learner, measured)
