"""What a level is made of: a layout, which matters, and looks, which matter in no other level."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

LENGTH = 128  # columns
SIZE = 16  # of the view, in cells and pixels
LOWEST, HIGHEST = 3, 7  # cells of ground in a column that is no pit
MOST_PIT = 4  # columns
PAUSE = 2  # plain columns after anything that is in the way
TEXTURE = (SIZE // 2, SIZE // 2, 3)  # patches of the backdrop
UNEVEN = 0.15  # how far a patch may be from the colour of the sky
MOST_OFTEN = (0.3, 0.3, 0.3, 0.5, 1.0, 1.0)  # of `Habits`, which are uniform below it
FRIEZE = 6  # rows of the view, from above
COIN_HEIGHTS = (1, 3)  # above the ground: within reach of a hop, of a leap


class Looks(NamedTuple):
    """The colours of a level, in [0, 1]; drawn independently of its layout.

    Along the top of the view runs a frieze. Within a level its patterns give away what is below;
    but every level has patterns of its own, and those of one say nothing in another.
    """

    backdrop: Float[Array, "16 16 3"]  # behind the view; it does not scroll
    ground: Float[Array, "3"]
    crate: Float[Array, "3"]
    coin: Float[Array, "3"]
    frieze: Float[Array, "3 6 3"]  # over a plain column, where a hop is due, where a leap is


class Level(NamedTuple):
    """One level of the game."""

    ground: Int[Array, " columns"]  # cells from below; 0 is a pit
    crates: Int[Array, " columns"]  # cells on top of the ground
    coins: Int[Array, " columns"]  # the cell in which there is one, from below; 0 for none
    frieze: Int[Array, " columns"]  # which pattern: 0 if plain, 1 if a hop is due, 2 if a leap is
    looks: Looks

    @property
    def surface(self) -> Int[Array, " columns"]:
        """What one stands on: ground and crates."""
        return self.ground + self.crates


class Habits(NamedTuple):
    """How often a level has what; each level has habits of its own."""

    pit: Float[Array, ""]
    crate: Float[Array, ""]
    step: Float[Array, ""]
    coin: Float[Array, ""]
    wide_pit: Float[Array, ""]  # of the pits
    high: Float[Array, ""]  # of the coins, crates and steps


class _Building(NamedTuple):
    height: Int[Array, ""]
    pit_left: Int[Array, ""]
    pause: Int[Array, ""]


class _Chances(NamedTuple):
    """Uniform numbers that decide what a column gets."""

    kind: Float[Array, "*columns"]
    size: Float[Array, "*columns"]
    high: Float[Array, "*columns"]
    up: Float[Array, "*columns"]
    coin: Float[Array, "*columns"]


def sample_level(key: PRNGKeyArray) -> Level:
    """Draws the layout and the looks of a level, independently of each other.

    Example:
        >>> import jax.random as jr
        >>> level = sample_level(jr.key(0))
        >>> level.ground.shape, level.looks.backdrop.shape
        ((128,), (16, 16, 3))
    """
    # One draw for all: every further one costs more time to compile than all of them to run.
    habit, layout, *looks = _parted(
        key,
        (len(Habits._fields),),
        (len(_Chances._fields), LENGTH),
        *((4, 3), TEXTURE, (3, FRIEZE, 3)),
    )
    habits = Habits(*(jnp.array(MOST_OFTEN) * habit))
    chances = _Chances(*layout)
    start = _Building(jnp.int32(5), jnp.int32(0), jnp.int32(SIZE // 2))
    _, columns = jax.lax.scan(lambda state, c: _next_column(state, c, habits), start, chances)
    return Level(*columns, looks=_looks(*looks))


def _next_column(
    state: _Building, chance: _Chances, habits: Habits
) -> tuple[_Building, tuple[Int[Array, ""], ...]]:
    """Goes on with a pit, or begins a pit, a crate or a step, or leaves the column plain.

    Returns what is built so far, and ground, crates, coin and frieze of the column.
    """
    is_free = (state.pit_left == 0) & (state.pause == 0)
    after_pit, after_crate = habits.pit, habits.pit + habits.crate
    is_pit = is_free & (chance.kind < after_pit)
    is_crate = is_free & ~is_pit & (chance.kind < after_crate)
    is_step = is_free & ~is_pit & ~is_crate & (chance.kind < after_crate + habits.step)
    is_high = chance.high < habits.high
    by = jnp.where(is_high, 2, 1)
    stepped = jnp.clip(state.height + jnp.where(chance.up < 0.5, by, -by), LOWEST, HIGHEST)
    height = jnp.where(is_step, stepped, state.height)
    is_wide = chance.high < habits.wide_pit
    width = jnp.where(is_wide, 3, 1) + (chance.size < 0.5)
    in_pit = (state.pit_left > 0) | is_pit
    pit_left = jnp.maximum(jnp.where(is_pit, width, state.pit_left) - 1, 0)
    ends = is_crate | is_step | (in_pit & (pit_left == 0))
    pause = jnp.where(ends, PAUSE, jnp.maximum(state.pause - 1, 0))
    above = jnp.where(is_high, *COIN_HEIGHTS[::-1])
    has_coin = (chance.coin < habits.coin) & ~in_pit & ~is_crate
    rise = jnp.where(is_crate, by, height - state.height)
    needs_hop, needs_leap = (is_pit & ~is_wide) | (rise == 1), (is_pit & is_wide) | (rise == 2)
    column = (
        jnp.where(in_pit, 0, height),
        jnp.where(is_crate, by, 0),
        jnp.where(has_coin, height + above, 0),
        jnp.where(needs_leap, 2, jnp.where(needs_hop, 1, 0)),
    )
    return _Building(height, pit_left, pause), column


def _looks(
    colors: Float[Array, "4 3"], coarse: Float[Array, "8 8 3"], frieze: Float[Array, "3 6 3"]
) -> Looks:
    """Makes colours of uniform numbers: the sky is bright and the ground dark, whatever the hue."""
    sky, ground, crate, coin = colors
    texture = jnp.repeat(jnp.repeat(UNEVEN * (2 * coarse - 1), 2, axis=0), 2, axis=1)
    return Looks(
        backdrop=jnp.clip(0.45 + 0.4 * sky[None, None] + texture, 0.0, 1.0),
        ground=0.4 * ground,
        crate=0.4 * crate,
        coin=jnp.array([1.0, 0.9, 0.0]) - jnp.array([0.3, 0.3, 0.0]) * coin,
        frieze=frieze,
    )


def _parted(key: PRNGKeyArray, *shapes: tuple[int, ...]) -> list[Float[Array, "..."]]:
    """Draws uniform numbers, and makes arrays of these shapes of them."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    parts = jnp.split(jr.uniform(key, (int(ends[-1]),)), ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
