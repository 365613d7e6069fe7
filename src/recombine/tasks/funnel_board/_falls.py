"""Many balls on many boards, made once and kept on disk in their compact form.

Both variants of the game are played on the same boards: a board is kept if the ball lands between
the outer edges in both. Of the boards that the standard game keeps, about 2 % are lost by this.
"""

import inspect
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from recombine.tasks.funnel_board import _boards, _physics, _segments
from recombine.tasks.funnel_board._boards import Board, sample_board
from recombine.tasks.funnel_board._physics import STANDARD, ZERO_BOUNCE, simulate
from recombine.tasks.funnel_board._render import IMAGE_SHAPE, draw_ball, make_scene
from recombine.tasks.trajectories import (
    Split,
    Trajectories,
    code_version,
    first_kept,
    item_generator,
    keep_or_make,
)

Variant = Literal["standard", "zero-bounce"]
"""With funnels that bounce by a hidden coin, or without bounces."""

BOUNCINESS = {"standard": STANDARD, "zero-bounce": ZERO_BOUNCE}


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

    def board_of(self, item: int) -> Board:
        """Returns the board of one fall."""
        return Board(*(np.asarray(field)[item] for field in self.boards))  # pyright: ignore[reportArgumentType]


def load_falls(
    num_items: int = 500,
    *,
    seed: int = 0,
    split: Split = "train",
    variant: Variant = "standard",
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
        keep: whether to use the cache folder.
    """
    if num_items < 1:
        raise ValueError(f"`num_items` must be at least 1; got {num_items}")
    if variant not in BOUNCINESS:
        raise ValueError(f"`variant` must be one of {', '.join(BOUNCINESS)}; got {variant!r}")
    parameters = {"num_items": num_items, "seed": seed, "split": split}

    def make() -> dict[str, np.ndarray]:
        return _make(num_items, seed, split)

    if keep:
        sources = [inspect.getfile(module) for module in (_boards, _segments, _physics)]
        sources.append(__file__)
        arrays = keep_or_make("funnel_board", parameters, code_version(sources), make)
    else:
        arrays = make()
    fields = ("positions", "velocities", "lengths", "labels")
    return BallFalls(
        boards=Board(*(arrays[f"board_{name}"] for name in Board._fields)),  # pyright: ignore[reportArgumentType]
        attempts=arrays["attempts"],
        **{name: arrays[f"{variant}_{name}"] for name in fields},
    )


def render(falls: BallFalls, *, time: int | None = None) -> Trajectories:
    """Draws every frame of every fall: bytes of shape (items, time, 126, 75, 3).

    500 falls take about 2 GB.

    Args:
        falls: what to draw.
        time: frames per fall, by default those of the longest; the last frame fills the rest.
    """
    lengths = falls.lengths
    longest = int(lengths.max())
    time = longest if time is None else time
    if time < longest:
        raise ValueError(f"`time` must be at least {longest}, the longest fall; got {time}")
    frames = np.empty((len(lengths), time, *IMAGE_SHAPE), np.uint8)
    for item, length in enumerate(lengths):
        drawn = draw_ball(make_scene(falls.board_of(item)), falls.positions[item, :length])
        frames[item, :length] = drawn
        frames[item, length:] = drawn[-1]
    return Trajectories(frames, lengths, falls.labels)


def _make(num_items: int, seed: int, split: Split) -> dict[str, np.ndarray]:
    def try_items(items: np.ndarray, attempt: int) -> tuple[np.ndarray, Any]:
        boards = [sample_board(item_generator(seed, split, int(i), attempt)) for i in items]
        played = {name: simulate(boards, bounciness) for name, bounciness in BOUNCINESS.items()}
        landed = np.all([falls.landed for falls in played.values()], axis=0)
        return landed, (boards, played)

    def take(outcomes: Any, place: int) -> dict[str, Any]:
        boards, played = outcomes
        named = {f"board_{name}": value for name, value in boards[place]._asdict().items()}
        for variant, falls in played.items():
            length = falls.lengths[place]
            named[f"{variant}_positions"] = falls.positions[place, :length]
            named[f"{variant}_velocities"] = falls.velocities[place, :length]
            named[f"{variant}_lengths"] = length
            named[f"{variant}_labels"] = falls.columns[place]
        return named

    kept, attempts = first_kept(num_items, try_items, take)
    stacked = {name: _stack([np.asarray(item[name]) for item in kept]) for name in kept[0]}
    return {**stacked, "attempts": attempts}


def _stack(arrays: list[np.ndarray]) -> np.ndarray:
    """Stacks arrays whose first axis may differ; the last entry fills the rest."""
    if arrays[0].ndim == 0:
        return np.stack(arrays)
    longest = max(len(array) for array in arrays)
    return np.stack([
        np.concatenate([array, np.repeat(array[-1:], longest - len(array), axis=0)])
        for array in arrays
    ])  # fmt: skip
