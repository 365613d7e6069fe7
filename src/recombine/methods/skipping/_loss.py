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
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from recombine.methods.skipping._course import Course, Draws
from recombine.methods.skipping._frames import BINARY_CROSS_ENTROPY, FrameLoss
from recombine.methods.skipping._matching import NOT_MATCHED, Batch
from recombine.methods.skipping._pieces import (
    Pieces,
    cut_where_truth_is_fed,
    whole_trajectories,
)
from recombine.methods.skipping._rolling import Loop, roll
from recombine.methods.skipping._skips import Coins, Skips


class Rollout(NamedTuple):
    """What happened in a batch; steps that a trajectory did not need are marked."""

    matched: Int[Array, "steps batch"]
    """The frame that each prediction was matched with; -1 after the end."""
    losses: Float[Array, "steps batch"]
    """The loss of each prediction; 0 after the end."""
    num_predictions: Int[Array, " batch"]
    """How often the model was needed, per trajectory."""
    num_calls: Int[Array, ""]
    """How often it was called for the whole batch, idle lanes included: until the last trajectory
    ended, or to the end of that chunk."""
    predictions: Float[Array, "steps batch *shape"] | None
    """The predicted frames, where they are kept; 0 after the end."""
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
    chunk: int = 1,
    lanes: int | None = None,
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
        chunk: how many steps are made before one looks whether all trajectories have ended. An
            accelerator waits while the host looks.
        lanes: how many trajectories are followed at a time; where one ends, the next one begins.
            None follows all of them, and those that end early wait for the others. With more lanes
            than trajectories, those whose matches are known beforehand are cut where the truth is
            fed, and the pieces followed side by side. The numbers are the same, to rounding.

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
    if chunk < 1:
        raise ValueError(f"`chunk` must be at least 1 step; got {chunk}")
    if lanes is not None and lanes < 1:
        raise ValueError(f"`lanes` must be at least 1 trajectory at a time; got {lanes}")
    lanes = len(batch.lengths) if lanes is None else lanes
    coins = jax.tree.map(lambda row: row[:steps], coins)
    pieces = _pieces(batch, coins, skips, truth, targets, lanes)
    lanes = min(lanes, len(pieces.items))
    course = Course(batch, pieces, Draws(coins, targets), exploration, truth, skips, frame_loss)
    made = roll(
        model, course, Loop(lanes, chunk, keep_predictions, keep_costs, rematerialize)
    ).steps

    def in_order(of_lanes: Array, blank: float) -> Array:
        """From a row for each step that was made to one for each step of a trajectory."""
        rows = jnp.full((steps, len(batch.lengths), *of_lanes.shape[2:]), blank, of_lanes.dtype)
        row = jnp.where(made.matched != NOT_MATCHED, made.steps, steps)  # the others fall out
        return rows.at[row, made.items].set(of_lanes, mode="drop")

    # Not what was made of vectorised runs, which wait for each other: a run's numbers are its own.
    num_steps = jnp.sum(jnp.any(made.matched != NOT_MATCHED, axis=1))
    matched = in_order(made.matched, NOT_MATCHED)
    is_step = matched != NOT_MATCHED
    loss = jnp.sum(made.losses) / jnp.maximum(jnp.sum(is_step), 1)
    return loss, Rollout(
        matched=matched,
        losses=in_order(made.losses, 0.0),
        num_predictions=jnp.sum(is_step, axis=0),
        num_calls=lanes * chunk * (-(-num_steps // chunk)),
        predictions=None if made.prediction is None else in_order(made.prediction, 0.0),
        costs=None if made.costs is None else in_order(made.costs, jnp.inf),
    )


def _pieces(
    batch: Batch,
    coins: Coins,
    skips: Skips,
    truth: Float[Array, ""] | float,
    targets: Int[Array, "steps batch"] | None,
    lanes: int,
) -> Pieces:
    """Returns the trajectories, or where there are lanes for it and nothing to choose, pieces."""
    steps = len(coins.truth)
    if lanes > len(batch.lengths):
        if targets is None and skips.is_fixed:
            frames = skips.shortest * (1 + jnp.arange(steps, dtype=batch.lengths.dtype)[:, None])
            targets = jnp.where(frames < batch.lengths[None], frames, NOT_MATCHED)
        if targets is not None:
            return cut_where_truth_is_fed(targets, coins.truth < truth)
    length = batch.lengths if targets is None else jnp.sum(targets != NOT_MATCHED, axis=0)
    return whole_trajectories(length, steps)


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
