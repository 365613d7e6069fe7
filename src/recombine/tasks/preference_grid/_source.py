"""Few-shot tasks: learn what an agent likes from demonstrations, as the values of its actions.

A task is a latent, a weight for each of eight modules; what a type of object is worth is a sum of
the modules' preferences, weighted by it. Demonstrations are greedy rollouts of the optimal action
values, eight steps long; targets are the values of all five actions. After `NOTHING` an episode is
over, and its further rows do not count.
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from recombine.tasks.grid_pictures import GridFilm
from recombine.tasks.grids import Rollout, play
from recombine.tasks.hyperteacher import (
    Examples,
    FewShotTasks,
    TaskOrder,
    continuous_latents,
    is_connected,
    make_split,
    masks_up_to,
    order_tasks,
    random_masks,
    support_rank,
)
from recombine.tasks.preference_grid._environment import (
    ACTIONS,
    HORIZON,
    WALLS,
    PreferenceScene,
    PreferenceState,
    film_of,
    observe,
    reset,
    step,
)
from recombine.tasks.preference_grid._optimal import arrival_values, best_action, values_at


class PreferenceWorld(NamedTuple):
    """What a seed draws."""

    preferences: Float[Array, "modules types"]
    """What each module thinks of each type of object."""
    combinations: TaskOrder


class PreferenceGrid(eqx.Module):
    """A source of regression tasks: named sets of tasks, drawn on the device.

    Sets: `valid` and `test`, training combinations of modules; `ood`, held-out ones; `ood_hot_k`,
    combinations of k modules, more than any in training. As published, their queries are a single
    episode; those of `test_many` and `ood_many` are as many as in training. Latents are continuous
    everywhere. Made by `make_preference_grid`.
    """

    masks: Bool[Array, "masks modules"]
    order: TaskOrder
    is_random: Bool[Array, ""]  # whether every seed draws another order
    max_active: int = eqx.field(static=True)
    holds_out: bool = eqx.field(static=True)
    num_types: int = eqx.field(static=True)
    num_support: int = eqx.field(static=True)
    num_query: int = eqx.field(static=True)
    terminal_nothing: bool = eqx.field(static=True)

    @property
    def num_modules(self) -> int:
        """How many modules there are."""
        return self.masks.shape[1]

    @property
    def num_inputs(self) -> int:
        """The numbers of an observation: a channel for each type, for the agent, for walls."""
        return WALLS.size * (self.num_types + 2)

    @property
    def num_outputs(self) -> int:
        """The actions."""
        return len(ACTIONS)

    @property
    def horizon(self) -> int:
        """Steps of an episode."""
        return HORIZON

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the sets."""
        held_out = ("ood", "ood_many") if self.holds_out else ()
        more = range(self.max_active + 1, self.num_modules + 1)
        return ("valid", "test", "test_many", *held_out, *(f"ood_hot_{k}" for k in more))

    def begin(self, key: PRNGKeyArray) -> PreferenceWorld:
        """Draws the preferences of a seed and, for the random support, what is held out.

        The preferences depend on the seed alone: seeds can be compared across supports.
        """
        preference_key, split_key = jr.split(key)
        drawn = jr.permutation(split_key, self.masks.shape[0])
        order = jnp.where(self.is_random, drawn, self.order.tasks)
        preferences = jr.normal(preference_key, (self.num_modules, self.num_types))
        return PreferenceWorld(preferences, self.order._replace(tasks=order))

    def sample(self, world: PreferenceWorld, key: PRNGKeyArray, num_tasks: int) -> FewShotTasks:
        """Draws training tasks."""
        latent_key, data_key = jr.split(key)
        latents = self.sample_latents(world, "valid", latent_key, num_tasks)
        return self.tasks_of(world, latents, data_key)

    def sample_set(
        self, world: PreferenceWorld, name: str, key: PRNGKeyArray, num_tasks: int
    ) -> FewShotTasks:
        """Draws tasks of a named set."""
        latent_key, data_key = jr.split(key)
        latents = self.sample_latents(world, name, latent_key, num_tasks)
        counted = self.num_query if name.endswith("_many") else 1
        return self.tasks_of(world, latents, data_key, num_counted=counted)

    def sample_latents(
        self, world: PreferenceWorld, name: str, key: PRNGKeyArray, num_tasks: int
    ) -> Float[Array, "tasks modules"]:
        """Draws latents of a named set."""
        if name not in self.sets:
            raise LookupError(f"no set is called {name!r}; known are {', '.join(self.sets)}")
        mask_key, weight_key = jr.split(key)
        if name.startswith("ood_hot_"):
            hotness = int(name.removeprefix("ood_hot_"))
            chosen = random_masks(mask_key, (num_tasks,), self.num_modules, hotness)
        else:
            held_out = name.startswith("ood")
            chosen = self.masks[world.combinations.pick(mask_key, num_tasks, held_out=held_out)]
        return continuous_latents(weight_key, chosen)

    def tasks_of(
        self,
        world: PreferenceWorld,
        latents: Float[Array, "tasks modules"],
        key: PRNGKeyArray,
        *,
        num_counted: int | None = None,
    ) -> FewShotTasks:
        """Draws the episodes of tasks whose latents are given.

        Args:
            world: of the seed.
            latents: one row for each task.
            key: of the draw.
            num_counted: so many queries count, the first ones; by default all do.
        """
        num_counted = self.num_query if num_counted is None else num_counted

        def episode(latent: Any, key: PRNGKeyArray) -> Examples:
            scene, state = self.start(world, latent, key)
            rollout, targets = self.demonstrate(world, scene, state)
            inputs = jax.vmap(lambda state: self.observe(world, scene, state))(rollout.states)
            return Examples(inputs, targets, rollout.counts.astype(inputs.dtype))

        def one(latent: Any, key: PRNGKeyArray) -> FewShotTasks:
            keys = jr.split(key, self.num_support + self.num_query)
            shown = jax.vmap(episode, in_axes=(None, 0))(latent, keys)
            counts = jnp.arange(len(keys)) < self.num_support + num_counted
            assert shown.weights is not None
            shown = shown._replace(weights=shown.weights * counts[:, None])
            rows = jax.tree.map(lambda array: array.reshape(-1, *array.shape[2:]), shown)
            first = self.num_support * HORIZON
            return FewShotTasks(
                jax.tree.map(lambda array: array[:first], rows),
                jax.tree.map(lambda array: array[first:], rows),
                latent,
            )

        return jax.vmap(one)(latents, jr.split(key, latents.shape[0]))

    def facts(self, world: PreferenceWorld) -> dict[str, int | bool]:
        """Returns what a support can teach: numbers of masks, rank, connectivity. On the host."""
        train = np.asarray(self.masks)[np.asarray(world.combinations.train)]
        return {
            "num_train": int(world.combinations.num_train),
            "num_held_out": int(world.combinations.num_held_out),
            "rank": support_rank(train),
            "num_modules": self.num_modules,
            "connected": is_connected(train),
        }

    def start(
        self, world: PreferenceWorld, latent: Float[Array, " modules"], key: PRNGKeyArray
    ) -> tuple[PreferenceScene, PreferenceState]:
        """Begins an episode of a task."""
        return reset(key, latent @ world.preferences)

    def step(
        self,
        world: PreferenceWorld,
        scene: PreferenceScene,
        state: PreferenceState,
        action: Int[Array, ""],
    ) -> tuple[PreferenceState, Float[Array, ""]]:
        """Moves the agent; returns the next state and the reward."""
        return step(scene, state, action)

    def observe(
        self, world: PreferenceWorld, scene: PreferenceScene, state: PreferenceState
    ) -> Float[Array, " inputs"]:
        """Returns what is seen, flat."""
        return observe(scene, state).reshape(-1)

    def demonstrate(
        self, world: PreferenceWorld, scene: PreferenceScene, state: PreferenceState
    ) -> tuple[Rollout, Float[Array, "steps actions"]]:
        """Lets the expert play; returns the episode and the values of all actions on the way."""
        arriving = arrival_values(scene)

        def values(state: PreferenceState) -> Float[Array, " actions"]:
            return values_at(arriving, state, terminal_nothing=self.terminal_nothing)

        def move(state: Any, action: Any) -> Any:
            return step(scene, state, action)

        rollout = play(move, lambda state: best_action(values(state)), state, HORIZON)
        return rollout, jax.vmap(values)(rollout.states)

    def film(
        self, world: PreferenceWorld, scene: PreferenceScene, states: PreferenceState
    ) -> GridFilm:
        """Returns what is to be drawn of an episode's states."""
        return film_of(scene, states)


