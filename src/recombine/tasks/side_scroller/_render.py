"""What a student sees: 16 × 16 cells around the runner, a pixel each."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, UInt8

from recombine.tasks.side_scroller._game import FIRST, Runner
from recombine.tasks.side_scroller._levels import FRIEZE, SIZE as SIZE, Level

ABOVE = 9  # rows above the runner
RUNNER_COLOR = (1.0, 0.1, 0.6)


def render(level: Level, runner: Runner) -> UInt8[Array, "16 16 3"]:
    """Draws a state; the upper row comes first.

    The camera follows the runner, who is always in the fifth column and the tenth row. Backdrop and
    frieze stay at the height of the view. The runner's speed cannot be seen, as in a single frame
    of any game.
    """
    start = runner.column - FIRST

    def seen(columns: Array) -> Array:
        return jax.lax.dynamic_slice_in_dim(columns, start, SIZE)[None, :]

    height = runner.height + ABOVE - jnp.arange(SIZE)[:, None]  # of the cells of a row
    ground, crates, coins = seen(level.ground), seen(level.crates), seen(level.coins)
    crates_end = ground + crates
    is_runner = (height == runner.height) & (jnp.arange(SIZE) == FIRST)[None, :]
    frieze = level.looks.frieze[seen(level.frieze)[0]].transpose(1, 0, 2)
    picture = jnp.concatenate([frieze, level.looks.backdrop[FRIEZE:]])
    for where, color in (
        ((height < crates_end) & (ground > 0), level.looks.crate),
        ((height < ground) & (ground > 0), level.looks.ground),
        ((coins > 0) & (height == coins), level.looks.coin),
        (is_runner, jnp.array(RUNNER_COLOR)),
    ):
        picture = jnp.where(where[..., None], color[None, None], picture)
    return jnp.round(255 * picture).astype(jnp.uint8)
