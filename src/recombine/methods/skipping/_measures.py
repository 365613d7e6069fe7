"""What is measured of a trained model on validation trajectories, some of them at a time."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from recombine.methods.skipping._data import Trajectories
from recombine.methods.skipping._evaluation import (
    Scores,
    read_free_run,
    read_matched_run,
    score_outcomes,
)
from recombine.methods.skipping._frames import FrameLoss, as_floats
from recombine.methods.skipping._loss import skip_loss
from recombine.methods.skipping._outcome import OutcomeReader
from recombine.methods.skipping._skips import Skips, no_coins

Metrics = dict[str, Float[Array, ""]]


class Some(NamedTuple):
    """The first trajectories of a set."""

    data: Trajectories
    most: int | None
    """How many at most; None are all."""
    at_once: int
    """How many are measured together."""

    def measure(self, measure: Callable[[Int[Array, " batch"]], Any]) -> Any:
        """Measures them, some at a time; in the last batch the last one fills up."""
        everyone = len(self.data.lengths)
        total = everyone if self.most is None else min(self.most, everyone)
        size = min(self.at_once, total)
        chunks = -(-total // size)
        items = jnp.minimum(jnp.arange(chunks * size), total - 1).reshape(chunks, size)
        results = jax.lax.map(measure, items)
        return jax.tree.map(lambda leaf: leaf.reshape(-1)[:total], results)


def measure_free_runs(
    model: Any, reader: OutcomeReader, some: Some, depth: Int[Array, ""]
) -> Metrics:
    """Measures what a reader sees in free runs of `depth` steps."""
    data = some.data
    first_frames = data.frames[:, 0]  # or a GPU makes a copy of all frames to pick them from

    def measure(items: Int[Array, " batch"]) -> tuple[Scores, Array]:
        first = as_floats(first_frames[items])
        context = None if data.context is None else data.context[items]
        seen = read_free_run(model, reader, first, depth, context)
        return score_outcomes(reader, seen.evidence, data.labels[items]), seen.steps_present

    scores, present = some.measure(measure)
    return {
        "accuracy_soft": jnp.mean(scores.soft),
        "accuracy_hard": jnp.mean(scores.hard),
        "object_steps": jnp.mean(present),
        "object_kept": jnp.mean(present >= depth),
    }


def measure_matched_runs(
    model: Any, reader: OutcomeReader, some: Some, skips: Skips, frame_loss: FrameLoss
) -> Metrics:
    """Measures free runs that stop where they match the last true frame."""
    data = some.data

    def measure(items: Int[Array, " batch"]) -> tuple[Scores, Array, Array, Array]:
        run = read_matched_run(model, reader, data.batch(items), skips, frame_loss)
        seen = run.outcomes
        scores = score_outcomes(reader, seen.evidence, data.labels[items])
        return scores, seen.num_predictions, run.reached, run.longest_skip

    scores, counts, reached, longest = some.measure(measure)
    return {
        "accuracy_matched": jnp.mean(scores.soft),
        "mean_skip": jnp.sum(reached) / jnp.maximum(jnp.sum(counts), 1),
        "longest_skip": jnp.max(longest).astype(jnp.float32),
    }


def measure_loss(model: Any, some: Some, skips: Skips, frame_loss: FrameLoss) -> Metrics:
    """Measures the mean loss of predictions in free runs, where nothing reads outcomes."""
    data = some.data

    def measure(items: Int[Array, " batch"]) -> tuple[Array, Array]:
        batch = data.batch(items)
        coins = no_coins(batch.frames.shape[1] - 1, len(items))
        _, rollout = skip_loss(model, batch, coins, skips=skips, frame_loss=frame_loss)
        return jnp.sum(rollout.losses, axis=0), rollout.num_predictions

    losses, counts = some.measure(measure)
    return {"validation_loss": jnp.sum(losses) / jnp.maximum(jnp.sum(counts), 1)}
