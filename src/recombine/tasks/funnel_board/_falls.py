"""Many balls on many boards, made once and kept on disk in their compact form."""

import inspect
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt8

from recombine.tasks.funnel_board import _boards, _making, _physics, _segments
from recombine.tasks.funnel_board._boards import WHOLE, Board, Size
from recombine.tasks.funnel_board._making import BOUNCINESS, make_falls
from recombine.tasks.funnel_board._render import draw_ball, make_scene, seen_part
from recombine.tasks.trajectories import (
    Split,
    Trajectories,
    _streams,
    code_version,
    keep_or_make,
)
from recombine.tasks.trajectories._padding import draw_all, padded_index

SOURCES = tuple(map(inspect.getfile, (_boards, _segments, _physics, _making, _streams)))
"""All files of ours that decide what falls there are: kept ones are those of this code."""

Variant = Literal["standard", "zero-bounce"]
"""With funnels that bounce by a hidden coin, or without bounces."""


class BallFalls(NamedTuple):
    """Falls that ended on a platform."""

    boards: Board
    """Every field with a leading axis of items."""
    positions: Float[np.ndarray, "items time 2"]
    """(x, y) in units; meaningful up to each fall's length."""
    velocities: Float[np.ndarray, "items time 2"]
    lengths: Int[np.ndarray, " items"]
    labels: Int[np.ndarray, " items"]
    """The platform that was hit, from the left."""
    attempts: Int[np.ndarray, " items"]
    """How many boards of each item were given up before."""
    size: Size = WHOLE
    """Of all boards."""

    def board_of(self, item: int) -> Board:
        """Returns the board of one fall."""
        return Board(*(np.asarray(field)[item] for field in self.boards))  # pyright: ignore[reportArgumentType]


def load_falls(
    num_items: int = 500,
    *,
    seed: int = 0,
    split: Split = "train",
    variant: Variant = "standard",
    size: Size = WHOLE,
    keep: bool = True,
) -> BallFalls:
    """Returns falls through boards, made now or read from the cache folder.

    Item `i` is the same whatever else is asked for, and has the same board in both variants;
    splits share no item.

    Args:
        num_items: how many falls.
        seed: of the data set.
        split: of the data set: "train", "validation" or "test".
        variant: "standard" or "zero-bounce".
        size: of the boards, as (rows, columns). Fewer than the published six and five make shorter
            falls, fewer platforms and smaller frames.
        keep: whether to use the cache folder.
    """
    if num_items < 1:
        raise ValueError(f"`num_items` must be at least 1; got {num_items}")
    if variant not in BOUNCINESS:
        raise ValueError(f"`variant` must be one of {', '.join(BOUNCINESS)}; got {variant!r}")
    size = Size(*size).check()
    parameters: dict[str, Any] = {"num_items": num_items, "seed": seed, "split": split}
    if size != WHOLE:
        parameters |= size._asdict()

    arrays = keep_or_make(
        "funnel_board",
        parameters,
        code_version(SOURCES),
        lambda: make_falls(num_items, seed, split, size),
        keep=keep,
    )
    fields = ("positions", "velocities", "lengths", "labels")
    return BallFalls(
        boards=Board(*(arrays[f"board_{name}"] for name in Board._fields)),  # pyright: ignore[reportArgumentType]
        attempts=arrays["attempts"],
        size=size,
        **{name: arrays[f"{variant}_{name}"] for name in fields},
    )


def render(falls: BallFalls, *, time: int | None = None) -> Trajectories:
    """Draws every frame of every fall: bytes of shape (items, time, 126, 75, 3).

    500 falls take about 2 GB. Of smaller boards only their part of the image is drawn.

    Args:
        falls: what to draw.
        time: frames per fall, by default those of the longest; the last frame fills the rest.
    """
    index = padded_index(falls.lengths, time, what="fall")
    rows, columns = seen_part(falls.size)

    def draw(item: int) -> UInt8[np.ndarray, "frames height width 3"]:
        positions = falls.positions[item, : falls.lengths[item]]
        return draw_ball(make_scene(falls.board_of(item)), positions)[:, rows, columns]

    shape = (rows.stop - rows.start, columns.stop - columns.start, 3)
    frames = draw_all(draw, index, shape)
    return Trajectories(frames, falls.lengths, falls.labels)
