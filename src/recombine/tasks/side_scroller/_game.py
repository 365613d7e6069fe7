"""The rules of the game: where a runner is one tick later."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from recombine.tasks.side_scroller._levels import LENGTH, SIZE, Level

ACTIONS = ("wait", "run", "hop", "leap")
"""What the runner can do; all but the first also go one column to the right."""

WAIT, RUN, HOP, LEAP = range(4)
FASTEST_FALL = -2  # cells in a tick
FIRST = SIZE // 4  # so many columns are seen behind the runner
LAST = LENGTH - SIZE  # so that the view never leaves the level


class Runner(NamedTuple):
    """Where the runner is."""

    column: Int[Array, ""]
    height: Int[Array, ""]  # of the feet, in cells from below
    speed: Int[Array, ""]  # upwards, in cells of a tick

    def stands(self, level: Level) -> Bool[Array, ""]:
        """Whether there is something under the feet, and no way up or down."""
        return (self.height == level.surface[self.column]) & (self.speed == 0)


def start_runner(level: Level, chance: Float[Array, ""]) -> Runner:
    """Puts the runner somewhere on the ground; `chance` in [0, 1) says where."""
    columns = jnp.arange(LENGTH)
    is_ground = (level.ground > 0) & (columns >= FIRST) & (columns < LAST)
    place = jnp.cumsum(is_ground)  # the place of each such column among them
    column = jnp.argmax(place > jnp.floor(chance * place[-1]).astype(place.dtype))
    return Runner(column.astype(jnp.int32), level.surface[column], jnp.int32(0))


def tick(level: Level, runner: Runner, action: Int[Array, ""]) -> tuple[Runner, Bool[Array, ""]]:
    """Returns the runner a tick later, and whether the run is over: in a pit, or at the end.

    A hop rises by 1, 0, −1 cells and so gets over two columns, a leap by 2, 1, 0, −1, −2 over four;
    both only from the ground. What is higher than the feet stops the runner.
    """
    surface = level.surface
    jump = jnp.where(action == HOP, 1, jnp.where(action == LEAP, 2, 0))
    speed = jnp.where(runner.stands(level), jump, runner.speed)
    wanted = runner.column + (action != WAIT)
    height = runner.height + speed
    is_blocked = surface[wanted] > jnp.maximum(height, runner.height)
    column = jnp.where(is_blocked, runner.column, wanted)
    floor = surface[column]
    lands = (height <= floor) & (floor > 0) & (speed <= 0)
    after = Runner(
        column,
        jnp.where(lands, floor, jnp.maximum(height, 0)),
        jnp.where(lands, 0, jnp.maximum(speed - 1, FASTEST_FALL)),
    )
    is_over = (column >= LAST) | ((floor == 0) & (after.height == 0))
    return after, is_over
