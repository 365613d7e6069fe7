"""Four rooms with objects that an agent likes more or less (Schug et al. 2024, preferences).

The map is 7 x 7 cells with its outer walls: four rooms of 2 x 2, joined by a corridor of three
cells in the middle row. Of the 19 free cells five are taken at the start, by the agent and by four
objects, whose types are drawn with replacement. Entering an object's cell collects it, for the
reward that its type is worth. `NOTHING` ends the episode.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from recombine.tasks.grid_pictures import GridFilm
from recombine.tasks.grids import neighbor_cells, random_cells

_ROWS = ("#######", "#..#..#", "#..#..#", "##...##", "#..#..#", "#..#..#", "#######")
WALLS = np.array([[mark == "#" for mark in row] for row in _ROWS])
"""The map: True where there is a wall."""

FREE_CELLS = np.flatnonzero(~WALLS)
"""The 19 free cells, as numbers in the whole grid; elsewhere they are called 0 to 18."""

NUM_OBJECTS = 4
"""Objects in a scene."""

ACTIONS = ("nothing", "up", "right", "down", "left")
"""The actions by their numbers."""

NOTHING = 0
"""The action that ends an episode."""

HORIZON = 8
"""Steps of an episode, and backups of its values."""

NUM_STATES = len(FREE_CELLS) * 2**NUM_OBJECTS
"""Free cells times what can be left of four objects: 304."""

_TO_FREE = np.full(WALLS.size, -1, np.int32)
_TO_FREE[FREE_CELLS] = np.arange(len(FREE_CELLS))
NEXT_CELLS = np.concatenate(
    [np.arange(len(FREE_CELLS))[:, None], _TO_FREE[neighbor_cells(WALLS)[FREE_CELLS]]], axis=1
).astype(np.int32)
"""The free cell that each action leads to from every free cell; `NOTHING` stays."""

_BITS = 2 ** np.arange(NUM_OBJECTS)


class PreferenceScene(NamedTuple):
    """What stays the same in an episode."""

    cells: Int[Array, " objects"]
    """Where the objects are, as numbers of free cells."""
    types: Int[Array, " objects"]
    values: Float[Array, " types"]
    """What each type is worth in this task."""


class PreferenceState(NamedTuple):
    """What changes."""

    cell: Int[Array, ""]
    """Where the agent is, as the number of a free cell."""
    available: Bool[Array, " objects"]
    """Which objects have not been collected."""
    is_over: Bool[Array, ""]


def reset(
    key: PRNGKeyArray, values: Float[Array, " types"]
) -> tuple[PreferenceScene, PreferenceState]:
    """Draws a scene and puts the agent in it."""
    cell_key, type_key = jr.split(key)
    cells = random_cells(cell_key, jnp.ones(len(FREE_CELLS), bool), NUM_OBJECTS + 1)
    types = jr.randint(type_key, (NUM_OBJECTS,), 0, values.shape[0])
    scene = PreferenceScene(cells[1:], types, values)
    return scene, PreferenceState(cells[0], jnp.ones(NUM_OBJECTS, bool), jnp.bool_(False))


def step(
    scene: PreferenceScene, state: PreferenceState, action: Int[Array, ""]
) -> tuple[PreferenceState, Float[Array, ""]]:
    """Moves the agent; returns the next state and the reward."""
    going_on = ~state.is_over & (action != NOTHING)
    cell = jnp.where(going_on, jnp.asarray(NEXT_CELLS)[state.cell, action], state.cell)
    entered = going_on & (cell != state.cell)
    found = entered & state.available & (scene.cells == cell)
    reward = jnp.sum(jnp.where(found, scene.values[scene.types], 0.0))
    after = PreferenceState(cell, state.available & ~found, state.is_over | (action == NOTHING))
    return after, reward


def observe(scene: PreferenceScene, state: PreferenceState) -> Float[Array, "7 7 channels"]:
    """Returns what is seen: a channel for each type of object, one for the agent, one for walls."""
    places = jnp.asarray(FREE_CELLS)
    seen = jax.nn.one_hot(places[scene.cells], WALLS.size) * state.available[:, None]
    objects = seen.T @ jax.nn.one_hot(scene.types, scene.values.shape[0])
    agent = jax.nn.one_hot(places[state.cell], WALLS.size)[:, None]
    walls = jnp.asarray(WALLS, objects.dtype).reshape(-1, 1)
    return jnp.concatenate([objects, agent, walls], axis=1).reshape(*WALLS.shape, -1)


def state_index(state: PreferenceState) -> Int[Array, ""]:
    """Returns the number of a state, below `NUM_STATES`: the cell's first, then what is left."""
    return state.cell * 2**NUM_OBJECTS + available_index(state.available)


def state_of(index: Int[Array, ""]) -> PreferenceState:
    """Returns the state of that number, with its episode going on."""
    available = (index // jnp.asarray(_BITS)) % 2 == 1
    return PreferenceState(index // 2**NUM_OBJECTS, available, jnp.bool_(False))


def available_index(available: Bool[Array, " objects"]) -> Int[Array, ""]:
    """Returns what is left as a number with one binary digit for each object."""
    return jnp.sum(available * jnp.asarray(_BITS, jnp.int32))


def film_of(scene: PreferenceScene, states: PreferenceState) -> GridFilm:
    """Returns what `draw_frames` needs to draw a scene's states, which have a leading axis."""

    def place(cells: Int[Array, " cells"]) -> Int[Array, "cells 2"]:
        return jnp.stack(jnp.divmod(jnp.asarray(FREE_CELLS)[cells], WALLS.shape[1]), axis=-1)

    return GridFilm(
        walls=jnp.asarray(WALLS),
        objects=place(scene.cells),
        types=scene.types,
        worth=scene.values[scene.types],
        goal=jnp.array([-1, -1]),
        there=states.available,
        agent=place(states.cell),
    )
