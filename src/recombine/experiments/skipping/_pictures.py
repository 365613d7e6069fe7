"""Timelines of what a model matched, and moving pictures of truth and prediction.

A run leaves one validation trajectory: its frames, the predictions of a free run, which frame each
was matched with, and its loss against all candidates. Images are drawn as they are, state vectors
as points.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from recombine.experiments._row import Animation, Picture

SHARPNESS = 500.0  # of the links, as in the published figures: softmax(-500 loss)
FAINTEST = 0.02  # links below this share are left out
PER_LINE = 24  # frames
GAP = 2  # pixels between frames
BETWEEN = 40  # pixels between truth and prediction, for the links
DOT = 1  # pixels around the middle of a point
GROUND = 232  # a grey behind frames, most of which are white
INK = "#111111"  # of what is drawn on the grey; black itself would follow the page's text
BLUE, ORANGE = "#0072b2", "#d55e00"

Arrays = Mapping[str, np.ndarray]


class Told(NamedTuple):
    """One trajectory and what was predicted of it, without padding."""

    frames: np.ndarray
    predictions: np.ndarray
    matched: np.ndarray  # the frame of each prediction
    shares: np.ndarray  # of each prediction among its candidates, from the next frame on

    @classmethod
    def of(cls, arrays: Arrays) -> "Told":
        """Takes the first trajectory."""
        frames = arrays["frames"][0][: int(arrays["lengths"][0])]
        matched = arrays["matched"][0]
        is_step = matched >= 0
        costs = arrays["costs"][0][is_step]
        before = np.concatenate([[0], matched[is_step][:-1]])
        if costs.shape[1] == 1:  # a fixed step has no choice
            wide = int(np.max(matched[is_step] - before, initial=1))
            shares = np.zeros((len(before), wide))
            shares[:, -1] = 1.0
        else:
            least = np.min(costs, axis=1, keepdims=True)
            shares = np.exp(-SHARPNESS * (costs - least))
            shares /= shares.sum(axis=1, keepdims=True)
        return cls(frames, arrays["predictions"][0][is_step], matched[is_step], shares)

    @property
    def is_images(self) -> bool:
        """Whether frames can be shown as they are."""
        return self.frames.ndim == 4

    def links(self) -> list[tuple[int, int, float]]:
        """Returns (prediction, frame, share) for every link that can be seen."""
        before = np.concatenate([[0], self.matched[:-1]])
        return [
            (number, int(before[number] + 1 + offset), float(share))
            for number, shares in enumerate(self.shares)
            for offset, share in enumerate(shares)
            if share >= FAINTEST and before[number] + 1 + offset < len(self.frames)
        ]


def draw_timeline(axes: Any, arrays: Arrays) -> None:
    """Draws the truth above and each prediction below the frame that it was matched with.

    A link is the darker, the larger the share of its frame among the candidates (Neitz, thesis,
    Fig. 2.7 and 2.8).
    """
    told = Told.of(arrays)
    if told.is_images:
        _image_timeline(axes, told)
    else:
        _vector_timeline(axes, told)


def draw_trajectory(axes: Any, arrays: Arrays) -> None:
    """Draws six frames of a trajectory side by side, from the first to the last."""
    frames = as_images(arrays["frames"][0][: int(arrays["lengths"][0])])
    chosen = np.linspace(0, len(frames) - 1, 6).round().astype(int)
    height, width = frames.shape[1:3]
    strip = np.full((height, 6 * (width + GAP) - GAP, 3), GROUND, np.uint8)
    for place, number in enumerate(chosen):
        strip[:, place * (width + GAP) :][:, :width] = frames[number]
    _show(axes, strip, width_inches=7.0)
    axes.set_xticks([place * (width + GAP) + width / 2 for place in range(6)], chosen)
    axes.tick_params(length=0)
    axes.set_xlabel("frame")


def save_trajectory(arrays: Arrays, path: Path) -> None:
    """Writes a trajectory as a moving picture."""
    from recombine.tasks.trajectories import save_animation

    save_animation(as_images(arrays["frames"][0][: int(arrays["lengths"][0])]), path)


def save_side_by_side(arrays: Arrays, path: Path) -> None:
    """Writes truth and prediction beside each other; a prediction stays until the next match."""
    from recombine.tasks.trajectories import save_animation

    told = Told.of(arrays)
    truth, predicted = as_images(told.frames), as_images(told.predictions)
    newest = np.searchsorted(told.matched, np.arange(len(truth)), side="right") - 1
    shown = np.where((newest >= 0)[:, None, None, None], predicted[newest], truth[:1])
    gap = np.full((len(truth), truth.shape[1], GAP, 3), 255, np.uint8)
    save_animation(np.concatenate([truth, gap, shown], axis=2), path)


def as_images(frames: np.ndarray) -> np.ndarray:
    """Leaves images as they are; draws the places of state vectors as points."""
    if frames.ndim == 4:
        return frames
    size = 64
    images = np.full((len(frames), size, size, 3), GROUND, np.uint8)
    places = np.nan_to_num(np.clip(frames[:, :2], -1, 1))
    # Both worlds have a place in [-1, 1]; which coordinate points up is theirs to say, not ours.
    rows = np.rint((1 - places[:, 1]) / 2 * (size - 1)).astype(int)
    columns = np.rint((places[:, 0] + 1) / 2 * (size - 1)).astype(int)
    for image, row, column in zip(images, rows, columns, strict=True):
        image[max(row - DOT, 0) : row + DOT + 1, max(column - DOT, 0) : column + DOT + 1] = 0
    return images


def _image_timeline(axes: Any, told: Told) -> None:
    height, width = told.frames.shape[1:3]
    pitch, block = width + GAP, 2 * height + BETWEEN
    num_lines = -(-len(told.frames) // PER_LINE)
    shape = (num_lines * (block + BETWEEN) - BETWEEN, PER_LINE * pitch, 3)
    canvas = np.full(shape, GROUND, np.uint8)

    def corner(frame: int) -> tuple[int, int]:
        line, place = divmod(frame, PER_LINE)
        return line * (block + BETWEEN), place * pitch

    for number, frame in enumerate(told.frames):
        top, left = corner(number)
        canvas[top : top + height, left : left + width] = frame
    for frame, prediction in zip(told.matched, told.predictions, strict=True):
        top, left = corner(int(frame))
        canvas[top + height + BETWEEN : top + block, left : left + width] = prediction
    _show(axes, canvas, width_inches=10.0)
    axes.set_xticks([])
    for number, frame, share in told.links():
        (own_top, own_left), (top, left) = corner(int(told.matched[number])), corner(frame)
        if own_top == top:
            axes.plot(
                [own_left + width / 2, left + width / 2],
                [top + height + BETWEEN - 1, top + height],
                color=INK,
                alpha=share,
                linewidth=0.8,
            )


def _vector_timeline(axes: Any, told: Told) -> None:
    times = np.arange(len(told.frames))
    for place, color, name in ((0, BLUE, "first"), (1, ORANGE, "second")):
        axes.plot(times, told.frames[:, place], color=color, linewidth=1, label=f"{name}, truth")
        points = told.predictions[:, place]
        axes.plot(told.matched, points, "o", color=color, markersize=3, label="predicted")
    axes.figure.set_size_inches(5.0, 2.6)
    axes.set_xlabel("frame")
    axes.set_ylabel("coordinate")
    axes.legend(frameon=False, fontsize=7, ncols=2)


def _show(axes: Any, image: np.ndarray, *, width_inches: float) -> None:
    axes.imshow(image, interpolation="none")
    axes.set_yticks([])
    for side in axes.spines.values():
        side.set_visible(False)
    tall, wide = image.shape[:2]
    axes.figure.set_size_inches(width_inches, width_inches * tall / wide + 0.4)


TIMELINE = Picture(
    "what was matched with what",
    draw_timeline,
    ("frames", "lengths", "predictions", "matched", "costs"),
)
TRAJECTORY = Picture("a trajectory", draw_trajectory, ("frames", "lengths"))
MOVING_TRAJECTORY = Animation("a trajectory", save_trajectory, ("frames", "lengths"))
SIDE_BY_SIDE = Animation(
    "truth and prediction", save_side_by_side, ("frames", "lengths", "predictions", "matched")
)
