"""Few-shot tasks: see one demonstration, and do in other scenes what it showed.

Rows are the steps of a demonstration, 64 of them; those after its end do not count. Of a row's six
targets, one for each action, the expert's is 1, an action that is as good has ½, all others have 0.
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from recombine.tasks.goal_grid._environment import (
    ACTIONS,
    FACTORS,
    NEAREST_START,
    NUM_CHANNELS,
    NUM_MAZES,
    GoalScene,
    GoalState,
    GoalTask,
    Mazes,
    expert_actions,
    film_of,
    observe,
    observe_map,
    reset,
    step,
)
from recombine.tasks.goal_grid._mazes import FIRST_SEED, SIZE, make_maze
from recombine.tasks.goal_grid._shortest import shortening_moves, shortest_distances
from recombine.tasks.goal_grid._splits import (
    MOST_HELD_OUT,
    NUM_TASKS,
    draw_goal_split,
    make_goal_split,
)
from recombine.tasks.grid_pictures import GridFilm
from recombine.tasks.grids import Rollout, neighbor_cells, play
from recombine.tasks.hyperteacher import Examples, FewShotTasks, TaskOrder, order_tasks

NUM_STEPS = 64
"""Rows of a demonstration by default; the longest way in the first hundred mazes takes 61."""


class GoalWorld(NamedTuple):
    """What a seed draws."""

    mazes: Mazes
    combinations: TaskOrder


class GoalGrid(eqx.Module):
    """A source of imitation tasks: named sets of tasks, drawn on the device.

    Sets: `valid` and `test`, training tasks in new scenes; `ood`, held-out tasks. A latent has one
    row for each factor, one-hot and padded to five. Made by `make_goal_grid`.
    """

    walls: Bool[Array, "pool size size"]
    neighbors: Int[Array, "pool cells 4"]
    order: TaskOrder
    is_random: Bool[Array, ""]  # whether every seed draws another order
    num_held_out: int = eqx.field(static=True)
    num_support: int = eqx.field(static=True)
    exclude_goal_cell: bool = eqx.field(static=True)
    nearest_start: int = eqx.field(static=True)
    num_steps: int = eqx.field(static=True)

    @property
    def num_inputs(self) -> int:
        """The numbers of an observation."""
        return self.neighbors.shape[1] * NUM_CHANNELS

    @property
    def num_outputs(self) -> int:
        """The actions."""
        return len(ACTIONS)

    @property
    def horizon(self) -> int:
        """Steps of a demonstration, with those after its end."""
        return self.num_steps

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the sets."""
        return ("valid", "test", *(("ood",) if self.num_held_out else ()))

    def begin(self, key: PRNGKeyArray) -> GoalWorld:
        """Draws the mazes of a seed, finds all ways in them, and draws what is held out."""
        maze_key, split_key = jr.split(key)
        chosen = jr.permutation(maze_key, self.walls.shape[0])[:NUM_MAZES]
        walls, neighbors = self.walls[chosen], self.neighbors[chosen]

        def ways(walls: Any, neighbors: Any) -> Mazes:
            distances = shortest_distances(neighbors, ~walls.reshape(-1))
            return Mazes(walls, neighbors, distances, shortening_moves(distances, neighbors))

        mazes = jax.vmap(ways)(walls, neighbors)
        order = self.order.tasks
        if self.num_held_out <= MOST_HELD_OUT:  # others were not drawn
            drawn = jnp.concatenate(draw_goal_split(split_key, self.num_held_out))
            order = jnp.where(self.is_random, drawn, order)
        return GoalWorld(mazes, self.order._replace(tasks=order))

    def sample(self, world: GoalWorld, key: PRNGKeyArray, num_tasks: int) -> FewShotTasks:
        """Draws training tasks."""
        return self.sample_set(world, "valid", key, num_tasks)

    def sample_set(
        self, world: GoalWorld, name: str, key: PRNGKeyArray, num_tasks: int
    ) -> FewShotTasks:
        """Draws tasks of a named set."""
        latent_key, data_key = jr.split(key)
        latents = self.sample_latents(world, name, latent_key, num_tasks)
        return self.tasks_of(world, latents, data_key)

    def sample_latents(
        self, world: GoalWorld, name: str, key: PRNGKeyArray, num_tasks: int
    ) -> Float[Array, "tasks 4 5"]:
        """Draws tasks of a named set, as latents."""
        if name not in self.sets:
            raise LookupError(f"no set is called {name!r}; known are {', '.join(self.sets)}")
        chosen = world.combinations.pick(key, num_tasks, held_out=name == "ood")
        factors = jnp.stack(jnp.unravel_index(chosen, FACTORS), axis=-1)
        return jax.nn.one_hot(factors, max(FACTORS))

    def tasks_of(
        self, world: GoalWorld, latents: Float[Array, "tasks 4 5"], key: PRNGKeyArray
    ) -> FewShotTasks:
        """Draws the demonstrations of tasks whose latents are given."""

        def one(latent: Any, key: PRNGKeyArray) -> FewShotTasks:
            keys = jr.split(key, self.num_support + 1)
            shown = jax.vmap(self._episode, in_axes=(None, None, 0))(world, latent, keys)
            support = jax.tree.map(lambda a: a[:-1].reshape(-1, *a.shape[2:]), shown)
            return FewShotTasks(support, jax.tree.map(lambda a: a[-1], shown), latent)

        return jax.vmap(one)(latents, jr.split(key, latents.shape[0]))

    def start(
        self, world: GoalWorld, latent: Float[Array, "4 5"], key: PRNGKeyArray
    ) -> tuple[GoalScene, GoalState]:
        """Begins an episode of a task."""
        task = GoalTask(*jnp.argmax(latent, axis=-1))
        return reset(
            key,
            world.mazes,
            task,
            exclude_goal_cell=self.exclude_goal_cell,
            nearest_start=self.nearest_start,
        )

    def step(
        self, world: GoalWorld, scene: GoalScene, state: GoalState, action: Int[Array, ""]
    ) -> tuple[GoalState, Float[Array, ""]]:
        """Moves the agent or interacts; returns the next state and the reward."""
        return step(world.mazes, scene, state, action)

    def observe(
        self, world: GoalWorld, scene: GoalScene, state: GoalState
    ) -> Float[Array, " inputs"]:
        """Returns what is seen, flat."""
        return observe(world.mazes, scene, state).reshape(-1)

    def demonstrate(
        self, world: GoalWorld, scene: GoalScene, state: GoalState
    ) -> tuple[Rollout, Float[Array, "steps actions"]]:
        """Lets the expert play; returns the episode, and how good each action was on the way."""

        def policy(state: GoalState) -> Int[Array, ""]:
            return expert_actions(world.mazes, scene, state.cell)[0]

        def move(state: Any, action: Any) -> Any:
            return step(world.mazes, scene, state, action)

        def good(cell: Int[Array, ""]) -> Float[Array, " actions"]:
            best, as_good = expert_actions(world.mazes, scene, cell)
            return 0.5 * (as_good + jax.nn.one_hot(best, len(ACTIONS)))

        rollout = play(move, policy, state, self.num_steps)
        return rollout, jax.vmap(good)(rollout.states.cell)

    def film(self, world: GoalWorld, scene: GoalScene, states: GoalState) -> GridFilm:
        """Returns what is to be drawn of an episode's states."""
        return film_of(world.mazes, scene, states)

    def _episode(self, world: GoalWorld, latent: Any, key: PRNGKeyArray) -> Examples:
        scene, state = self.start(world, latent, key)
        rollout, targets = self.demonstrate(world, scene, state)
        # The map is the same in all rows: it is made once.
        seen = observe_map(world.mazes, scene)
        agents = jax.nn.one_hot(rollout.states.cell, len(seen))[..., None]
        maps = jnp.broadcast_to(seen[None], (self.num_steps, *seen.shape))
        inputs = jnp.concatenate([maps, agents], axis=-1).reshape(self.num_steps, -1)
        return Examples(inputs, targets, rollout.counts.astype(inputs.dtype))


