"""Where the grid worlds meet the meta-learners, and how well those play."""

import functools
import math
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from recombine.experiments.hypernetworks._drawn_supports import count_combinations, describe_codes
from recombine.experiments.hypernetworks._grid_config import (
    GoalConfig,
    GridConfig,
    PreferenceConfig,
    SmallGoalConfig,
)
from recombine.methods.hypernetworks import (
    Architecture,
    HardLabels,
    HyperNetworkConfig,
    InnerLoop,
    MetaLearner,
    MetaTraining,
    MonolithicConfig,
    OuterLoop,
    SquaredError,
    count_parameters,
)
from recombine.tasks.goal_grid import GoalGrid, make_goal_grid
from recombine.tasks.grids import Rollout, play
from recombine.tasks.preference_grid import PreferenceGrid, make_preference_grid

WATCHED = ("valid", "test", "ood")
"""The sets that are measured during training."""

LEAST_RETURN = 0.01
"""Of the expert, on average; a share of less says nothing."""

Metrics = dict[str, Float[Array, ""]]


@dataclass(frozen=True)
class ExpertActions:
    """Cross-entropy with the expert's action, the target of the largest number.

    Also measured: whether an action is as good as the expert's, which any target above zero says;
    whether a whole demonstration is right; and its first and its last step, the interaction.
    """

    def loss(
        self,
        outputs: Float[Array, "rows actions"],
        targets: Float[Array, "rows actions"],
        weights: Float[Array, " rows"] | None,
    ) -> Float[Array, ""]:
        """Returns the mean cross-entropy in nats."""
        return HardLabels().loss(outputs, jnp.argmax(targets, axis=-1), weights)

    def measures(
        self,
        outputs: Float[Array, "rows actions"],
        targets: Float[Array, "rows actions"],
        weights: Float[Array, " rows"] | None,
    ) -> Metrics:
        """Returns all measures of one demonstration."""
        assert weights is not None
        chosen = jnp.argmax(outputs, axis=-1)
        correct = (chosen == jnp.argmax(targets, axis=-1)).astype(outputs.dtype)
        worth = jnp.take_along_axis(targets, chosen[:, None], axis=-1)[:, 0]
        last = jnp.sum(weights > 0) - 1
        return {
            **HardLabels().measures(outputs, jnp.argmax(targets, axis=-1), weights),
            "optimal": jnp.sum(weights * (worth > 0)) / jnp.sum(weights),
            "first_correct": correct[0],
            "last_correct": correct[last],
        }

    def describe(
        self, targets: Float[Array, "rows actions"], num_outputs: int
    ) -> Float[Array, "rows actions"]:
        """Returns the expert's actions as one-hot rows."""
        return jax.nn.one_hot(jnp.argmax(targets, axis=-1), num_outputs)


