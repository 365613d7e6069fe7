"""An `AgreementLearner` on data that come without a test set."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.agreement import (
    REGRESSION,
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
    """Trains as its `AgreementLearner` does, and measures the score in every environment."""

    trained: AgreementLearner
    measured: LabelledEnvironments

    def init(self, key: PRNGKeyArray) -> AgreementTraining:
        """Draws the network."""
        return self.trained.init(key)

    def step(
        self, state: AgreementTraining, key: PRNGKeyArray
    ) -> tuple[AgreementTraining, dict[str, Float[Array, ""]]]:
        """Takes one batch from every environment and makes one update.

        The curves of single layers are left out: a history has one curve for the whole network.
        """
        state, metrics = self.trained.step(state, key)
        return state, {name: value for name, value in metrics.items() if "/" not in name}

    def evaluate(self, state: AgreementTraining, key: PRNGKeyArray) -> dict[str, Float[Array, ""]]:
        """Returns the training score: the mean over environments, and that of the worst."""
        objective = self.trained.objective

        def score(data: LabelledEnvironments) -> Float[Array, ""]:
            outputs = jax.vmap(state.model)(data.inputs)
            return jnp.mean(jax.vmap(objective.score)(outputs, data.labels))

        scores, name = jax.lax.map(score, self.measured), objective.score_name
        worst = jnp.max if name == REGRESSION.score_name else jnp.min  # an error should be small
        return {name: jnp.mean(scores), f"worst_{name}": worst(scores)}


def make_learner(train: LabelledEnvironments, **settings: Any) -> OwnDataLearner:
    """Makes a learner of environments in memory; `settings` are those of `AgreementLearner`."""
    nothing = LabelledExamples(train.inputs[0, :0], train.labels[0, :0])
    learner = AgreementLearner(source=Fixed(Split(train, nothing)), **settings)
    measured = LabelledEnvironments(
        train.inputs[:, :MEASURED_ROWS], train.labels[:, :MEASURED_ROWS]
    )
    return OwnDataLearner(learner, measured)