def make_goal_grid(
    support: str = "random",
    *,
    held_out: float = 0.25,
    max_active: int = 2,
    num_support: int = 1,
    num_mazes: int = 100,
    first_seed: int = FIRST_SEED,
    exclude_goal_cell: bool = False,
    size: int = SIZE,
    nearest_start: int = NEAREST_START,
    num_steps: int = NUM_STEPS,
) -> GoalGrid:
    """Makes a source of goal tasks; the defaults are those of Schug et al. (2024).

    Args:
        support: see `GoalSupport`.
        held_out: the share of tasks that the random support holds out.
        max_active: see `make_goal_split`.
        num_support: demonstrations to learn from.
        num_mazes: different ones, of which every seed draws five. With five all seeds share the
            authors' first ones; in their code neighboring seeds share four of five.
        first_seed: of the mazes.
        exclude_goal_cell: see `reset`.
        size: of the mazes; see `make_maze`.
        nearest_start: see `reset`. Some cell must be so far away from every goal.
        num_steps: rows of a demonstration; the longest way and the interaction must fit.

    Example:
        >>> source = make_goal_grid("non-compositional", num_mazes=5)
        >>> source.num_held_out, source.num_inputs
        (50, 847)
    """
    if num_mazes < NUM_MAZES:
        raise ValueError(f"a seed has {NUM_MAZES} mazes: `num_mazes` is too small; got {num_mazes}")
    if num_support < 1:
        raise ValueError(f"`num_support` must be at least 1; got {num_support}")
    if support == "random":
        if not 0 <= held_out <= 0.9:
            raise ValueError(f"`held_out` is a share, at least 0 and at most 0.9; got {held_out}")
        num_train = NUM_TASKS - math.floor(held_out * NUM_TASKS)
        train, others = np.split(np.arange(NUM_TASKS), [num_train])
    else:
        train, others = make_goal_split(support, max_active=max_active)
    walls = _different_mazes(num_mazes, first_seed, size)
    neighbors = np.stack([neighbor_cells(maze) for maze in walls])
    if (size, nearest_start, num_steps) != (SIZE, NEAREST_START, NUM_STEPS):  # those are known
        _check_ways(walls, neighbors, nearest_start, num_steps)
    return GoalGrid(
        walls=jnp.asarray(walls),
        neighbors=jnp.asarray(neighbors),
        order=order_tasks(train, others, num_tasks=NUM_TASKS),
        is_random=jnp.asarray(support == "random"),
        num_held_out=len(others),
        num_support=num_support,
        exclude_goal_cell=exclude_goal_cell,
        nearest_start=nearest_start,
        num_steps=num_steps,
    )


