"""People's own trajectories and their outcomes, checked and brought to one form."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Shaped

from recombine.estimators._labels import as_labels, is_missing
from recombine.estimators._standardizing import Standard, measure
from recombine.methods.skipping import pad_trajectories

IMAGE_DIMENSIONS = 3  # of one frame: height, width, channels


class FrameScale(NamedTuple):
    """How frames become what a model reads, and back."""

    shape: tuple[int, ...]
    is_bytes: bool
    standard: Standard | None  # of vectors; images are used as they are

    @property
    def is_image(self) -> bool:
        """Whether frames are images."""
        return len(self.shape) == IMAGE_DIMENSIONS

    def encode(self, frames: np.ndarray, where: str) -> np.ndarray:
        """Returns frames for a model: bytes, or floating-point numbers."""
        if self.standard is not None:
            encoded = self.standard.apply(frames)
            if not np.isfinite(encoded).all():
                raise ValueError(f"{where} is too far from the training data to be computed")
            return encoded
        if frames.dtype == np.uint8:
            return frames if self.is_bytes else (frames / 255).astype(np.float32)
        return frames.astype(np.float32)

    def decode(self, frames: np.ndarray) -> np.ndarray:
        """Returns predicted frames in the units of the training data."""
        if self.standard is not None:
            return frames.astype(np.float64) * self.standard.scale + self.standard.mean
        if self.is_bytes:
            return np.round(255 * np.clip(frames, 0, 1)).astype(np.uint8)
        return frames


def parse_trajectories(trajectories: Any) -> list[np.ndarray]:
    """Checks people's trajectories: frames of one shape, at least two of them, all finite."""
    if isinstance(trajectories, str | Mapping) or not isinstance(trajectories, Iterable):
        raise TypeError(
            f"`trajectories` must be a list of arrays of shape (time, features) or (time, height, "
            f"width, channels); got {type(trajectories).__name__}"
        )
    arrays = [parse_frames(one, f"trajectory {i}") for i, one in enumerate(trajectories)]
    pad_trajectories(arrays)  # refuses what has another shape, is too short or not finite
    if len({array.dtype == np.uint8 for array in arrays}) > 1:
        arrays = [_as_shares(array) for array in arrays]
    return arrays


def parse_frames(frames: Any, where: str) -> np.ndarray:
    """Checks one trajectory, or first frames: vectors of numbers, or images in [0, 1] or bytes."""
    try:
        array = np.asarray(frames)
        if array.dtype != np.uint8 or array.ndim <= IMAGE_DIMENSIONS:
            array = array.astype(np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where} must be an array of numbers ({error})") from error
    is_image, is_bytes = array.ndim == IMAGE_DIMENSIONS + 1, array.dtype == np.uint8
    if is_image and not is_bytes and array.size and (array.min() < 0 or array.max() > 1):
        raise ValueError(
            f"{where} has pixels between {array.min():g} and {array.max():g}; images must be bytes "
            f"(uint8), or numbers from 0 to 1. Divide them by their largest possible value."
        )
    return array


def scale_of(trajectories: list[np.ndarray]) -> FrameScale:
    """Measures the features of vectors; images need nothing."""
    shape = trajectories[0].shape[1:]
    if len(shape) == IMAGE_DIMENSIONS:
        return FrameScale(shape, trajectories[0].dtype == np.uint8, None)
    standard = measure(np.concatenate(trajectories), "feature {} of `trajectories`")
    return FrameScale(shape, False, standard)


def parse_outcomes(outcomes: Any, num_trajectories: int) -> Shaped[np.ndarray, " items"]:
    """Checks that every trajectory has its outcome."""
    if isinstance(outcomes, str | Mapping) or not isinstance(outcomes, Iterable):
        raise TypeError(f"`outcomes` must be a list of labels; got {type(outcomes).__name__}")
    given = list(outcomes)
    if len(given) != num_trajectories:
        raise ValueError(
            f"`outcomes` must have one label for each of the {num_trajectories} trajectories; got "
            f"{len(given)}"
        )
    missing = [number for number, one in enumerate(given) if is_missing(one)]
    if missing:
        named = ", ".join(map(str, missing[:5])) + (" and others" if len(missing) > 5 else "")
        raise ValueError(
            f"the outcomes of trajectories {named} are missing. Leave these trajectories out, or "
            f"leave `outcomes` out to learn the motion alone."
        )
    labels = as_labels(given)
    if labels.ndim != 1 or labels.dtype == object:
        raise ValueError("`outcomes` must be labels of one kind, all text or all numbers")
    if len(np.unique(labels)) < 2:
        raise ValueError(f"`outcomes` must have at least two classes; all are {given[0]!r}")
    return labels


def _as_shares(array: np.ndarray) -> np.ndarray:
    return array / 255 if array.dtype == np.uint8 else array
