"""Meta-learning: adapt to every task of a batch, and learn what all tasks share.

Hypernetworks, MAML, ANIL and amortised inference are one learner here: they differ in what a model
says is a task's own, and in the settings of the inner loop. A step draws tasks, adapts to the
support of each and descends on the mean of their losses on the queries, with derivatives through
the adaptation.

A task whose inner loop ran away is left out of the reported loss and counted in `diverged`. Where
no task is left, or a second update in a row is not finite, the loss is not a number, and `fit`
stops there.
"""

import contextlib
import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from recombine.methods.adaptation import Adapted
from recombine.methods.hypernetworks._amortised import AmortisedConfig
from recombine.methods.hypernetworks._descending import descend
from recombine.methods.hypernetworks._distilling import Distillation, give_lesson
from recombine.methods.hypernetworks._frozen import split_frozen
from recombine.methods.hypernetworks._half_precision import HalfPrecision
from recombine.methods.hypernetworks._interface import (
    Architecture,
    FewShotTask,
    Objective,
    TaskSource,
)
from recombine.methods.hypernetworks._loops import InnerLoop, OuterLoop
from recombine.methods.modularity import decode_latents

Metrics = dict[str, Float[Array, ""]]


class MetaTraining(NamedTuple):
    """The state of one seed."""

    model: Any
    optimizer: Any
    world: Any  # what the source drew for this seed
    evaluation_key: PRNGKeyArray  # the same tasks are measured every time
    step: Int[Array, ""]


class TaskOutcomes(NamedTuple):
    """What came of adapting to several tasks, along a leading axis."""

    measures: dict[str, Float[Array, " tasks"]]  # of the queries
    adapted: Float[Array, "tasks parameters"]  # the tasks' own parameters, flat
    latents: Float[Array, "tasks ..."] | None
    outputs: Float[Array, "tasks rows outputs"]
    query: Any
    support_losses: Float[Array, "tasks steps"]  # before each inner step
    finite: Bool[Array, " tasks"]


