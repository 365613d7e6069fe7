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
from jaxtyping import Array, Bool, Float, Int, Shaped

from recombine.methods.skipping._branching import anyone
from recombine.methods.skipping._frames import BINARY_CROSS_ENTROPY, FrameLoss, as_floats
from recombine.methods.skipping._skips import Coins, Skips

NOT_MATCHED = -1


class Rollout(NamedTuple):
    """What happened in a batch; steps that a trajectory did not need are marked."""

    matched: Int[Array, "steps batch"]
    """The frame that each prediction was matched with; -1 after the end."""
    losses: Float[Array, "steps batch"]
    """The loss of each prediction; 0 after the end."""
    num_predictions: Int[Array, " batch"]
    """How often the model was needed, per trajectory."""
    num_steps: Int[Array, ""]
    """How often it was called for the whole batch: until the last trajectory ended."""
    predictions: Float[Array, "steps batch *shape"] | None
    """The predicted frames, where they are kept; 0 after the batch's end."""
    costs: Float[Array, "steps batch candidates"] | None
    """The loss against every candidate, where they are kept; infinite beyond the end."""


class Batch(NamedTuple):
    """Trajectories that are trained on together, padded to one length."""

    frames: Shaped[Array, "batch time *shape"]
    lengths: Int[Array, " batch"]
    context: Float[Array, " batch *context"] | None = None
    """What the model is told besides the frame; it does not change within a trajectory."""


class Walk(NamedTuple):
    """How far the trajectories of a batch are."""

    at: Int[Array, " batch"]
    """The last frame that was matched."""
    inputs: Float[Array, " batch *shape"]
    """What the model is fed next."""


class Match(NamedTuple):
    """One prediction of every trajectory, and the frame it was matched with."""

    active: Bool[Array, " batch"]
    at: Int[Array, " batch"]
    prediction: Float[Array, " batch *shape"]
    frame: Float[Array, " batch *shape"]
    costs: Float[Array, "batch candidates"]


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
    predict = batched_model(model, batch.context)

    def needed(walk: Walk, target: Int[Array, " batch"] | None) -> Bool[Array, " batch"]:
        if target is not None:
            return target != NOT_MATCHED
        return walk.at + skips.shortest <= batch.lengths - 1

    def advance(walk: Walk, drawn: Any) -> tuple[Walk, tuple[Any, ...]]:
        coin, target = drawn
        active = needed(walk, target)
        prediction = predict(walk.inputs)
        if target is None:
            found = match(prediction, active, walk.at, batch, skips, frame_loss, coin, exploration)
        else:
            at = jnp.where(active, target, walk.at)
            costs = jnp.zeros((len(at), skips.longest - skips.shortest + 1))
            found = Match(active, at, prediction, frames_at(batch, at), costs)
        losses = jnp.where(active, jax.vmap(frame_loss)(prediction, found.frame), 0.0)
        # A trajectory that has ended is fed its last frame: whatever the model makes of it is
        # finite, and does not count.
        is_truth = (coin.truth < truth) | ~active
        inputs = _choose(is_truth, found.frame, prediction)
        matched = jnp.where(active, found.at, NOT_MATCHED)
        outcome = (
            matched,
            losses,
            _kept(keep_predictions, prediction),
            _kept(keep_costs, found.costs),
        )
        return Walk(found.at, inputs), outcome

    def skip(walk: Walk, drawn: Any) -> tuple[Walk, tuple[Any, ...]]:
        _, shapes = jax.eval_shape(advance, walk, drawn)
        matched, *others = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return walk, (jnp.full_like(matched, NOT_MATCHED), *others)

    def body(walk: Walk, drawn: Any) -> tuple[Walk, tuple[Any, ...]]:
        wanted = anyone(needed(walk, drawn[1]))
        return jax.lax.cond(wanted, advance, skip, walk, drawn)

    start = Walk(jnp.zeros_like(batch.lengths), as_floats(batch.frames[:, 0]))
    rows = jax.tree.map(lambda row: row[:steps], coins)
    _, (matched, losses, predictions, costs) = jax.lax.scan(
        jax.checkpoint(body) if rematerialize else body, start, (rows, targets), length=steps
    )
    is_step = matched != NOT_MATCHED
    count = jnp.sum(is_step)
    loss = jnp.sum(losses) / jnp.maximum(count, 1)
    return loss, Rollout(
        matched=matched,
        losses=losses,
        num_predictions=jnp.sum(is_step, axis=0),
        num_steps=jnp.sum(jnp.any(is_step, axis=1)),
        predictions=predictions,
        costs=costs,
    )


def match(
    prediction: Float[Array, " batch *shape"],
    active: Bool[Array, " batch"],
    at: Int[Array, " batch"],
    batch: Batch,
    skips: Skips,
    frame_loss: FrameLoss,
    coin: Coins | None = None,
    exploration: Float[Array, ""] | float = 0.0,
) -> Match:
    """Matches every prediction with the frame that fits best, or with one at random.

    Of frames that fit equally well the earliest is taken. Where a trajectory is not `active`, it
    stays where it is.

    Args:
        prediction: one for every trajectory.
        active: which trajectories have not ended.
        at: their last matched frames.
        batch: the trajectories.
        skips: how far a prediction may skip.
        frame_loss: the distance of a prediction from a frame.
        coin: one row of coins, or None to match the best.
        exploration: the probability that a match is drawn at random.
    """
    furthest = jnp.minimum(skips.longest, batch.lengths - 1 - at)
    offsets = skips.shortest + jnp.arange(skips.longest - skips.shortest + 1)
    if skips.is_fixed:
        skip = jnp.full_like(at, skips.shortest)
        costs = jnp.zeros((len(at), 1))
    else:
        last = batch.frames.shape[1] - 1
        index = jnp.minimum(at[:, None] + offsets[None], last)
        window = as_floats(jax.vmap(lambda frames, where: frames[where])(batch.frames, index))
        costs = jax.vmap(frame_loss.against)(jax.lax.stop_gradient(prediction), window)
        costs = jnp.where(offsets[None] <= furthest[:, None], costs, jnp.inf)
        skip = skips.shortest + jnp.argmin(costs, axis=1)
        if coin is not None:
            choices = jnp.maximum(furthest - skips.shortest + 1, 1)
            drawn = jnp.minimum(jnp.floor(coin.offset * choices).astype(at.dtype), choices - 1)
            skip = jnp.where(coin.explore < exploration, skips.shortest + drawn, skip)
    new = jnp.where(active, at + skip, at).astype(at.dtype)
    return Match(active, new, prediction, frames_at(batch, new), costs)


def frames_at(batch: Batch, at: Int[Array, " batch"]) -> Float[Array, " batch *shape"]:
    """Returns one frame of every trajectory."""
    return as_floats(jax.vmap(lambda frames, where: frames[where])(batch.frames, at))


def batched_model(model: Callable[..., Any], context: Array | None) -> Callable[[Any], Any]:
    """Calls a model of one frame on a batch, with the batch's context where there is one."""
    if context is None:
        return jax.vmap(model)
    return lambda inputs: jax.vmap(model)(inputs, context)


def _choose(which: Bool[Array, " batch"], yes: Array, no: Array) -> Array:
    return jnp.where(which.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)


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