def make_preference_grid(
    support: str = "random",
    *,
    num_modules: int = 8,
    num_types: int = 8,
    max_active: int | None = None,
    held_out: float = 0.25,
    num_support: int = 16,
    num_query: int = 16,
    terminal_nothing: bool = False,
) -> PreferenceGrid:
    """Makes a source of preference tasks; the defaults are those of Schug et al. (2024).

    Args:
        support: `random`, `non-compositional`, `connected` or `disconnected`; see
            `recombine.tasks.hyperteacher.SupportName`.
        num_modules: of preferences.
        num_types: of objects.
        max_active: modules of a task at most; by default 2 for the connected and the disconnected
            support, 3 otherwise.
        held_out: the share of masks that the random support holds out.
        num_support: demonstrations to learn from.
        num_query: demonstrations to be measured on, in training.
        terminal_nothing: see `action_values`.

    Example:
        >>> source = make_preference_grid()
        >>> len(source.masks), int(source.order.num_held_out), source.num_inputs
        (92, 23, 490)
    """
    known = ("random", "non-compositional", "connected", "disconnected")
    if support not in known:
        raise LookupError(f"no support is called {support!r}; known are {', '.join(known)}")
    for name, value in (
        ("num_types", num_types),
        ("num_support", num_support),
        ("num_query", num_query),
    ):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1; got {value}")
    if max_active is None:
        max_active = 2 if support in ("connected", "disconnected") else 3
    masks = masks_up_to(num_modules, max_active)
    if support == "random":
        if not 0 <= held_out < 1:
            raise ValueError(f"`held_out` is a share, at least 0 and below 1; got {held_out}")
        num_train = len(masks) - math.floor(held_out * len(masks))
        train, others = np.split(np.arange(len(masks)), [num_train])
    else:
        fixed = make_split(support, num_modules=num_modules, max_active=max_active, num_layers=1)
        train, others = fixed.train, fixed.held_out
    return PreferenceGrid(
        masks=jnp.asarray(masks),
        order=order_tasks(train, others, num_tasks=len(masks)),
        is_random=jnp.asarray(support == "random"),
        max_active=max_active,
        holds_out=len(others) > 0,
        num_types=num_types,
        num_support=num_support,
        num_query=num_query,
        terminal_nothing=terminal_nothing,
    )