def _different_mazes(count: int, first_seed: int, size: int) -> Bool[np.ndarray, "pool size size"]:
    """Returns the mazes of the next seeds without those that came before: small ones repeat."""
    found: dict[bytes, Bool[np.ndarray, "size size"]] = {}
    for seed in range(first_seed, first_seed + 20 * count):
        maze = make_maze(seed, size)
        found.setdefault(maze.tobytes(), maze)
        if len(found) == count:
            return np.stack(list(found.values()))
    raise ValueError(
        f"there are not enough different mazes of size {size}: {len(found)} were found and "
        f"`num_mazes` is {count}"
    )


def _check_ways(
    walls: Bool[np.ndarray, "pool size size"],
    neighbors: Int[np.ndarray, "pool cells 4"],
    nearest_start: int,
    num_steps: int,
) -> None:
    free = ~walls.reshape(len(walls), -1)
    ways = np.asarray(jax.vmap(shortest_distances)(jnp.asarray(neighbors), jnp.asarray(free)))
    farthest = np.where(free[:, None], ways, 0).max(axis=-1)[free]
    if nearest_start > farthest.min():
        raise ValueError(
            f"from some goals no cell is farther away than {farthest.min()} moves; "
            f"`nearest_start` is {nearest_start}"
        )
    if num_steps <= farthest.max():
        raise ValueError(
            f"the longest way has {farthest.max()} moves and then the interaction; `num_steps` is "
            f"{num_steps}"
        )
