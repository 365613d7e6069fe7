"""A `SkipLearner` on data that come without a validation set."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recombine.methods.skipping import (
    Batch,
    Coins,
    FrameLoss,
    LearnedReader,
    Phase,
    Rollout,
    SkipLearner,
    Skips,
    SkipTraining,
    Trajectories,
    as_floats,
    skip_loss,
)

Metrics = dict[str, Float[Array, ""]]

CURVES = ("loss", "mean_skip", "exploration")
MEASURED_TRAJECTORIES = 64
"""So many trajectories are run for each point of a training curve."""


class OwnTrajectoryLearner(eqx.Module):
    """Trains as its `SkipLearner` does, and measures free runs on some training trajectories."""

    trained: SkipLearner

    def init(self, key: PRNGKeyArray) -> SkipTraining:
        """Draws the model."""
        return self.trained.init(key)

    def step(self, state: SkipTraining, key: PRNGKeyArray) -> tuple[SkipTraining, Metrics]:
        """Matches one batch, and makes one update."""
        state, metrics = self.trained.step(state, key)
        return state, {name: metrics[name] for name in CURVES}

    def evaluate(self, state: SkipTraining, key: PRNGKeyArray) -> Metrics:
        """Returns how often the outcome is right, or else how well a free run can be matched."""
        calls = {"model_evaluations": state.model_evaluations.astype(jnp.float32)}
        if state.reader is None:
            loss = self.trained.evaluate(state, key)["validation_loss"]
            return calls | {"rollout_loss": loss}
        data = self.trained.phases[0].train
        first = as_floats(data.frames[:MEASURED_TRAJECTORIES, 0])
        seen = read_to_the_end(state.model, state.reader, first, self.trained.depth(state))
        is_right = jnp.argmax(seen, axis=1) == data.labels[:MEASURED_TRAJECTORIES]
        return calls | {"accuracy": jnp.mean(is_right.astype(jnp.float32))}


def make_trajectory_learner(data: Trajectories, **settings: Any) -> OwnTrajectoryLearner:
    """Makes a learner of trajectories in memory; `settings` are those of `SkipLearner`."""
    phase = Phase(data, data)
    return OwnTrajectoryLearner(
        SkipLearner((phase,), num_watched=MEASURED_TRAJECTORIES, **settings)
    )


def read_to_the_end(
    model: Any,
    reader: LearnedReader,
    first: Float[Array, " batch *shape"],
    depth: Int[Array, ""] | int,
) -> Float[Array, "batch classes"]:
    r"""Lets a model run freely, and returns the probability of each outcome.

    With the reader's probability $p_t(c)$ that prediction t is an end with outcome c, the outcome
    is that of the first end: $\sum_t p_t(c) \prod_{s<t} (1 - \sum_{c'} p_s(c'))$, scaled to a
    sum of 1. So what a model makes of the time after the end does not count. The thesis's readers
    add up the evidence of all frames.
    """

    def step(_: Any, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        frames, evidence, open_share = carry
        frames = jax.vmap(model)(frames)
        ends = jax.vmap(lambda frame: reader.evidence(None, frame))(frames)
        evidence = evidence + open_share[:, None] * ends
        return frames, evidence, open_share * (1 - jnp.sum(ends, axis=1))

    nothing = jnp.zeros((len(first), reader.num_classes))
    start = (first, nothing, jnp.ones(len(first)))
    _, evidence, _ = jax.lax.fori_loop(0, depth, step, start)
    return jax.vmap(reader.probabilities)(evidence)


@eqx.filter_jit
def follow(model: Any, batch: Batch, skips: Skips, frame_loss: FrameLoss) -> Rollout:
    """Lets a model run freely, and matches its predictions with the truth as it goes."""
    count, steps = len(batch.lengths), batch.frames.shape[1] - 1
    never = jnp.ones((steps, count))  # coins that never fall
    coins = Coins(never, never, never)
    return skip_loss(model, batch, coins, skips=skips, frame_loss=frame_loss)[1]
