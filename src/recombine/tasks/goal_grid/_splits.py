"""Which of the 200 tasks are trained on, and which are held out."""

from typing import Literal, get_args

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from recombine.tasks.goal_grid._environment import FACTORS

NUM_TASKS = int(np.prod(FACTORS))
"""All combinations: 200."""

FEWEST = 20
"""Tasks that a random split must at least train on, so that every factor's values are found."""

MOST_HELD_OUT = NUM_TASKS - FEWEST

GoalSupport = Literal["random", "non-compositional", "at-most"]
"""How training tasks are chosen. `random` holds out a share of all; `non-compositional` holds out
the last quadrant; `at-most` trains on tasks of which at most so many factors are not at their first
value, a mode of the authors' code that their experiments do not use."""


def task_factors(tasks: Int[np.ndarray, " tasks"]) -> Int[np.ndarray, "tasks 4"]:
    """Returns quadrant, interaction, maze and goal type of tasks that are given as numbers.

    Example:
        >>> task_factors(np.array([0, 199])).tolist()
        [[0, 0, 0, 0], [3, 1, 4, 4]]
    """
    return np.stack(np.unravel_index(np.asarray(tasks), FACTORS), axis=-1)


def make_goal_split(
    support: str, *, max_active: int = 2
) -> tuple[Int[np.ndarray, " train"], Int[np.ndarray, " held_out"]]:
    """Returns a split that is the same for all seeds; `random` has one for each.

    Args:
        support: see `GoalSupport`.
        max_active: factors that `at-most` lets differ from their first value.

    Example:
        >>> train, held_out = make_goal_split("non-compositional")
        >>> len(train), len(held_out)
        (150, 50)
    """
    tasks = np.arange(NUM_TASKS)
    factors = task_factors(tasks)
    if support == "non-compositional":
        held_out = factors[:, 0] == FACTORS[0] - 1
    elif support == "at-most":
        if not 1 <= max_active < len(FACTORS):
            raise ValueError(
                f"`max_active` counts factors, from 1 to {len(FACTORS) - 1}; got {max_active}"
            )
        held_out = np.sum(factors > 0, axis=1) > max_active
    else:
        known = ", ".join(name for name in get_args(GoalSupport) if name != "random")
        raise LookupError(f"no fixed split is called {support!r}; known are {known}")
    return tasks[~held_out], tasks[held_out]


def draw_goal_split(
    key: PRNGKeyArray, num_held_out: int
) -> tuple[Int[Array, " train"], Int[Array, " held_out"]]:
    """Draws a split in which every value of every factor is trained; draws again until it is."""
    if not 0 <= num_held_out <= MOST_HELD_OUT:
        raise ValueError(
            f"of {NUM_TASKS} tasks at least {FEWEST} must be trained on; got {num_held_out} held "
            f"out"
        )
    factors = jnp.asarray(task_factors(np.arange(NUM_TASKS)))
    num_train = NUM_TASKS - num_held_out

    def is_missing_some(order: Int[Array, " tasks"]) -> Bool[Array, ""]:
        shown = factors[order[:num_train]]
        counts = [
            jnp.zeros(size, jnp.int32).at[shown[:, number]].add(1)
            for number, size in enumerate(FACTORS)
        ]
        return jnp.any(jnp.concatenate(counts) == 0)

    def again(
        carry: tuple[PRNGKeyArray, Int[Array, " tasks"]],
    ) -> tuple[PRNGKeyArray, Int[Array, " tasks"]]:
        key, order_key = jr.split(carry[0])
        return key, jr.permutation(order_key, NUM_TASKS)

    first = again((key, jnp.arange(NUM_TASKS)))
    _, order = jax.lax.while_loop(lambda carry: is_missing_some(carry[1]), again, first)
    return order[:num_train], order[num_train:]
