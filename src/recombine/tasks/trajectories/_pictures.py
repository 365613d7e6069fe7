"""Frames as a picture or as an animation, in files that every browser shows."""

from pathlib import Path

import numpy as np
from jaxtyping import UInt8

GAP = 4  # white pixels between frames that stand side by side


def enlarge(
    frame: UInt8[np.ndarray, "height width 3"], scale: int
) -> UInt8[np.ndarray, "tall wide 3"]:
    """Repeats every pixel `scale` times in both directions.

    Example:
        >>> enlarge(np.zeros((2, 3, 3), np.uint8), 4).shape
        (8, 12, 3)
    """
    if scale < 1:
        raise ValueError(f"`scale` must be at least 1; got {scale}")
    return np.repeat(np.repeat(frame, scale, axis=0), scale, axis=1)


def save_picture(
    frames: UInt8[np.ndarray, "frames height width 3"], path: str | Path, *, scale: int = 4
) -> Path:
    """Writes frames side by side as one PNG image, and returns where.

    Example:
        >>> import tempfile
        >>> frames = np.zeros((2, 8, 8, 3), np.uint8)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_picture(frames, f"{folder}/two.png").name
        'two.png'
    """
    from PIL import Image

    frames = _checked(frames)
    white = np.full((frames.shape[1] * scale, GAP, 3), 255, np.uint8)
    parts = [part for frame in frames for part in (white, enlarge(frame, scale))][1:]
    path = Path(path)
    Image.fromarray(np.concatenate(parts, axis=1)).save(path, format="PNG")
    return path


def save_animation(
    frames: UInt8[np.ndarray, "time height width 3"],
    path: str | Path,
    *,
    scale: int = 4,
    frames_per_second: float = 10.0,
) -> Path:
    """Writes frames as a GIF that starts over, after staying on the last frame for a second.

    To show trajectories side by side, join them along the width first.
    """
    from PIL import Image

    frames = _checked(frames)
    if frames_per_second <= 0:
        raise ValueError(f"`frames_per_second` must be positive; got {frames_per_second}")
    path = Path(path)
    milliseconds = round(1000 / frames_per_second)
    first, *others = [Image.fromarray(enlarge(frame, scale)) for frame in frames]
    first.save(
        path,
        format="GIF",
        save_all=True,
        append_images=others,
        duration=[milliseconds] * len(others) + [milliseconds + 1000],
        loop=0,
    )
    return path


def _checked(frames: np.ndarray) -> np.ndarray:
    if frames.ndim != 4 or frames.shape[-1] != 3 or frames.dtype != np.uint8 or not len(frames):
        raise ValueError(
            f"`frames` must be bytes of shape (frames, height, width, 3), at least one frame; got "
            f"{frames.dtype}{list(frames.shape)}"
        )
    return frames
