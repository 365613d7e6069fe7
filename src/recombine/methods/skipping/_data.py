"""Trajectories on the device, and how ragged lists of arrays become them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from recombine.methods.skipping._matching import Batch


class Trajectories(NamedTuple):
    """Trajectories padded to one length, with their outcomes."""

    frames: Shaped[Array, "items time *shape"]
    """Images as bytes, or state vectors; what stands beyond a trajectory's end does not matter."""
    lengths: Int[Array, " items"]
    labels: Int[Array, " items"]
    context: Float[Array, " items *context"] | None = None
    """What the model is told besides the frame."""

    def batch(self, items: Int[Array, " batch"]) -> Batch:
        """Picks some of them."""
        context = None if self.context is None else self.context[items]
        return Batch(self.frames[items], self.lengths[items], context)


def as_trajectories(given: Any, *, time: int | None = None) -> Trajectories:
    """Puts padded arrays on the device.

    Args:
        given: anything with `frames`, `lengths`, `labels` and, if it has any, `context`.
        time: the padded length, at least that of `frames`; the last frame fills the rest.
    """
    frames, lengths = np.asarray(given.frames), np.asarray(given.lengths)
    time = frames.shape[1] if time is None else time
    if time < frames.shape[1]:
        raise ValueError(f"`time` must be at least {frames.shape[1]}; got {time}")
    if frames.shape[0] != len(lengths) or np.min(lengths) < 1 or np.max(lengths) > frames.shape[1]:
        raise ValueError(
            f"`lengths` must have a number from 1 to {frames.shape[1]} for each of the "
            f"{frames.shape[0]} trajectories; got {lengths.tolist()[:8]}"
        )
    widths = [(0, 0), (0, time - frames.shape[1])] + [(0, 0)] * (frames.ndim - 2)
    padded = frames if time == frames.shape[1] else np.pad(frames, widths, mode="edge")
    context = getattr(given, "context", None)
    return Trajectories(
        frames=jnp.asarray(padded),
        lengths=jnp.asarray(lengths, jnp.int32),
        labels=jnp.asarray(given.labels, jnp.int32),
        context=None if context is None else jnp.asarray(context, jnp.float32),
    )


def pad_trajectories(
    trajectories: Sequence[Shaped[np.ndarray, " time *shape"]],
    labels: Sequence[int] | None = None,
) -> Trajectories:
    """Joins arrays of different lengths into one, repeating each one's last frame.

    Args:
        trajectories: arrays of shape (time, features) or (time, height, width, channels), with at
            least two frames each.
        labels: the outcome of each, as a number from 0; None gives all the outcome 0.

    Example:
        >>> padded = pad_trajectories([np.zeros((3, 2)), np.ones((5, 2))])
        >>> padded.frames.shape, padded.lengths.tolist()
        ((2, 5, 2), [3, 5])
    """
    if not len(trajectories):
        raise ValueError("`trajectories` is empty; give at least one array")
    arrays = [np.asarray(one) for one in trajectories]
    shape = arrays[0].shape[1:]
    for number, array in enumerate(arrays):
        _check_trajectory(number, array, shape)
    if labels is not None and len(labels) != len(arrays):
        raise ValueError(
            f"`labels` must have one outcome for each of the {len(arrays)} trajectories; got "
            f"{len(labels)}"
        )
    if labels is not None and any(one is None for one in labels):
        missing = [number for number, one in enumerate(labels) if one is None]
        raise ValueError(f"the outcomes of trajectories {missing[:5]} are missing")
    lengths = np.asarray([len(array) for array in arrays])
    is_bytes = all(array.dtype == np.uint8 for array in arrays)
    frames = np.empty((len(arrays), lengths.max(), *shape), np.uint8 if is_bytes else np.float32)
    for row, array in zip(frames, arrays, strict=True):
        row[: len(array)] = array
        row[len(array) :] = array[-1]
    return Trajectories(
        frames=jnp.asarray(frames),
        lengths=jnp.asarray(lengths, jnp.int32),
        labels=jnp.asarray(np.zeros(len(arrays)) if labels is None else labels, jnp.int32),
    )


def _check_trajectory(number: int, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.ndim not in (2, 4):
        raise ValueError(
            f"trajectory {number} must have shape (time, features) or (time, height, width, "
            f"channels); got {array.shape}"
        )
    if array.shape[1:] != shape:
        raise ValueError(
            f"all frames must have one shape; trajectory 0 has {shape}, trajectory {number} has "
            f"{array.shape[1:]}"
        )
    if len(array) < 2:
        raise ValueError(
            f"trajectory {number} has {len(array)} frame(s); at least 2 are needed to predict one "
            f"from the other"
        )
    if not np.issubdtype(array.dtype, np.number) or not np.all(np.isfinite(array)):
        raise ValueError(f"trajectory {number} has values that are not finite numbers")
