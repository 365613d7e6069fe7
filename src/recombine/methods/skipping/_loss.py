"""Adaptive skip intervals: the loss of a model that chooses its own time step.

From the first frame, the model predicts; its prediction is matched with whichever of the next
frames it fits best; from there it goes on, until the last frame is matched (Neitz, thesis, §2.2,
Algorithm 1). Nobody tells the model how far it skipped.

What we settle. The thesis prints a sum over steps and speaks of a mean; the loss here is the mean
over all predictions of the batch, as in the authors' code. Candidates beyond a trajectory's end do
not exist; the authors' code compares with black frames there. Gradients flow through predictions
that are fed back, not through the choice of a match.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from recombine.methods.skipping._branching import anyone
from recombine.methods.skipping._chunks import roll_in_chunks
from recombine.methods.skipping._course import Course, Draw
from recombine.methods.skipping._frames import BINARY_CROSS_ENTROPY, FrameLoss, as_floats
from recombine.methods.skipping._matching import NOT_MATCHED, Batch, Walk
from recombine.methods.skipping._skips import Coins, Skips


class Rollout(NamedTuple):
    """What happened in a batch; steps that a trajectory did not need are marked."""

    matched: Int[Array, "steps batch"]
    """The frame that each prediction was matched with; -1 after the end."""
    losses: Float[Array, "steps batch"]
    """The loss of each prediction; 0 after the end."""
    num_predictions: Int[Array, " batch"]
    """How often the model was needed, per trajectory."""
    num_steps: Int[Array, ""]
    """How often it was called for the whole batch: until the last trajectory ended, or to the end
    of that chunk."""
    predictions: Float[Array, "steps batch *shape"] | None
    """The predicted frames, where they are kept; 0 after the batch's end."""
    costs: Float[Array, "steps batch candidates"] | None
    """The loss against every candidate, where they are kept; infinite beyond the end."""


def skip_loss(
    model: Callable[..., Float[Array, " *shape"]],
    batch: Batch,
    coins: Coins,
    *,
    skips: Skips,
    exploration: Float[Array, ""] | float = 0.0,
    truth: Float[Array, ""] | float = 0.0,
    frame_loss: FrameLoss = BINARY_CROSS_ENTROPY,
    targets: Int[Array, "steps batch"] | None = None,
    keep_predictions: bool = False,
    keep_costs: bool = False,
    rematerialize: bool = False,
    chunk: int | None = None,
) -> tuple[Float[Array, ""], Rollout]:
    """Returns the mean loss over all predictions of a batch, and what was matched with what.

    With `Skips(k, k)` it is the loss of a model with a fixed step; with `exploration=0` that of
    adaptive skips without exploration.

    Args:
        model: from one frame to the next one; with a context, from frame and context.
        batch: the trajectories; what stands beyond their ends does not matter.
        coins: as many steps as the longest trajectory may take, from `flip_coins`.
        skips: how far a prediction may skip.
        exploration: the probability that a match is drawn at random, μ.
        truth: the probability that the matched frame is fed next, ε; else the prediction is.
        frame_loss: the distance of a prediction from a frame.
        targets: the matches, where they are known; -1 after the end. Nothing is chosen then.
        keep_predictions: whether to return all predicted frames.
        keep_costs: whether to return the loss against every candidate.
        rematerialize: whether to compute predictions again for the backward pass, which costs a
            third more time and saves most of the memory.
        chunk: how many steps are made at a time, for models that keep an accelerator waiting: the
            loop then ends with the batch, and goes back over a whole chunk at once. The model must
            then hold what is trained as arrays of its own, as modules do. None visits every step
            that there could be, and so does a rollout of which predictions or costs are kept.

    Example:
        >>> frames = jnp.array([[0.0, 1, 2, 3, 4, 5, 6, 9]])[..., None]
        >>> from recombine.methods.skipping import SquaredError, flip_coins
        >>> coins = flip_coins(jax.random.key(0), 7, 1)
        >>> batch = Batch(frames, jnp.array([8]))
        >>> loss, rollout = skip_loss(
        ...     lambda x: x + 3, batch, coins, skips=Skips(1, 3), frame_loss=SquaredError()
        ... )
        >>> float(loss), rollout.matched[:, 0].tolist()
        (0.0, [3, 6, 7, -1, -1, -1, -1])
    """
    steps = _checked(batch, coins, skips, targets)
    if chunk is not None and chunk < 1:
        raise ValueError(f"`chunk` must be at least 1 step; got {chunk}")
    course = Course(batch, exploration, truth, skips, frame_loss)
    draws = Draw(jax.tree.map(lambda row: row[:steps], coins), targets)
    if chunk is not None and not (keep_predictions or keep_costs):
        rolled = roll_in_chunks(model, course, draws, chunk)
        matched = rolled.track.matched.reshape(-1, len(batch.lengths))[:steps]
        losses = rolled.track.losses.reshape(-1, len(batch.lengths))[:steps]
        made = rolled.num_chunks * chunk
        return _mean_of(matched, losses, made, None, None)

    def advance(walk: Walk, draw: Draw) -> tuple[Walk, tuple[Any, ...]]:
        walk, step = course.advance(model, walk, draw)
        kept = (_kept(keep_predictions, step.prediction), _kept(keep_costs, step.costs))
        return walk, (step.matched, step.losses, *kept)

    def skip(walk: Walk, draw: Draw) -> tuple[Walk, tuple[Any, ...]]:
        _, shapes = jax.eval_shape(advance, walk, draw)
        matched, *others = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return walk, (jnp.full_like(matched, NOT_MATCHED), *others)

    def body(walk: Walk, draw: Draw) -> tuple[Walk, tuple[Any, ...]]:
        wanted = anyone(course.needed(walk, draw))
        return jax.lax.cond(wanted, advance, skip, walk, draw)

    start = Walk(jnp.zeros_like(batch.lengths), as_floats(batch.frames[:, 0]))
    _, (matched, losses, predictions, costs) = jax.lax.scan(
        jax.checkpoint(body) if rematerialize else body, start, draws, length=steps
    )
    made = jnp.sum(jnp.any(matched != NOT_MATCHED, axis=1))
    return _mean_of(matched, losses, made, predictions, costs)


def _mean_of(
    matched: Int[Array, "steps batch"],
    losses: Float[Array, "steps batch"],
    made: Int[Array, ""],
    predictions: Array | None,
    costs: Array | None,
) -> tuple[Float[Array, ""], Rollout]:
    is_step = matched != NOT_MATCHED
    count = jnp.sum(is_step)
    loss = jnp.sum(losses) / jnp.maximum(count, 1)
    return loss, Rollout(
        matched=matched,
        losses=losses,
        num_predictions=jnp.sum(is_step, axis=0),
        num_steps=made,
        predictions=predictions,
        costs=costs,
    )


def _kept(keep: bool, values: Array) -> Array | None:
    return values if keep else None


def _checked(batch: Batch, coins: Coins, skips: Skips, targets: Array | None) -> int:
    items, time = batch.frames.shape[:2]
    if batch.lengths.shape != (items,):
        raise ValueError(
            f"`lengths` must have one number for each of the {items} trajectories; got shape "
            f"{batch.lengths.shape}"
        )
    steps = skips.most_predictions(time) if targets is None else len(targets)
    if len(coins.truth) < steps or coins.truth.shape[1] != items:
        raise ValueError(
            f"`coins` must have at least {steps} rows of {items} for trajectories of {time} "
            f"frames; got shape {coins.truth.shape}"
        )
    return steps
