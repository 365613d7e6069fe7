"""Boards of sliders and funnels that a ball falls through onto one of five platforms.

Rows of sliders and rows of funnels take turns from top to bottom. Even rows have five columns, odd
rows four, in between. A funnel releases the ball straight above a slider, which kicks it left or
right into the next row of funnels. How much each funnel bounces is hidden.

After drawing, every number is rounded to a multiple of 2^-20, so that the last digits of a
machine's sines do not decide where a ball lands.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

COLUMNS = 5
ROWS = 6
"""Of sliders and of funnels each."""

PITCH = 2.5, 3.0
"""From one column to the next, and from one row of funnels to the next."""

HALF_WIDTH = 6.25
BALL_RADIUS = 0.25
START_HEIGHT = 9.5
STARTS = (-2.5, 0.0, 2.5, 5.0)  # asymmetric, as in the authors' generator
FUNNEL_WIDTH = 2.75
WALL_POINTS = 16
SLIDER_THICKNESS = 0.2
PLATFORM_TOP = -10.76
PLATFORM_SIZE = (2.1, 0.2)
PRESENT = 0.7  # the probability of a funnel
RESTITUTIONS = (0.02, 0.6)  # of funnels, by a fair coin
GRAIN = 2.0**20


class Size(NamedTuple):
    """How much of a board there is: its lowest rows, and the columns in its middle."""

    rows: int = ROWS
    columns: int = COLUMNS

    def check(self) -> "Size":
        """Refuses sizes that cannot be."""
        if self.rows not in (2, 4, 6) or self.columns not in (3, 5):
            raise ValueError(
                f"a board has 2, 4 or 6 rows, and 3 or 5 columns; got {self.rows} rows and "
                f"{self.columns} columns"
            )
        return self

    @property
    def half_width(self) -> float:
        """How far a board reaches to either side."""
        return self.columns * PITCH[0] / 2

    @property
    def start_height(self) -> float:
        """Where the ball starts: above the highest sliders."""
        return START_HEIGHT - (ROWS - self.rows) * PITCH[1]


WHOLE = Size()
"""As published: six rows and five columns."""


class Board(NamedTuple):
    """One board. Slider row `i` has index `i - 1`, funnel row `i` has index `i`, from below."""

    start: float
    """Where the ball starts, from left to right."""
    has_slider: Bool[np.ndarray, "6 5"]
    slider_center: Float[np.ndarray, "6 5 2"]
    slider_length: Float[np.ndarray, "6 5"]
    slider_angle: Float[np.ndarray, "6 5"]
    has_funnel: Bool[np.ndarray, "6 5"]
    funnel_center: Float[np.ndarray, "6 5 2"]
    funnel_height: Float[np.ndarray, "6 5"]
    funnel_thickness: Float[np.ndarray, "6 5"]
    funnel_gap: Float[np.ndarray, "6 5"]
    funnel_restitution: Float[np.ndarray, "6 5"]
    """Hidden from who watches."""


def sample_board(generator: np.random.Generator, size: Size = WHOLE) -> Board:
    """Draws a board (Neitz, thesis, §2.3.1; the numbers are those of the authors' generator).

    A smaller one has no sliders and funnels outside of its size.

    Example:
        >>> board = sample_board(np.random.default_rng(0))
        >>> board.has_funnel[0].tolist(), board.has_slider.sum(axis=1).tolist()
        ([True, True, True, True, True], [4, 5, 4, 5, 4, 5])
    """
    shape = (ROWS, COLUMNS)
    slider_rows, funnel_rows = np.arange(1, ROWS + 1), np.arange(ROWS)
    length = generator.uniform(1.2, 1.6, shape)
    angle = generator.uniform(math.pi / 24, math.pi / 5, shape)
    angle *= np.where(generator.integers(2, size=shape) == 0, -1.0, 1.0)
    is_wide = slider_rows % 2 == 0
    left = (COLUMNS - size.columns) // 2
    right = left + size.columns - 1
    angle[is_wide, left] = -np.abs(angle[is_wide, left])  # the outermost tip inwards
    angle[is_wide, right] = np.abs(angle[is_wide, right])
    is_present = generator.uniform(size=shape) < PRESENT
    is_present[0] = True
    funnel_x = _columns(funnel_rows) + generator.uniform(-0.078, 0.078, shape)
    funnel_y = 3.0 * (funnel_rows[:, None] - 3) + generator.uniform(-0.1875, 0.5625, shape)
    slider_y = np.broadcast_to(3.0 * (slider_rows[:, None] - 3.5), shape)
    starts = [x for x in STARTS if abs(x) < size.half_width]
    return Board(
        start=starts[generator.integers(len(starts))],
        has_slider=places(slider_rows, size),
        slider_center=_round(np.stack([_columns(slider_rows), slider_y], axis=-1)),
        slider_length=_round(length),
        slider_angle=_round(angle),
        has_funnel=is_present & places(funnel_rows, size),
        funnel_center=_round(np.stack([funnel_x, funnel_y], axis=-1)),
        funnel_height=_round(generator.uniform(1.4, 1.52, shape)),
        funnel_thickness=_round(generator.uniform(0.15, 0.3, shape)),
        funnel_gap=_round(BALL_RADIUS * generator.uniform(2.09, 2.2, shape)),
        funnel_restitution=np.asarray(RESTITUTIONS)[generator.integers(2, size=shape)],
    )


def places(rows: Int[np.ndarray, " rows"], size: Size = WHOLE) -> Bool[np.ndarray, "rows 5"]:
    """Says which places of some rows a board has, for sliders or for funnels.

    Args:
        rows: their numbers: sliders from 1, funnels from 0.
        size: of the board. The highest funnels are below the highest sliders.
    """
    index, is_wide = np.arange(COLUMNS)[None], (rows % 2 == 0)[:, None]
    cut = (COLUMNS - size.columns) // 2
    is_place = (index >= cut) & (index < np.where(is_wide, COLUMNS, COLUMNS - 1) - cut)
    highest = size.rows if rows[0] > 0 else size.rows - 1
    return is_place & (rows <= highest)[:, None]


def wall_line(
    height: Float[np.ndarray, " *funnels"],
    thickness: Float[np.ndarray, " *funnels"],
    gap: Float[np.ndarray, " *funnels"],
) -> Float[np.ndarray, " *funnels 16 2"]:
    r"""Returns the middle line of a funnel's right wall, from the exit up, around its centre.

    $$x = (w + g)/2 + a (1 + s)/2, \qquad y = h \arcsin(2 \arcsin(s) / \pi) / \pi,
    \qquad s \in [-1, 1]$$

    with the wall's thickness w, the gap g, the height h, and a such that the funnel is 2.75 wide.
    It is steep at the rim and at the exit.
    """
    height, thickness, gap = (value[..., None] for value in (height, thickness, gap))
    s = np.linspace(-1.0, 1.0, WALL_POINTS)
    reach = (FUNNEL_WIDTH - 2 * thickness - gap) / 2
    x = (thickness + gap) / 2 + reach * (1 + s) / 2
    y = height * (np.arcsin(np.arcsin(s) * 2 / np.pi) / np.pi)
    return _round(np.stack([x, y], axis=-1))


def slider_corners(
    center: Float[np.ndarray, " *sliders 2"],
    length: Float[np.ndarray, " *sliders"],
    angle: Float[np.ndarray, " *sliders"],
) -> Float[np.ndarray, " *sliders 4 2"]:
    """Returns the four corners of a slider, going around it."""
    along = np.stack([np.cos(angle), np.sin(angle)], axis=-1)[..., None, :]
    across = np.stack([-np.sin(angle), np.cos(angle)], axis=-1)[..., None, :]
    ends = np.asarray([-1.0, 1.0, 1.0, -1.0])[:, None] * length[..., None, None] / 2
    sides = np.asarray([-1.0, -1.0, 1.0, 1.0])[:, None] * SLIDER_THICKNESS / 2
    return _round(center[..., None, :] + ends * along + sides * across)


def _columns(rows: np.ndarray) -> np.ndarray:
    """Returns where the columns of each row stand; the fifth place of an odd row is not used."""
    first = np.where(rows % 2 == 0, -5.0, -3.75)
    return first[:, None] + 2.5 * np.arange(COLUMNS)


def _round(values: np.ndarray) -> np.ndarray:
    return np.rint(values * GRAIN) / GRAIN
