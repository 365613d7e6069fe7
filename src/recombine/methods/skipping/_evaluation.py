"""How a trained model is measured: it runs freely from the first frame, and a reader watches.

All trajectories run for the same number of steps N, which follows from training: the 99th
percentile, over pairs of trajectories of the last epoch, of their mean number of predictions,
rounded, plus one (the authors' code, whose batches are pairs). Nothing says where to stop, so most
run past what they were trained on.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from recombine.methods.skipping._frames import FrameLoss, as_floats
from recombine.methods.skipping._matching import Batch, batched_model, match
from recombine.methods.skipping._outcome import OutcomeReader
from recombine.methods.skipping._skips import Skips


class Outcomes(NamedTuple):
    """What a reader saw in some rollouts."""

    evidence: Float[Array, "batch classes"]
    steps_present: Int[Array, " batch"]
    """How long that which moves was seen without a break."""
    num_predictions: Int[Array, " batch"]
    """How many predictions it saw."""


class Scores(NamedTuple):
    """Whether the outcomes are right."""

    soft: Float[Array, " batch"]
    """The probability that the true outcome was given; the published accuracy is its mean."""
    hard: Bool[Array, " batch"]
    """Whether the true outcome is the likeliest; no evidence at all is wrong."""


def evaluation_depth(
    counts: Int[Array, "batches batch"], is_known: Bool[Array, " batches"]
) -> Int[Array, ""]:
    """Returns N, from the numbers of predictions of the last epoch's trajectories.

    Whatever the batches, it is a percentile of means over pairs: a mean over more trajectories
    varies less, and the longest of them would then be cut off. Before the first batch it is 1.

    Example:
        >>> counts = jnp.array([[9, 11], [12, 12], [10, 12], [0, 0]])
        >>> int(evaluation_depth(counts, jnp.array([True, True, True, False])))
        13
    """
    first, second = counts[:, ::2], counts[:, 1::2]
    if counts.shape[1] % 2:  # one is left over, and its own pair
        second = jnp.concatenate([second, first[:, -1:]], axis=1)
    means = jnp.where(is_known[:, None], (first + second) / 2, jnp.nan)
    high = jnp.nanpercentile(means, 99.0)
    return jnp.where(jnp.any(is_known), jnp.round(high), 0.0).astype(jnp.int32) + 1


def read_free_run(
    model: Callable[..., Any],
    reader: OutcomeReader,
    first: Float[Array, " batch *shape"],
    depth: Int[Array, ""] | int,
    context: Float[Array, " batch *context"] | None = None,
) -> Outcomes:
    """Lets the model run freely for `depth` steps, and a reader see every prediction.

    The depth may change without a new program. No frame is kept.
    """
    predict = batched_model(model, context)
    watch = _Watch(reader, first, context)

    def step(_: Any, carry: tuple[Array, Outcomes]) -> tuple[Array, Outcomes]:
        frames, seen = carry
        frames = predict(frames)
        return frames, watch.see(seen, frames, jnp.ones(len(frames), bool))

    return jax.lax.fori_loop(0, depth, step, (first, watch.nothing()))[1]


class Followed(NamedTuple):
    """A free run that was matched with the truth as it went."""

    outcomes: Outcomes
    """Of the predictions up to the match with the last frame."""
    reached: Int[Array, " batch"]
    """The last matched frame."""
    longest_skip: Int[Array, " batch"]


def read_matched_run(
    model: Callable[..., Any],
    reader: OutcomeReader,
    batch: Batch,
    skips: Skips,
    frame_loss: FrameLoss,
) -> Followed:
    """Lets the model run freely until its prediction is matched with the last frame.

    The truth decides only where to stop; the model never sees it.
    """
    predict = batched_model(model, batch.context)
    first = as_floats(batch.frames[:, 0])
    watch = _Watch(reader, first, batch.context)
    everyone = jnp.arange(len(first))

    def is_active(at: Int[Array, " batch"]) -> Bool[Array, " batch"]:
        return at + skips.shortest <= batch.lengths - 1

    def step(carry: tuple[Array, Array, Outcomes, Array]) -> tuple[Array, Array, Outcomes, Array]:
        at, frames, seen, longest = carry
        active = is_active(at)
        prediction = predict(frames)
        found = match(prediction, active, everyone, at, batch, skips, frame_loss)
        seen = watch.see(seen, prediction, active)
        return found.at, prediction, seen, jnp.maximum(longest, found.at - at)

    nowhere = jnp.zeros_like(batch.lengths)
    at, _, seen, longest = jax.lax.while_loop(
        lambda carry: jnp.any(is_active(carry[0])),
        step,
        (nowhere, first, watch.nothing(), nowhere),
    )
    return Followed(seen, at, longest)


def score_outcomes(
    reader: OutcomeReader, evidence: Float[Array, "batch classes"], labels: Int[Array, " batch"]
) -> Scores:
    """Compares what a reader saw with the true outcomes."""
    probabilities = jax.vmap(reader.probabilities)(evidence)
    soft = jnp.take_along_axis(probabilities, labels[:, None], axis=1)[:, 0]
    has_evidence = jnp.sum(evidence, axis=1) > 0
    return Scores(soft, (jnp.argmax(evidence, axis=1) == labels) & has_evidence)


class _Watch:
    """A reader in front of a batch."""

    def __init__(self, reader: OutcomeReader, first: Array, context: Array | None):
        self.reader = reader
        axes = (0, None if context is None else 0)
        self.memory = jax.vmap(reader.look, in_axes=axes)(first, context)
        self.batch = len(first)

    def nothing(self) -> Outcomes:
        steps = jnp.zeros(self.batch, jnp.int32)
        return Outcomes(jnp.zeros((self.batch, self.reader.num_classes)), steps, steps)

    def see(self, seen: Outcomes, frames: Array, active: Bool[Array, " batch"]) -> Outcomes:
        new = jax.vmap(self.reader.evidence)(self.memory, frames)
        is_there = jax.vmap(self.reader.is_present)(frames)
        unbroken = seen.steps_present == seen.num_predictions
        return Outcomes(
            evidence=seen.evidence + jnp.where(active[:, None], new, 0.0),
            steps_present=seen.steps_present + (active & is_there & unbroken),
            num_predictions=seen.num_predictions + active,
        )
