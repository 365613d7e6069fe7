"""Find an object in a maze and do the right thing to it (Schug et al. 2024, goals).

A task says in which quadrant the goal is, which of two interactions counts there, which of five
mazes it is, and of which of five types the goal is. The goal's cell is random in its quadrant, the
agent starts at least 11 moves away, and four distractors of other types lie about, each in a cell
of its own. As in the authors' code a distractor may lie on the goal's cell and then hides it in the
observation (in about one of 20 episodes).

An episode ends, with a reward of 1, when the right interaction is done on the goal's cell. Nothing
else has any effect there, and there is no limit to the steps.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from recombine.tasks.goal_grid._mazes import SIZE
from recombine.tasks.grid_pictures import GridFilm
from recombine.tasks.grids import random_cells

ACTIONS = ("up", "right", "down", "left", "interact", "interact otherwise")
"""The actions by their numbers."""

NUM_MOVES = 4
"""The first actions are moves, the others interactions."""

NUM_QUADRANTS, NUM_INTERACTIONS, NUM_MAZES, NUM_TYPES = 4, 2, 5, 5
FACTORS = (NUM_QUADRANTS, NUM_INTERACTIONS, NUM_MAZES, NUM_TYPES)
"""How many quadrants, interactions, mazes and types there are: 200 tasks."""

NUM_DISTRACTORS = 4
"""Objects beside the goal."""

NEAREST_START = 11
"""Moves from the goal at which an agent may start, as published."""

NUM_CHANNELS = NUM_TYPES + 2
"""Of an observation: one for each type, one for walls, one for the agent."""


class Mazes(NamedTuple):
    """The mazes of a seed, and the ways in them."""

    walls: Bool[Array, "mazes size size"]
    neighbors: Int[Array, "mazes cells 4"]
    distances: Int[Array, "mazes goals cells"]
    shortens: Bool[Array, "mazes goals cells 4"]


class GoalTask(NamedTuple):
    """The factors of a task."""

    quadrant: Int[Array, ""]
    interaction: Int[Array, ""]
    maze: Int[Array, ""]
    goal_type: Int[Array, ""]


class GoalScene(NamedTuple):
    """What stays the same in an episode."""

    task: GoalTask
    goal: Int[Array, ""]
    """Its cell, as a number."""
    cells: Int[Array, " distractors"]
    types: Int[Array, " distractors"]


class GoalState(NamedTuple):
    """What changes."""

    cell: Int[Array, ""]
    is_over: Bool[Array, ""]


def quadrant_cells(quadrant: Int[Array, ""], size: int = SIZE) -> Bool[Array, " cells"]:
    """Says which cells are in a quadrant: upper left, upper right, lower left or lower right.

    The middle row and column belong to the upper and to the left ones: 6 x 6 to 5 x 5 cells of the
    published size.
    """
    half = (size + 1) // 2
    lower, right = jnp.arange(size)[:, None] >= half, jnp.arange(size)[None] >= half
    return ((2 * lower + right) == quadrant).reshape(-1)


def reset(
    key: PRNGKeyArray,
    mazes: Mazes,
    task: GoalTask,
    *,
    exclude_goal_cell: bool = False,
    nearest_start: int = NEAREST_START,
) -> tuple[GoalScene, GoalState]:
    """Draws a scene of a task and puts the agent in it.

    Args:
        key: of the draw.
        mazes: of the seed.
        task: its factors.
        exclude_goal_cell: whether distractors leave the goal's cell alone; as published they do
            not.
        nearest_start: moves from the goal at which the agent may start.
    """
    goal_key, start_key, cell_key, type_key = jr.split(key, 4)
    free = ~mazes.walls[task.maze].reshape(-1)
    goal = random_cells(goal_key, free & quadrant_cells(task.quadrant, _size(mazes)), 1)[0]
    far = mazes.distances[task.maze, goal] >= nearest_start
    start = random_cells(start_key, free & far, 1)[0]
    allowed = free & (jnp.arange(len(free)) != goal) if exclude_goal_cell else free
    cells = random_cells(cell_key, allowed, NUM_DISTRACTORS)
    others = jr.randint(type_key, (NUM_DISTRACTORS,), 0, NUM_TYPES - 1)
    types = others + (others >= task.goal_type)
    return GoalScene(task, goal, cells, types), GoalState(start, jnp.bool_(False))


def step(
    mazes: Mazes, scene: GoalScene, state: GoalState, action: Int[Array, ""]
) -> tuple[GoalState, Float[Array, ""]]:
    """Moves the agent or interacts; returns the next state and the reward."""
    move = jnp.minimum(action, NUM_MOVES - 1)
    moved = mazes.neighbors[scene.task.maze, state.cell, move]
    cell = jnp.where((action < NUM_MOVES) & ~state.is_over, moved, state.cell)
    is_right = (action == NUM_MOVES + scene.task.interaction) & (state.cell == scene.goal)
    rewarded = is_right & ~state.is_over
    return GoalState(cell, state.is_over | is_right), rewarded.astype(jnp.float32)


def observe(mazes: Mazes, scene: GoalScene, state: GoalState) -> Float[Array, "size size 7"]:
    """Returns what is seen: a channel for each type of object, one for walls, one for the agent."""
    size = _size(mazes)
    agent = jax.nn.one_hot(state.cell, size**2)[:, None]
    return jnp.concatenate([observe_map(mazes, scene), agent], axis=1).reshape(size, size, -1)


def observe_map(mazes: Mazes, scene: GoalScene) -> Float[Array, "cells 6"]:
    """Returns the channels that no step changes: objects and walls."""
    hidden = jnp.any(scene.cells == scene.goal)
    num_cells = _size(mazes) ** 2
    goal = jax.nn.one_hot(scene.goal, num_cells) * ~hidden
    cells = jnp.concatenate([jax.nn.one_hot(scene.cells, num_cells), goal[None]])
    types = jnp.concatenate([scene.types, scene.task.goal_type[None]])
    walls = mazes.walls[scene.task.maze].reshape(-1, 1)
    return jnp.concatenate([cells.T @ jax.nn.one_hot(types, NUM_TYPES), walls], axis=1)


def expert_actions(
    mazes: Mazes, scene: GoalScene, cell: Int[Array, ""]
) -> tuple[Int[Array, ""], Bool[Array, " actions"]]:
    """Returns the expert's action in a cell, and which actions are as good.

    The expert takes a shortest way, of equally good moves the first, and interacts at the goal.
    """
    moves = mazes.shortens[scene.task.maze, scene.goal, cell]
    interacts = jnp.arange(NUM_INTERACTIONS) == scene.task.interaction
    best = jnp.concatenate([moves, interacts & (cell == scene.goal)])
    return jnp.argmax(best), best


def film_of(mazes: Mazes, scene: GoalScene, states: GoalState) -> GridFilm:
    """Returns what `draw_frames` needs to draw a scene's states, which have a leading axis."""

    def place(cells: Int[Array, "*cells"]) -> Int[Array, "*cells 2"]:
        return jnp.stack(jnp.divmod(cells, _size(mazes)), axis=-1)

    hidden = jnp.any(scene.cells == scene.goal)
    seen = jnp.concatenate([jnp.ones(NUM_DISTRACTORS, bool), ~hidden[None]])
    return GridFilm(
        walls=mazes.walls[scene.task.maze],
        objects=place(jnp.concatenate([scene.cells, scene.goal[None]])),
        types=jnp.concatenate([scene.types, scene.task.goal_type[None]]),
        worth=jnp.ones(NUM_DISTRACTORS + 1),
        goal=place(scene.goal),
        there=jnp.broadcast_to(seen[None], (*states.cell.shape, len(seen))),
        agent=place(states.cell),
    )


def _size(mazes: Mazes) -> int:
    return mazes.walls.shape[-1]
