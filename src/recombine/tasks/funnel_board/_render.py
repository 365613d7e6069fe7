"""How a board and its ball look: 126 x 75 pixels, 6 to a unit, with a trace of the last place.

What stands still is drawn once, on 8 x 8 sub-pixels. The ball lies beneath sliders and funnels.
Every frame but the first also shows where the ball was in the frame before: there the red channel
is lower, so that one frame shows a velocity (Neitz, thesis, §2.3.1).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, UInt8

from recombine.tasks.funnel_board._boards import (
    BALL_RADIUS,
    HALF_WIDTH,
    PITCH,
    PLATFORM_SIZE,
    PLATFORM_TOP,
    ROWS,
    SLIDER_THICKNESS,
    Board,
    Size,
    wall_line,
)

PIXELS = 6  # per unit
TOP = 10.0  # the height of the image's upper edge
HEIGHT, WIDTH = 126, 75
SUB = 8  # sub-pixels per pixel and direction
PATCH = 4  # pixels in each direction that the ball can touch: 3 wide
IMAGE_SHAPE = (HEIGHT, WIDTH, 3)
"""Rows, columns and channels of a frame."""

PLATFORM_COLORS = np.asarray(
    [[0, 1, 0], [1, 1, 0], [1, 0, 0], [1, 0, 1], [0, 0, 1]], float
)  # green, yellow, red, magenta, blue


class Scene(NamedTuple):
    """What stands still on a board."""

    open: Float[np.ndarray, "126 75"]
    """The share of each pixel through which the background, or the ball, can be seen."""
    platforms: Float[np.ndarray, "126 75 3"]
    """The light of the platforms, which lie on top."""


def seen_part(size: Size) -> tuple[slice, slice]:
    """Returns the rows and columns of the image in which a board of some size is."""
    top = round(PIXELS * PITCH[1]) * (ROWS - size.rows)
    left = round(PIXELS * (HALF_WIDTH - size.half_width))
    return slice(top, HEIGHT), slice(left, WIDTH - left)


def make_scene(board: Board) -> Scene:
    """Draws what stands still."""
    solid = np.zeros((HEIGHT * SUB, WIDTH * SUB), bool)
    for place in np.argwhere(board.has_slider):
        _draw_slider(solid, board, tuple(place))
    for place in np.argwhere(board.has_funnel):
        _draw_funnel(solid, board, tuple(place))
    blocks = solid.reshape(HEIGHT, SUB, WIDTH * SUB)
    tall = np.asarray(sum(blocks[:, i].astype(np.uint8) for i in range(SUB)))
    columns = tall.reshape(HEIGHT, WIDTH, SUB)
    covered = np.asarray(sum(columns[..., i] for i in range(SUB))) / SUB**2
    seen = 1 - covered
    platforms = np.zeros((HEIGHT, WIDTH, 3))
    width, height = PLATFORM_SIZE
    rows = _covered(PIXELS * (TOP - PLATFORM_TOP), PIXELS * (TOP - PLATFORM_TOP + height), HEIGHT)
    for column, color in enumerate(PLATFORM_COLORS):
        x = PIXELS * (board.funnel_center[0, column, 0] + HALF_WIDTH)
        columns = _covered(x - PIXELS * width / 2, x + PIXELS * width / 2, WIDTH)
        share = rows[:, None] * columns[None, :]
        seen = seen * (1 - share)
        platforms += share[..., None] * color
    return Scene(seen, platforms)


def draw_ball(
    scene: Scene, positions: Float[np.ndarray, "frames 2"]
) -> UInt8[np.ndarray, "frames 126 75 3"]:
    """Draws one frame for every position of the ball, (x, y) in units, with its trace.

    With the ball's share b of a pixel, what is open of it, o, and the fall of brightness
    D = -(2/3) (b_now - b_before) o, the red channel loses max(D, 0) and the green one -min(D, 0).
    """
    frames, pixels = len(positions), HEIGHT * WIDTH
    place, share = _ball_shares(positions)
    # One pixel more, for what lies outside the image.
    shares = np.zeros((frames, pixels + 1), np.float32)
    times = np.arange(frames)[:, None]
    shares[times, place] = share
    before = np.concatenate([place[:1], place[:-1]])
    touched = np.concatenate([place, before], axis=1)
    now = shares[times, touched]
    earlier = shares[np.maximum(times - 1, 0), touched]  # of the first frame: itself
    inside = np.minimum(touched, pixels - 1)
    seen = scene.open.reshape(-1)[inside]
    light = scene.platforms.reshape(-1, 3)[inside]
    change = (2 / 3) * (earlier - now) * seen
    red = (1 - now) * seen + light[..., 0] - np.maximum(change, 0)
    green = (1 - now) * seen + light[..., 1] + np.minimum(change, 0)
    blue = seen + light[..., 2]
    still = _bytes(scene.open[..., None] + scene.platforms).reshape(-1, 3)
    images = np.empty((frames, pixels + 1, 3), np.uint8)
    images[:, :pixels] = still
    images[times, touched] = _bytes(np.stack([red, green, blue], axis=-1))
    return images[:, :pixels].reshape(frames, *IMAGE_SHAPE)


def _bytes(image: np.ndarray) -> np.ndarray:
    return np.rint(255 * np.clip(image, 0, 1)).astype(np.uint8)


def _ball_shares(positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the 16 pixels that each ball can touch, and the share of each that it covers."""
    row = PIXELS * (TOP - positions[:, 1])
    column = PIXELS * (positions[:, 0] + HALF_WIDTH)
    radius = PIXELS * BALL_RADIUS
    first_row = np.floor(row - radius).astype(int)
    first_column = np.floor(column - radius).astype(int)
    middles = (np.arange(PATCH * SUB) + 0.5) / SUB
    down = (first_row - row)[:, None] + middles
    right = (first_column - column)[:, None] + middles
    is_ball = (down * down)[:, :, None] + (right * right)[:, None, :] < radius * radius
    parts = is_ball.reshape(len(positions), PATCH, SUB, PATCH, SUB)
    share = parts.sum(axis=(2, 4), dtype=np.int32) / SUB**2
    rows = first_row[:, None, None] + np.arange(PATCH)[:, None]
    columns = first_column[:, None, None] + np.arange(PATCH)
    is_inside = (rows >= 0) & (rows < HEIGHT) & (columns >= 0) & (columns < WIDTH)
    place = np.where(is_inside, rows * WIDTH + columns, HEIGHT * WIDTH)
    share = np.where(is_inside, share, 0.0)
    return place.reshape(len(positions), -1), share.reshape(len(positions), -1)


