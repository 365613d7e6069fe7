r"""Exact action values, by dynamic programming over all 304 states.

$$Q_0 = 0, \qquad Q_{k+1}(s, a) = r(s, a) + 0.9 \max_{a'} Q_k(s', a'), \qquad Q = Q_8$$

As published, `NOTHING` is backed up as staying in place, although it ends the episode in the
environment: it is worth 0.9 of the state's value one backup before. With `terminal_nothing` it is
worth 0; all else stays the same, since waiting never beats going at once. Either way it is the best
action exactly where nothing worthwhile is left.

What it is worth to arrive in a cell does not depend on where one comes from, so that a backup goes
over cells and not over actions: the best neighbor's worth, by shifting the whole map. States in
which the agent stands on an object that is still there do not occur; their values mean nothing.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from recombine.tasks.grids import MOVES
from recombine.tasks.preference_grid._environment import (
    ACTIONS,
    FREE_CELLS,
    HORIZON,
    NEXT_CELLS,
    NOTHING,
    NUM_OBJECTS,
    WALLS,
    PreferenceScene,
    PreferenceState,
    available_index,
)

DISCOUNT = 0.9
"""By which the value of a step later is multiplied."""

_INNER = ~WALLS[1:-1, 1:-1]  # free cells; the outer walls are never arrived at
_SIDE = len(_INNER)
_CELLS = np.stack(np.divmod(FREE_CELLS, len(WALLS)), axis=1) - 1
_PLACES = _CELLS @ np.array([_SIDE, 1])  # of the free cells in the inner map
_HAS = np.arange(2**NUM_OBJECTS)[None] // 2 ** np.arange(NUM_OBJECTS)[:, None] % 2 == 1


def arrival_values(scene: PreferenceScene) -> Float[Array, "cells available"]:
    """Returns what it is worth to arrive in a cell with so much left: all that `values_at` needs.

    That is the reward for the object there, if it is left, and 0.9 of the best that can follow.
    """
    size = _SIDE**2
    here = jnp.asarray(_PLACES)[scene.cells][:, None] == jnp.arange(size)[None]
    worth = scene.values[scene.types]

    def arrive(best: Float[Array, "inner available"]) -> Float[Array, "inner available"]:
        arriving = DISCOUNT * best
        for number in range(NUM_OBJECTS):
            collected = worth[number] + DISCOUNT * _without(best, number)
            has = here[number][:, None] & jnp.asarray(_HAS[number])[None]
            arriving = jnp.where(has, collected, arriving)
        return jnp.where(jnp.asarray(_INNER).reshape(-1, 1), arriving, -jnp.inf)

    def backup(_: int, best: Float[Array, "inner available"]) -> Float[Array, "inner available"]:
        staying = arrive(best)
        return jnp.maximum(staying, _best_neighbor(staying))

    start = jnp.zeros((size, 2**NUM_OBJECTS), worth.dtype)
    best = jax.lax.fori_loop(0, HORIZON - 1, backup, start)
    return arrive(best)[_PLACES]


def values_at(
    arriving: Float[Array, "cells available"],
    state: PreferenceState,
    *,
    terminal_nothing: bool = False,
) -> Float[Array, " actions"]:
    """Returns the optimal values of the actions in a state, from the scene's `arrival_values`."""
    values = arriving[jnp.asarray(NEXT_CELLS)[state.cell], available_index(state.available)]
    if terminal_nothing:
        values = jnp.where(jnp.arange(len(ACTIONS)) == NOTHING, 0.0, values)
    return values


def action_values(
    scene: PreferenceScene, *, terminal_nothing: bool = False
) -> Float[Array, "cells available actions"]:
    """Returns the optimal values of all actions in all states, after eight backups.

    Args:
        scene: the objects and what they are worth.
        terminal_nothing: whether `NOTHING` is worth 0, as in the environment, or 0.9 of waiting.
    """
    values = jnp.moveaxis(arrival_values(scene)[jnp.asarray(NEXT_CELLS)], 1, 2)
    if terminal_nothing:
        values = jnp.where(jnp.arange(len(ACTIONS))[None, None] == NOTHING, 0.0, values)
    return values


def best_action(values: Float[Array, " actions"]) -> Int[Array, ""]:
    """Returns the expert's action: the best one, of equal ones that of the lowest number."""
    return jnp.argmax(values)


def _without(best: Float[Array, "inner available"], number: int) -> Float[Array, "inner available"]:
    """Returns the values of the states in which an object is gone, for those with it and without.

    What is left is a binary number, the first object its lowest digit.
    """
    split = best.reshape(best.shape[0], -1, 2, 2**number)
    return jnp.broadcast_to(split[:, :, :1], split.shape).reshape(best.shape)


def _best_neighbor(values: Float[Array, "inner available"]) -> Float[Array, "inner available"]:
    grid = values.reshape(_SIDE, _SIDE, -1)
    padded = jnp.pad(grid, ((1, 1), (1, 1), (0, 0)), constant_values=-jnp.inf)
    shifted = [padded[1 + d : 1 + d + _SIDE, 1 + r : 1 + r + _SIDE] for d, r in MOVES]
    best = jnp.maximum(jnp.maximum(*shifted[:2]), jnp.maximum(*shifted[2:]))
    return best.reshape(values.shape)
