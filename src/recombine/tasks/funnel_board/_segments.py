"""The solid edges of boards as line segments, arranged by the thing they belong to."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from recombine.tasks.funnel_board._boards import (
    FUNNEL_WIDTH,
    PLATFORM_SIZE,
    PLATFORM_TOP,
    Board,
    slider_corners,
    wall_line,
)

NOWHERE = 1e6  # where the places without a slider or funnel are


class Things(NamedTuple):
    """Solid things of one kind, with a leading axis of boards."""

    center: Float[np.ndarray, "boards things 2"]
    reach: Float[np.ndarray, "boards things 2"]
    """Half the sides of a box around the thing."""
    segments: Float[np.ndarray, "boards things segments 4"]
    """Start and end of every edge: x, y, x, y."""
    restitution: Float[np.ndarray, "boards things"]
    friction: float


def make_things(boards: list[Board], bounciness: "Bounciness") -> list[Things]:
    """Returns the funnels, the sliders and the platforms of some boards."""
    stacked = Board(*(np.stack([getattr(b, name) for b in boards]) for name in Board._fields))  # pyright: ignore[reportArgumentType]
    return [
        _funnels(stacked, bounciness),
        _sliders(stacked, bounciness),
        _platforms(stacked, bounciness),
    ]


class Bounciness(NamedTuple):
    """What a variant of the game bounces with; the larger of ball and thing counts."""

    ball: float
    slider: float
    funnel: float | None
    """The same for all funnels, or None for that of the board."""


def _funnels(board: Board, bounciness: Bounciness) -> Things:
    line = wall_line(board.funnel_height, board.funnel_thickness, board.funnel_gap)
    half = board.funnel_thickness[..., None] / 2
    x, y = line[..., 0], line[..., 1]
    inner, outer = np.stack([x - half, y], axis=-1), np.stack([x + half, y], axis=-1)
    around = np.concatenate([inner, outer[..., ::-1, :]], axis=-2)  # up inside, down outside
    right = np.concatenate([around, np.roll(around, -1, axis=-2)], axis=-1)
    left = right * np.asarray([-1.0, 1.0, -1.0, 1.0])
    segments = np.concatenate([right, left], axis=-2)
    own = board.funnel_restitution if bounciness.funnel is None else bounciness.funnel
    size = np.stack(
        [np.full_like(board.funnel_height, FUNNEL_WIDTH / 2), board.funnel_height / 2], axis=-1
    )
    return _things(
        board.has_funnel,
        board.funnel_center,
        size,
        segments + np.tile(board.funnel_center, 2)[..., None, :],
        np.maximum(np.broadcast_to(own, board.has_funnel.shape), bounciness.ball),
        friction=0.5,
    )


def _sliders(board: Board, bounciness: Bounciness) -> Things:
    corners = slider_corners(board.slider_center, board.slider_length, board.slider_angle)
    segments = np.concatenate([corners, np.roll(corners, -1, axis=-2)], axis=-1)
    size = np.max(np.abs(corners - board.slider_center[..., None, :]), axis=-2)
    bounce = np.full(board.has_slider.shape, max(bounciness.slider, bounciness.ball))
    return _things(board.has_slider, board.slider_center, size, segments, bounce, friction=0.5)


def _platforms(board: Board, bounciness: Bounciness) -> Things:
    x = board.funnel_center[:, 0, :, 0]
    width, height = PLATFORM_SIZE
    center = np.stack([x, np.full_like(x, PLATFORM_TOP - height / 2)], axis=-1)
    size = np.broadcast_to(np.asarray([width / 2, height / 2]), center.shape)
    signs = np.asarray([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    corners = center[..., None, :] + signs * size[..., None, :]
    corners[..., 2:, 1] = PLATFORM_TOP  # exactly: the game ends there
    segments = np.concatenate([corners, np.roll(corners, -1, axis=-2)], axis=-1)
    bounce = np.full(x.shape, bounciness.ball)
    return _things(np.ones(x.shape, bool), center, size, segments, bounce, friction=0.5**0.5)


def _things(
    exists: np.ndarray,
    center: np.ndarray,
    size: np.ndarray,
    segments: np.ndarray,
    restitution: np.ndarray,
    friction: float,
) -> Things:
    """Flattens rows and columns, and moves what does not exist out of reach."""
    boards, things = len(exists), exists[0].size
    far = np.where(exists, 0.0, NOWHERE).reshape(boards, things)
    return Things(
        center=center.reshape(boards, things, 2) + far[..., None],
        reach=size.reshape(boards, things, 2),
        segments=segments.reshape(boards, things, -1, 4) + far[..., None, None],
        restitution=np.asarray(restitution, float).reshape(boards, things),
        friction=friction,
    )
