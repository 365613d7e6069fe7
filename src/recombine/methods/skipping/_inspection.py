"""What a trained model makes of a few trajectories, to be drawn."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from recombine.methods.skipping._aligned_loss import free_run
from recombine.methods.skipping._data import Trajectories
from recombine.methods.skipping._frames import FrameLoss, as_floats
from recombine.methods.skipping._loss import skip_loss
from recombine.methods.skipping._skips import Skips, no_coins


def inspect_runs(
    model: Any,
    data: Trajectories,
    num_items: int,
    depth: Int[Array, ""],
    skips: Skips,
    frame_loss: FrameLoss,
) -> dict[str, Array]:
    """Returns the first trajectories with a matched run and a free run of each.

    `predictions` and `matched` are of a free run that is matched as it goes, `costs` are the
    losses against all candidates; `rollout` is the free run for `depth` steps, and 0 after.
    """
    items = jnp.arange(min(num_items, len(data.lengths)))
    batch = data.batch(items)
    time = batch.frames.shape[1]
    _, rollout = skip_loss(
        model,
        batch,
        no_coins(time - 1, len(items)),
        skips=skips,
        frame_loss=frame_loss,
        keep_predictions=True,
        keep_costs=True,
    )
    assert rollout.predictions is not None
    assert rollout.costs is not None
    free = free_run(model, as_floats(batch.frames[:, 0]), time - 1, batch.context)
    is_seen = jnp.arange(time - 1) < depth  # what is never looked at is not kept
    free = jnp.where(is_seen.reshape(-1, *[1] * (free.ndim - 1)), free, 0.0)
    return {
        "frames": batch.frames,
        "lengths": batch.lengths,
        "labels": data.labels[items],
        "predictions": _like(batch.frames, rollout.predictions.swapaxes(0, 1)),
        "matched": rollout.matched.T,
        "costs": rollout.costs.swapaxes(0, 1),
        "rollout": _like(batch.frames, free.swapaxes(0, 1)),
        "depth": depth,
    }


def _like(frames: Array, predictions: Float[Array, "..."]) -> Array:
    """Turns predicted images into bytes, as the true ones are."""
    if jnp.issubdtype(frames.dtype, jnp.integer):
        return jnp.round(255 * jnp.clip(predictions, 0, 1)).astype(frames.dtype)
    return predictions
