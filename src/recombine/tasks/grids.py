"""What grid worlds share: cells and their neighbours, random cells, and playing an episode.

A cell is a number: row times the width plus column, both from the upper left corner. An environment
is two pure functions, `step` and `observe`, of a scene that stays and of a state that changes; its
states say whether the episode `is_over`, and a step from such a state changes nothing.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
"""Up, right, down, left, as changes of row and column."""


class Rollout(NamedTuple):
    """One episode, padded to a fixed number of steps; several have leading axes."""

    states: Any
    """The states before each step."""
    actions: Int[Array, " steps"]
    rewards: Float[Array, " steps"]
    counts: Bool[Array, " steps"]
    """Whether the episode was still going on before each step."""
    last: Any
    """The state after the last step."""


def neighbor_cells(walls: Bool[np.ndarray, "rows columns"]) -> Int[np.ndarray, "cells 4"]:
    """Returns the cell that each of the `MOVES` leads to from every cell.

    A move into a wall or off the grid stays where it is, as does every move from inside a wall.

    Example:
        >>> neighbor_cells(np.array([[False, False], [False, True]])).tolist()
        [[0, 1, 2, 0], [1, 1, 1, 0], [0, 2, 2, 2], [3, 3, 3, 3]]
    """
    walls = np.asarray(walls, bool)
    rows, columns = np.indices(walls.shape)
    own = rows * walls.shape[1] + columns
    table = []
    for down, right in MOVES:
        row, column = rows + down, columns + right
        inside = (row >= 0) & (row < walls.shape[0]) & (column >= 0) & (column < walls.shape[1])
        row, column = np.where(inside, row, rows), np.where(inside, column, columns)
        open_way = ~walls[row, column] & ~walls
        table.append(np.where(open_way, row * walls.shape[1] + column, own).reshape(-1))
    return np.stack(table, axis=1).astype(np.int32)


def random_cells(
    key: PRNGKeyArray, allowed: Bool[Array, " cells"], count: int
) -> Int[Array, " {count}"]:
    """Draws distinct cells, in random order, uniformly among those allowed.

    There must be at least `count` of them: where there are fewer, others fill up.
    """
    numbers = jnp.where(allowed, jr.uniform(key, allowed.shape), -1.0)
    return jax.lax.top_k(numbers, count)[1]


def play(
    step: Callable[[Any, Int[Array, ""]], tuple[Any, Float[Array, ""]]],
    policy: Callable[[Any], Int[Array, ""]],
    state: Any,
    num_steps: int,
) -> Rollout:
    """Plays one episode.

    Args:
        step: gives the next state and the reward of a state and an action.
        policy: gives the action of a state.
        state: where to start.
        num_steps: of the rollout; an episode that ends before leaves steps that do not count.
    """

    def one(state: Any, _: None) -> tuple[Any, tuple[Any, Int[Array, ""], Float[Array, ""]]]:
        action = policy(state)
        after, reward = step(state, action)
        return after, (state, action, reward)

    last, (states, actions, rewards) = jax.lax.scan(one, state, None, num_steps)
    return Rollout(states, actions, rewards, ~states.is_over, last)