class MetaLearner(eqx.Module):
    """Learns to adapt to the tasks of a source; see the module."""

    source: TaskSource
    architecture: Architecture = eqx.field(static=True)
    objective: Objective = eqx.field(static=True)
    inner: InnerLoop = eqx.field(default_factory=InnerLoop)
    outer: OuterLoop = eqx.field(default_factory=OuterLoop)
    num_tasks: int = eqx.field(static=True, default=128)
    """Tasks in a step."""
    num_measured: int = eqx.field(static=True, default=1024)
    """Tasks of every set that is measured."""
    chunk_size: int = eqx.field(static=True, default=128)
    """So many of them at once."""
    watched: tuple[str, ...] | None = eqx.field(static=True, default=None)
    """The sets that `evaluate` measures; None is all of them. `final` measures them all."""
    decodes: tuple[str, str] | None = eqx.field(static=True, default=None)
    """From the first set the latents' linear decoder is learned, on the second it is measured."""
    precision: str | None = eqx.field(static=True, default=None)
    """Of matrix products, as `jax.default_matmul_precision` names them; None is the device's. With
    "float16" or "bfloat16" networks keep what they compute in that type; see `HalfPrecision`."""
    distillation: Distillation | None = None
    """How an encoder also learns from embeddings that descent infers; None is not at all."""

    def __check_init__(self) -> None:
        if self.num_measured % min(self.chunk_size, self.num_measured):
            raise ValueError(
                f"`num_measured` must be a multiple of `chunk_size`; got {self.num_measured} and "
                f"{self.chunk_size}"
            )
        for name in (*(self.watched or ()), *(self.decodes or ())):
            if name not in self.source.sets:
                known = ", ".join(self.source.sets)
                raise LookupError(f"the source has no set called {name!r}; it has {known}")
        if self.inner.optimizer == "gauss-newton" and not hasattr(self.objective, "residuals"):
            raise TypeError(
                f"gauss-newton needs an objective of squared errors, with a method `residuals`; "
                f"{type(self.objective).__name__} has none"
            )
        if self.distillation is not None and not isinstance(self.architecture, AmortisedConfig):
            raise TypeError(
                f"`distillation` teaches the encoder of an AmortisedConfig, and a "
                f"{type(self.architecture).__name__} has none; leave it out"
            )
        if self.inner.fresh and not hasattr(self.source, "fresh"):
            raise TypeError(
                f"inner steps with fresh examples need a source that can draw them; "
                f"{type(self.source).__name__} has no method `fresh`"
            )

    def init(self, key: PRNGKeyArray) -> MetaTraining:
        """Draws the world and the shared parameters."""
        world_key, model_key, evaluation_key = jr.split(key, 3)
        world = self.source.begin(world_key)
        model = self.architecture.make(key=model_key)
        self._check_tasks(world)
        trained, _ = split_frozen(model)
        optimizer = self.outer.transformation().init(trained)
        return MetaTraining(model, optimizer, world, evaluation_key, jnp.int32(0))

    def step(self, state: MetaTraining, key: PRNGKeyArray) -> tuple[MetaTraining, Metrics]:
        """Adapts to a batch of tasks and takes one step on their queries' loss."""
        task_key, adapt_key = jr.split(key)
        trained, frozen = split_frozen(state.model)

        def task_loss(trained: Any, task: Any, key: PRNGKeyArray) -> tuple[Any, tuple[Any, ...]]:
            whole = eqx.combine(trained, frozen)
            model = self._in_precision(whole)
            adapted, features = self._adapt(model, state.world, task, key)
            outputs = model.predict(adapted.params, features)
            query = task.query
            loss = self.objective.loss(outputs, query.targets, query.weights)
            finite = adapted.finite & jnp.isfinite(loss)
            if self.distillation is None:
                return loss, (loss, finite, None)
            lesson = give_lesson(self.distillation, whole, self.objective, task, key=key)
            finite &= lesson.finite & jnp.isfinite(lesson.loss)
            total = loss + lesson.loss + self.distillation.weight * lesson.distance
            return total, (loss, finite, lesson)

        with self._precision():
            tasks = self.source.sample(state.world, task_key, self.num_tasks)
            keys = jr.split(adapt_key, self.num_tasks)
            grads, (losses, finite, lessons) = self.outer.mean_gradient(
                task_loss, trained, tasks, keys
            )
        descent: Any = self.outer.transformation()
        updates, optimizer = descent.update(grads, state.optimizer, trained)
        trained = eqx.apply_updates(trained, updates)
        metrics = {
            "loss": jnp.sum(jnp.where(finite, losses, 0.0)) / jnp.sum(finite),
            "diverged": 1 - jnp.mean(finite.astype(losses.dtype)),
        }
        if self.distillation is not None:
            distances = jnp.where(finite, lessons.distance, 0.0)
            metrics["distance"] = jnp.sum(distances) / jnp.sum(finite)
        if self.outer.skips:
            # The optimizer gives up at the second in a row, and then so must the run.
            given_up = optimizer.notfinite_count > 1
            metrics["loss"] = jnp.where(given_up, jnp.nan, metrics["loss"])
            metrics["skipped"] = 1 - optimizer.last_finite.astype(losses.dtype)
        model = eqx.combine(trained, frozen)
        return state._replace(model=model, optimizer=optimizer, step=state.step + 1), metrics

    def evaluate(self, state: MetaTraining, key: PRNGKeyArray) -> Metrics:
        """Measures the watched sets, on the same tasks every time."""
        del key
        return self._measure(state, self.source.sets if self.watched is None else self.watched)

    def final(self, state: MetaTraining, key: PRNGKeyArray) -> Metrics:
        """Measures all sets, and how well the latents can be decoded from what was adapted."""
        del key
        metrics = self._measure(state, self.source.sets)
        if self.decodes is not None:
            decoded = self._decode(state)
            metrics |= {"decoded_mean": decoded.mean, "decoded_min": decoded.minimum}
        return metrics

    def inspect(self, state: MetaTraining, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns losses along the inner loop and, where latents are known, how each is decoded."""
        del key
        names = self.source.sets if self.watched is None else self.watched
        outcomes = self._outcomes(state, names, self.num_measured)
        found: dict[str, Array] = {}
        for number, name in enumerate(names):
            found[f"{name}_support_losses"] = outcomes.support_losses[number]
            for measure, values in outcomes.measures.items():
                found[f"{name}_task_{measure}"] = values[number]
            if outcomes.latents is not None:
                found[f"{name}_latents"] = outcomes.latents[number]
        if self.decodes is not None:
            found["decoded"] = self._decode(state).r_squared
        return found

    def adapt_set(
        self, state: MetaTraining, name: str, *, num_tasks: int | None = None
    ) -> TaskOutcomes:
        """Adapts to the tasks of one set, the same tasks at every call.

        Args:
            state: of one seed.
            name: one of the source's `sets`.
            num_tasks: how many; by default `num_measured`.
        """
        found = self.adapt_sets(state, (name,), num_tasks=num_tasks)
        return jax.tree.map(lambda array: array[0], found)

    def adapt_sets(
        self, state: MetaTraining, names: tuple[str, ...], *, num_tasks: int | None = None
    ) -> TaskOutcomes:
        """Adapts to the tasks of several sets in one program; arrays have a first axis of sets."""
        return self._outcomes(state, names, num_tasks or self.num_measured)

    def adapt(self, model: Any, support: Any, key: PRNGKeyArray) -> Adapted:
        """Adapts a trained model to the support of one task.

        The outcome's `params` are for `model.predict(params, model.read(inputs))`.
        """
        features = model.read(support.inputs)
        return self._descend(model, support, features, None, key)

    def _adapt(
        self, model: Any, world: Any, task: FewShotTask, key: PRNGKeyArray
    ) -> tuple[Adapted, Float[Array, "rows features"]]:
        """Adapts to a task; also reads its queries, in one pass with the support."""
        support, query = task.support, task.query
        if self.inner.fresh:

            def fresh(key: PRNGKeyArray) -> Any:
                return self.source.fresh(world, task.latent, key)  # pyright: ignore[reportAttributeAccessIssue]

            return self._descend(model, support, None, fresh, key), model.read(query.inputs)
        both = model.read(jnp.concatenate([support.inputs, query.inputs]))
        count = support.inputs.shape[0]
        return self._descend(model, support, both[:count], None, key), both[count:]

    def _descend(
        self, model: Any, support: Any, features: Any, fresh: Any, key: PRNGKeyArray
    ) -> Adapted:
        return descend(
            self.inner,
            self.objective,
            model,
            support,
            features,
            fresh,
            num_outputs=self.architecture.num_outputs,
            key=key,
        )

    def _measure(self, state: MetaTraining, names: tuple[str, ...]) -> Metrics:
        model = self._in_precision(state.model)

        def one(task: Any, key: PRNGKeyArray) -> Metrics:
            adapted, features = self._adapt(model, state.world, task, key)
            outputs = model.predict(adapted.params, features)
            query = task.query
            measures = self.objective.measures(outputs, query.targets, query.weights)
            return {**measures, "diverged": (~adapted.finite).astype(outputs.dtype)}

        found = self._map_tasks(one, state, names, self.num_measured)
        return {
            f"{name}_{measure}": jnp.mean(values[number])
            for number, name in enumerate(names)
            for measure, values in found.items()
        }

    def _outcomes(
        self, state: MetaTraining, names: tuple[str, ...], num_tasks: int
    ) -> TaskOutcomes:
        model = self._in_precision(state.model)

        def one(task: Any, key: PRNGKeyArray) -> TaskOutcomes:
            adapted, features = self._adapt(model, state.world, task, key)
            outputs = model.predict(adapted.params, features)
            query = task.query
            return TaskOutcomes(
                measures=self.objective.measures(outputs, query.targets, query.weights),
                adapted=flatten(adapted.params),
                latents=task.latent,
                outputs=outputs,
                query=query,
                support_losses=adapted.losses,
                finite=adapted.finite,
            )

        return self._map_tasks(one, state, names, num_tasks)

    def _map_tasks(
        self, function: Any, state: MetaTraining, names: tuple[str, ...], num_tasks: int
    ) -> Any:
        """Applies a function to every task of some sets; results have axes of sets and tasks.

        A chunk of tasks at a time, and one program for all sets: they differ in how tasks are
        drawn, not in what is done with them.
        """
        size = min(self.chunk_size, num_tasks)
        num_chunks = -(-num_tasks // size)
        draws = [functools.partial(self._draw, state.world, name, size) for name in names]

        def chunk(which: tuple[Int[Array, ""], PRNGKeyArray]) -> Any:
            number, key = which
            task_key, adapt_key = jr.split(key)
            tasks = jax.lax.switch(number, draws, task_key)
            return jax.vmap(function)(tasks, jr.split(adapt_key, size))

        def keys_of(name: str) -> PRNGKeyArray:
            known = self.source.sets.index(name)
            return jr.split(jr.fold_in(state.evaluation_key, known), num_chunks)

        numbers = jnp.repeat(jnp.arange(len(names)), num_chunks)
        keys = jnp.concatenate([keys_of(name) for name in names])
        with self._precision():
            found = jax.lax.map(chunk, (numbers, keys))

        def tidy(array: Array) -> Array:
            return array.reshape(len(names), num_chunks * size, *array.shape[2:])[:, :num_tasks]

        return jax.tree.map(tidy, found)

    def _draw(self, world: Any, name: str, num_tasks: int, key: PRNGKeyArray) -> Any:
        return self.source.sample_set(world, name, key, num_tasks)

    def _decode(self, state: MetaTraining) -> Any:
        assert self.decodes is not None
        found = self._outcomes(state, self.decodes, self.num_measured)
        if found.latents is None:
            raise ValueError("`decodes` needs tasks whose latents are known; these have none")
        adapted, latents = found.adapted, found.latents
        return decode_latents(adapted[0], latents[0], adapted[1], latents[1])

    def _precision(self) -> Any:
        if self.precision is None or self.precision == "float16":  # products of float16 are exact
            return contextlib.nullcontext()
        return jax.default_matmul_precision(self.precision)

    def _in_precision(self, model: Any) -> Any:
        if self.precision == "float16" or self.precision == "bfloat16":
            return HalfPrecision(model, self.precision)
        return model

    def _check_tasks(self, world: Any) -> None:
        def sample(world: Any) -> Any:
            return self.source.sample(world, jr.key(0), self.num_tasks)

        tasks = eqx.filter_eval_shape(sample, world)
        for part in ("support", "query"):
            width = getattr(tasks, part).inputs.shape[-1]
            if width != self.architecture.num_inputs:
                raise ValueError(
                    f"the {part} inputs of the source's tasks are {width} wide, the model expects "
                    f"{self.architecture.num_inputs}: set the architecture's `num_inputs` to "
                    f"{width}"
                )
            targets = getattr(tasks, part).targets.shape
            if len(targets) == 3 and targets[-1] != self.architecture.num_outputs:
                raise ValueError(
                    f"the {part} targets of the source's tasks are {targets[-1]} wide, the model "
                    f"gives {self.architecture.num_outputs}: set the architecture's `num_outputs` "
                    f"to {targets[-1]}"
                )
        if tasks.support.inputs.shape[1] == 0 and self.inner.num_steps and not self.inner.fresh:
            raise ValueError(
                "the source's tasks have no support rows, so there is nothing to adapt to; give "
                "support rows, or set the inner loop's `num_steps` to 0"
            )


def flatten(params: PyTree[Any]) -> Float[Array, " parameters"]:
    """Returns all numbers of a task's parameters as one vector."""
    return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(params)])