class GridLearner(eqx.Module):
    """A meta-learner that is also let loose in the grid world it learns about.

    `final` adds, for `test` and `ood`, the return of the adapted agent as a share of the expert's:
    both play the same scenes. It is no number where the expert earns next to nothing. Where values
    are learned it adds the loss of the best constant prediction, which differs between seeds by a
    factor of three, and the loss relative to it. Latents are not decoded from MAML's networks: half
    a million numbers for each of 2,048 tasks.
    """

    meta: MetaLearner
    num_played: int = eqx.field(static=True)

    def init(self, key: PRNGKeyArray) -> MetaTraining:
        """Draws the world and the shared parameters."""
        return self.meta.init(key)

    def step(self, state: MetaTraining, key: PRNGKeyArray) -> tuple[MetaTraining, Metrics]:
        """Takes one meta-step."""
        return self.meta.step(state, key)

    def evaluate(self, state: MetaTraining, key: PRNGKeyArray) -> Metrics:
        """Measures the watched sets."""
        return self.meta.evaluate(state, key)

    def final(self, state: MetaTraining, key: PRNGKeyArray) -> Metrics:
        """Measures all sets, and plays."""
        metrics = self.meta.final(state, key) | self._facts(state)
        names = _compared(self.meta.source)
        if "ood" in names:  # how much worse unseen combinations are
            learns_values = isinstance(self.meta.objective, SquaredError)
            sign, measure = (1, "loss") if learns_values else (-1, "accuracy")
            metrics["gap"] = sign * (metrics[f"ood_{measure}"] - metrics[f"test_{measure}"])
        tasks, _, ours, experts = self._play(state, names, self.num_played)
        for number, name in enumerate(names):
            earned, possible = jnp.sum(ours.rewards[number]), jnp.sum(experts.rewards[number])
            is_worth_playing = possible > LEAST_RETURN * self.num_played
            metrics[f"{name}_return"] = jnp.where(is_worth_playing, earned / possible, jnp.nan)
            if isinstance(self.meta.objective, SquaredError):
                query = jax.tree.map(lambda leaf: leaf[number], tasks.query)  # noqa: B023
                floor = constant_loss(query, ours.rewards.shape[-1])
                metrics[f"{name}_constant_loss"] = floor
                metrics[f"{name}_relative"] = metrics[f"{name}_loss"] / floor
        return metrics

    def inspect(self, state: MetaTraining, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns losses of all sets, the support, and an episode of the agent and the expert."""
        source: Any = self.meta.source
        # One chunk of every set: more would keep too much of every task.
        count = min(self.meta.chunk_size, self.meta.num_measured)
        some = replace(self.meta, watched=source.sets, decodes=None, num_measured=count)
        found = some.inspect(state, key)
        kept = {name: found[name] for name in found if name.endswith("_task_loss")}
        for name in _compared(source):
            kept[f"{name}_support_losses"] = jnp.mean(found[f"{name}_support_losses"], axis=0)
        if isinstance(source, PreferenceGrid):
            kept["masks"] = self._trained_masks(state)
        _, scenes, ours, experts = self._play(state, _compared(source)[-1:], 1)
        for who, rollouts in (("agent", ours), ("expert", experts)):
            rollout, scene = jax.tree.map(lambda leaf: leaf[0, 0], (rollouts, scenes))
            kept |= _film(who, source, state.world, scene, rollout)
        return kept

    def _facts(self, state: MetaTraining) -> Metrics:
        """Returns what there was to learn from, and how large the model is."""
        facts = count_combinations(state.world.combinations)
        facts["parameters"] = jnp.float32(count_parameters(state.model))
        if isinstance(self.meta.source, PreferenceGrid):
            facts |= describe_codes(self._trained_masks(state).astype(jnp.float32))
        return facts

    def _trained_masks(self, state: MetaTraining) -> Bool[Array, "masks modules"]:
        """Returns the masks that are trained; the others have no module."""
        source, order = self.meta.source, state.world.combinations
        assert isinstance(source, PreferenceGrid)
        return source.masks[order.tasks] & order.is_trained[:, None]

    def _play(
        self, state: MetaTraining, names: tuple[str, ...], num_tasks: int
    ) -> tuple[Any, Any, Rollout, Rollout]:
        """Adapts to tasks, and plays one new scene of each; so does the expert.

        Everything returned has axes of sets and tasks.
        """
        source: Any = self.meta.source
        latent_key, task_key, play_key = jr.split(jr.fold_in(state.evaluation_key, 1_000_000), 3)
        latents = [source.sample_latents(state.world, n, latent_key, num_tasks) for n in names]
        tasks = source.tasks_of(state.world, jnp.concatenate(latents), task_key)

        def one(task: Any, key: PRNGKeyArray) -> tuple[Any, Rollout, Rollout]:
            adapt_key, scene_key = jr.split(key)
            adapted = self.meta.adapt(state.model, task.support, adapt_key)
            scene, start = source.start(state.world, task.latent, scene_key)

            def act(place: Any) -> Int[Array, ""]:
                seen = source.observe(state.world, scene, place)[None]
                outputs = state.model.predict(adapted.params, state.model.read(seen))
                return jnp.argmax(outputs[0])

            def move(place: Any, action: Int[Array, ""]) -> tuple[Any, Float[Array, ""]]:
                return source.step(state.world, scene, place, action)

            ours = play(move, act, start, source.horizon)
            experts, _ = source.demonstrate(state.world, scene, start)
            return scene, ours, experts

        found = (tasks, *jax.vmap(one)(tasks, jr.split(play_key, len(names) * num_tasks)))
        return jax.tree.map(lambda a: a.reshape(len(names), num_tasks, *a.shape[1:]), found)


def constant_loss(query: Any, num_steps: int) -> Float[Array, ""]:
    """Returns the loss of the best constant prediction, as the mean over episodes.

    Args:
        query: targets and weights of tasks, whose rows are episodes one after the other.
        num_steps: rows of an episode.
    """
    weights = query.weights.reshape(-1, num_steps)
    rows = (weights / jnp.sum(weights, axis=1, keepdims=True)).reshape(-1, 1) / len(weights)
    targets = query.targets.reshape(len(rows), -1)
    mean = jnp.sum(rows * targets, axis=0, keepdims=True)
    return 0.5 * jnp.sum(rows * jnp.square(targets - mean))


def make_preference_learner(config: PreferenceConfig, steps: int) -> GridLearner:
    """Returns the learner of one row of the preference grid."""
    del steps
    return _make(config, _preference_source(config), SquaredError("sum"))


def make_goal_learner(config: GoalConfig, steps: int) -> GridLearner:
    """Returns the learner of one row of the goal grid."""
    del steps
    return _make(config, _goal_source(config), ExpertActions())


def sample_preference(config: PreferenceConfig) -> dict[str, np.ndarray]:
    """Returns an episode of the expert and, where all seeds share it, the support."""
    source = _preference_source(config)
    found = _sample(source)
    if not source.is_random:
        found["masks"] = np.asarray(source.masks)[np.asarray(source.order.train)]
    return found


def sample_goal(config: GoalConfig) -> dict[str, np.ndarray]:
    """Returns a demonstration."""
    return _sample(_goal_source(config))


def _sample(source: Any) -> dict[str, np.ndarray]:
    @jax.jit
    def draw(key: PRNGKeyArray) -> dict[str, Array]:
        begin_key, latent_key, scene_key = jr.split(key, 3)
        world = source.begin(begin_key)
        [latent] = source.sample_latents(world, source.sets[-1], latent_key, 1)
        scene, start = source.start(world, latent, scene_key)
        rollout, _ = source.demonstrate(world, scene, start)
        return _film("expert", source, world, scene, rollout)

    return {name: np.asarray(array) for name, array in draw(jr.key(0)).items()}


def _film(who: str, source: Any, world: Any, scene: Any, rollout: Rollout) -> dict[str, Array]:
    film = source.film(world, scene, rollout.states)
    return {
        **{f"{who}_{part}": array for part, array in film._asdict().items()},
        f"{who}_actions": rollout.actions,
        f"{who}_counts": rollout.counts,
    }


def _preference_source(config: PreferenceConfig) -> PreferenceGrid:
    return make_preference_grid(
        config.support,
        num_modules=config.num_modules,
        num_types=config.num_types,
        max_active=config.max_active,
        held_out=config.held_out,
        num_support=config.num_support,
        num_query=config.num_query,
        terminal_nothing=config.terminal_nothing,
    )


def _goal_source(config: GoalConfig) -> GoalGrid:
    sizes: dict[str, int] = {}
    if isinstance(config, SmallGoalConfig):
        sizes = {
            "size": config.size,
            "nearest_start": config.nearest_start,
            "num_steps": config.num_rows,
        }
    return _make_goal_grid(
        config.support,
        held_out=config.held_out,
        num_support=config.num_support,
        num_mazes=config.num_mazes,
        exclude_goal_cell=config.exclude_goal_cell,
        **sizes,
    )


@functools.cache  # a hundred mazes take a second: made once for all rows of a process
def _make_goal_grid(support: str, **settings: Any) -> GoalGrid:
    return make_goal_grid(support, **settings)


def _make(config: GridConfig, source: Any, objective: Any) -> GridLearner:
    sizes: dict[str, Any] = {
        "num_inputs": source.num_inputs,
        "num_outputs": source.num_outputs,
        "width": config.width,
        "num_hidden": config.num_hidden,
    }
    architecture: Architecture
    if config.learner in ("anil", "maml"):
        adapts = "head" if config.learner == "anil" else "everything"
        architecture = MonolithicConfig(adapts=adapts, **sizes)
    else:
        architecture = HyperNetworkConfig(
            bank="linear" if config.learner == "linear-hnet" else "deep",
            num_templates=config.num_templates,
            adapts_bias=config.adapts_bias,
            **sizes,
        )
    has_held_out = "ood" in source.sets
    meta = MetaLearner(
        source,
        architecture,
        objective,
        InnerLoop(
            learning_rate=config.inner_rate,
            num_steps=config.inner_steps,
            batch_size=config.batch_size,
            eps_root=config.inner_eps_root,  # pyright: ignore[reportArgumentType]
            keep="everything" if config.learner == "anil" else "steps",  # a head's own is little
        ),
        OuterLoop(
            learning_rate=config.outer_rate,
            weight_decay=config.weight_decay,
            clip_norm=config.clip_norm,
            skips=config.skips,
        ),
        num_tasks=config.num_tasks,
        num_measured=config.num_measured,
        chunk_size=math.gcd(config.chunk_size, config.num_measured),
        watched=tuple(name for name in WATCHED if name in source.sets),
        decodes=("test", "ood") if has_held_out and config.learner != "maml" else None,
        precision=config.precision,
    )
    return GridLearner(meta, config.num_played)


def _compared(source: Any) -> tuple[str, ...]:
    return tuple(name for name in ("test", "ood") if name in source.sets)