def _covered(low: float, high: float, pixels: int) -> np.ndarray:
    edges = np.arange(pixels)
    return np.clip(np.minimum(edges + 1, high) - np.maximum(edges, low), 0.0, 1.0)


def _window(
    solid: np.ndarray, center: np.ndarray, reach: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the sub-pixels around a thing, and where they are relative to its centre."""
    scale = PIXELS * SUB
    row, column = scale * (TOP - center[1]), scale * (center[0] + HALF_WIDTH)
    tall, wide = scale * reach[1], scale * reach[0]
    rows = slice(max(int(row - tall) - 1, 0), max(int(row + tall) + 2, 0))
    columns = slice(max(int(column - wide) - 1, 0), max(int(column + wide) + 2, 0))
    part = solid[rows, columns]
    y = -(rows.start + 0.5 + np.arange(part.shape[0]) - row) / scale
    x = (columns.start + 0.5 + np.arange(part.shape[1]) - column) / scale
    return part, x, y


def _draw_slider(solid: np.ndarray, board: Board, place: tuple[int, ...]) -> None:
    center, angle = board.slider_center[place], board.slider_angle[place]
    half = board.slider_length[place] / 2
    part, x, y = _window(solid, center, np.asarray([half + 0.1, half + 0.1]))
    cos, sin = np.cos(angle), np.sin(angle)
    along = x[None] * cos + y[:, None] * sin
    across = y[:, None] * cos - x[None] * sin
    part |= (np.abs(along) <= half) & (np.abs(across) <= SLIDER_THICKNESS / 2)


def _draw_funnel(solid: np.ndarray, board: Board, place: tuple[int, ...]) -> None:
    center = board.funnel_center[place]
    sizes = (board.funnel_height, board.funnel_thickness, board.funnel_gap)
    height, thickness, gap = (size[place] for size in sizes)
    part, x, y = _window(solid, center, np.asarray([1.4, height / 2]))
    line = wall_line(*(np.asarray(size) for size in (height, thickness, gap)))
    middle = np.interp(y, line[:, 1], line[:, 0])
    is_wall = np.abs(np.abs(x)[None] - middle[:, None]) <= thickness / 2
    part |= is_wall & (np.abs(y) <= height / 2)[:, None]
