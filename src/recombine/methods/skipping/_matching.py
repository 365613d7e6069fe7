"""Trajectories that are trained on together, and how predictions are matched with their frames."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Shaped

from recombine.methods.skipping._frames import FrameLoss, as_floats
from recombine.methods.skipping._skips import Coins, Skips

NOT_MATCHED = -1


class Batch(NamedTuple):
    """Trajectories that are trained on together, padded to one length."""

    frames: Shaped[Array, "batch time *shape"]
    lengths: Int[Array, " batch"]
    context: Float[Array, " batch *context"] | None = None
    """What the model is told besides the frame; it does not change within a trajectory."""


class Match(NamedTuple):
    """One prediction of some trajectories, and the frames they were matched with."""

    at: Int[Array, " lanes"]
    frame: Float[Array, " lanes *shape"]
    costs: Float[Array, "lanes candidates"]
    losses: Float[Array, " lanes"] | None
    """Of the predictions against these frames; None where nothing was compared."""


def match(
    prediction: Float[Array, " lanes *shape"],
    active: Bool[Array, " lanes"],
    items: Int[Array, " lanes"],
    at: Int[Array, " lanes"],
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
        prediction: one for every trajectory that is followed.
        active: which of them have not ended.
        items: which they are in the batch.
        at: their last matched frames.
        batch: the trajectories.
        skips: how far a prediction may skip.
        frame_loss: the distance of a prediction from a frame.
        coin: one row of coins, or None to match the best.
        exploration: the probability that a match is drawn at random.
    """
    furthest = jnp.minimum(skips.longest, batch.lengths[items] - 1 - at)
    offsets = skips.shortest + jnp.arange(skips.longest - skips.shortest + 1)
    losses = None
    if skips.is_fixed:
        skip = jnp.full_like(at, skips.shortest)
        costs = jnp.zeros((len(at), 1))
    else:
        last = batch.frames.shape[1] - 1
        index = jnp.minimum(at[:, None] + offsets[None], last)
        window = as_floats(batch.frames[items[:, None], index])
        costs = jax.vmap(frame_loss.against)(jax.lax.stop_gradient(prediction), window)
        costs = jnp.where(offsets[None] <= furthest[:, None], costs, jnp.inf)
        skip = skips.shortest + jnp.argmin(costs, axis=1)
        if coin is not None:
            choices = jnp.maximum(furthest - skips.shortest + 1, 1)
            drawn = jnp.minimum(jnp.floor(coin.offset * choices).astype(at.dtype), choices - 1)
            skip = jnp.where(coin.explore < exploration, skips.shortest + drawn, skip)
        losses = jnp.sum(jnp.where(offsets[None] == skip[:, None], costs, 0.0), axis=1)
    new = jnp.where(active, at + skip, at).astype(at.dtype)
    return Match(new, frames_at(batch, items, new), costs, losses)


def frames_at(
    batch: Batch, items: Int[Array, " lanes"], at: Int[Array, " lanes"]
) -> Float[Array, " lanes *shape"]:
    """Returns one frame of each of some trajectories."""
    return as_floats(batch.frames[items, at])


def batched_model(model: Callable[..., Any], context: Array | None) -> Callable[[Any], Any]:
    """Calls a model of one frame on a batch, with the batch's context where there is one.

    What it returns is fed to it again, and so gets the type of what it was fed.
    """
    told = () if context is None else (context,)
    return lambda inputs: jax.vmap(model)(inputs, *told).astype(inputs.dtype)
