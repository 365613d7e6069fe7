"""One learner for a whole grid of data sets: every cell has another number of training examples.

Cells are one vectorised program, so all have arrays of the same shapes. What differs is padded: a
cell learns from the first rows of its world's training set, and its validation part is filled up
with a row that weighs nothing. The numbers are those of the cell by itself.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from recombine.methods.distillation import (
    DistillationLearner,
    DistillationState,
    Objective,
    PrivilegedExamples,
    PrivilegedSplit,
    RowOrder,
    Watch,
    count_examples,
)

Metrics = dict[str, Float[Array, ""]]
WATCHES = (Watch("test_accuracy"), Watch("selection_accuracy", name="chosen"))


class WeightedLabels(eqx.Module):
    """An objective whose labels are pairs of a label and how much the example counts."""

    objective: Objective

    def loss(self, prediction: Any, label: Any) -> Float[Array, ""]:
        """Returns the weighted loss of one example."""
        true, weight = label
        return weight * self.objective.loss(prediction, true)

    def measures(self, prediction: Any, label: Any) -> Metrics:
        """Returns what the objective does, of an example without weight."""
        return self.objective.measures(prediction, label)


class Sizes(NamedTuple):
    """How many examples each cell of a world has."""

    rows: Int[Array, " sizes"]
    held: Int[Array, " sizes"]
    """The validation part of them."""


class SizesState(NamedTuple):
    """The state of one seed."""

    data: PrivilegedSplit
    """With a leading axis of worlds; a last training row is padding."""
    cells: DistillationState
    """With leading axes of worlds and sizes, and without data."""
    diverged: Bool[Array, "worlds sizes"]


class SizesLearner(eqx.Module):
    """Trains the learner in it on every cell of worlds and training sizes.

    All cells of a world share its data: a larger training set contains the smaller ones. A cell
    that stops being finite is held where it was before, and counted in `diverged`.

    Every iteration has a new order of the training part. `best_*` is the highest test accuracy of a
    run, as the thesis reports it; `chosen_*` is the test accuracy at the moment that examples kept
    for selection were predicted best.
    """

    learner: DistillationLearner
    """Of one cell; its `objective` takes weighted labels, its source and batches are not used."""
    sizes: Sizes
    worlds: Int[Array, " worlds"]
    """What tells them apart: a dimension, or the number of a trial."""
    teaching_weights: Float[Array, " worlds"] | None = None
    """Of the trials, by their numbers; None: that of the learner."""
    sample: Callable[[PRNGKeyArray, Int[Array, ""]], PrivilegedSplit] = eqx.field(
        static=True, kw_only=True
    )
    """Draws the data of a world, as many training rows as the largest size has."""
    adjust: Callable[[Any, Int[Array, ""]], Any] | None = eqx.field(static=True, default=None)
    """Fits a new student to its world."""
    most_held: int = eqx.field(static=True, default=0)
    resample: bool = eqx.field(static=True, default=False)
    """Whether the validation part is drawn anew in every iteration."""
    whole_passes: bool = eqx.field(static=True, default=False)
    """Whether an iteration has one pass over the training part, not so many student steps."""
    iterations: int = eqx.field(static=True, default=1)
    """How many are one step, after which all cells are measured."""
    best_of_worlds: bool = eqx.field(static=True, default=False)
    """Whether worlds are trials, of which each size reports the best."""
    names: tuple[str, ...] = eqx.field(static=True, default=())
    """Of all cells that are reported, world by world."""
    judged: tuple[int, ...] = eqx.field(static=True, default=())
    """The cells whose mean is reported as `accuracy`; none: all."""

    def init(self, key: PRNGKeyArray) -> SizesState:
        """Draws the data of every world, and student, teacher and validation part of each cell."""
        data_key, cells_key = jr.split(key)
        num_worlds, num_sizes = len(self.worlds), len(self.sizes.rows)
        data = jax.vmap(self.sample)(jr.split(data_key, num_worlds), self.worlds)
        data = data._replace(train=jax.vmap(_with_padding)(data.train))
        cells = self._over_cells(
            self._start, data, self.worlds, jr.split(cells_key, (num_worlds, num_sizes))
        )
        return SizesState(data, cells, jnp.zeros((num_worlds, num_sizes), bool))

    def step(self, state: SizesState, key: PRNGKeyArray) -> tuple[SizesState, Metrics]:
        """Makes one iteration or several in every cell, then measures all."""

        def one(carry: Any, key: PRNGKeyArray) -> tuple[Any, Metrics]:
            cells, diverged = carry
            keys = jr.split(key, diverged.shape)
            cells = eqx.combine(cells, static)
            cells, diverged, loss = self._over_cells(
                self._iterate, state.data, self.worlds, keys, cells, diverged
            )
            return (eqx.filter(cells, eqx.is_array), diverged), {"loss": jnp.nanmean(loss)}

        arrays, static = eqx.partition(state.cells, eqx.is_array)
        carry = (arrays, state.diverged)
        carry, metrics = jax.lax.scan(one, carry, jr.split(key, self.iterations))
        cells, diverged = eqx.combine(carry[0], static), carry[1]
        cells = self._over_cells(self._watch, state.data, self.worlds, diverged, cells)
        share = jnp.mean(diverged.astype(jnp.float32))
        loss = jnp.where(share < 1, jnp.mean(metrics["loss"]), jnp.nan)
        return state._replace(cells=cells, diverged=diverged), {"loss": loss, "diverged": share}

    def evaluate(self, state: SizesState, key: PRNGKeyArray) -> Metrics:
        """Returns the accuracies of all cells, and their means."""
        del key
        best, chosen = self._accuracies(state)
        cells = jnp.asarray(self.judged or range(best.size))
        metrics = {
            "accuracy": jnp.mean(best.reshape(-1)[cells]),
            "chosen_accuracy": jnp.mean(chosen.reshape(-1)[cells]),
            "share_diverged": jnp.mean(state.diverged.astype(jnp.float32)),
        }
        for number, name in enumerate(self.names):
            metrics[f"best_accuracy/{name}"] = best.reshape(-1)[number]
            metrics[f"chosen_accuracy/{name}"] = chosen.reshape(-1)[number]
        return metrics

    def inspect(self, state: SizesState, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns the accuracies as a grid, and what the teachers attend to, if anything."""
        del key
        best, chosen = self._accuracies(state)
        shown = {
            "worlds": self.worlds,
            "sizes": self.sizes.rows,
            "best_accuracy": best,
            "chosen_accuracy": chosen,
        }
        # Of several trials the one that is best at the largest size.
        trial = jnp.argmax(state.cells.best[0]["test_accuracy"][:, -1])
        if hasattr(state.cells.teacher, "logits"):
            shown["attention"] = jax.nn.softmax(state.cells.teacher.logits[trial], axis=1)
        if state.data.hint is not None:
            shown["order"] = state.data.hint[trial]
        return shown

    def _accuracies(
        self, state: SizesState
    ) -> tuple[Float[Array, "worlds sizes"], Float[Array, "worlds sizes"]]:
        """Returns the best and the honestly chosen test accuracy of what is reported."""
        best, chosen = state.cells.best
        if not self.best_of_worlds:
            return best["test_accuracy"], chosen["test_accuracy"]
        trials = jnp.argmax(chosen["selection_accuracy"], axis=0)[None]
        return (
            jnp.max(best["test_accuracy"], axis=0, keepdims=True),
            jnp.take_along_axis(chosen["test_accuracy"], trials, axis=0),
        )

    def _start(
        self,
        data: PrivilegedSplit,
        world: Int[Array, ""],
        sizes: Sizes,
        key: PRNGKeyArray,
    ) -> DistillationState:
        student_key, teacher_key, held_key = jr.split(key, 3)
        learner, trains = self.learner, self.learner.teacher_training
        student, teacher = learner.student(student_key), None
        if self.adjust is not None:
            student = self.adjust(student, world)
        if learner.teacher is not None:
            hint = {"hint": data.hint} if learner.tells_teacher else {}
            teacher = learner.teacher(teacher_key, **hint)
        num_rows = count_examples(data.train)
        state = DistillationState(
            student=student,
            optimizer=learner.optimizer.transformation().init(_floats(student)),
            teacher=teacher,
            teacher_optimizer=trains and trains.optimizer.transformation().init(_floats(teacher)),
            drawn=None,
            privileged=None,
            order=RowOrder(
                self._hold(sizes, num_rows, held_key), jnp.arange(num_rows), jnp.int32(0)
            ),
            iteration=jnp.int32(0),
            best=(),
        )
        metrics = self._measure(student, data)
        return state._replace(best=tuple(watch.start(metrics) for watch in WATCHES))

    def _iterate(
        self,
        data: PrivilegedSplit,
        world: Int[Array, ""],
        sizes: Sizes,
        key: PRNGKeyArray,
        before: DistillationState,
        diverged: Bool[Array, ""],
    ) -> tuple[DistillationState, Bool[Array, ""], Float[Array, ""]]:
        learner, num_rows = self.learner, count_examples(data.train)
        if self.teaching_weights is not None:
            learner = replace(learner, teaching_weight=self.teaching_weights[world])
        held_key, order_key = jr.split(key)
        held = before.order.validation
        if self.resample and self.most_held:
            held = self._hold(sizes, num_rows, held_key)
        is_held = jnp.zeros(num_rows, bool).at[held].set(True)
        is_learned = (jnp.arange(num_rows) < sizes.rows) & ~is_held
        state = before._replace(
            order=RowOrder(held, _shuffled(order_key, is_learned), jnp.int32(0)),
            iteration=before.iteration + 1,
            drawn=data._replace(train=self._weighted(data.train, sizes, is_held)),
        )
        num_batches = (sizes.rows - sizes.held) // learner.batches.batch_size
        meta_loss = jnp.zeros(())
        if learner.teacher_training is not None:
            rows = self._rows(state, num_batches, learner.teacher_training.inner_steps)
            state, metrics = learner.update_teacher(state, rows)
            meta_loss = metrics["meta_loss"]
        if self.whole_passes:
            drawn = state.drawn  # beside the loop: what a loop carries is copied for every cell

            def one(number: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
                rows = self._rows(carry[0], num_batches, 1, first=number)
                state, metrics = learner.update_student(carry[0]._replace(drawn=drawn), rows)
                return state._replace(drawn=None), metrics["loss"]

            carry = (state._replace(drawn=None), jnp.zeros(()))
            state, loss = jax.lax.fori_loop(0, num_batches, one, carry)
        else:
            rows = self._rows(state, num_batches, learner.student_steps)
            state, metrics = learner.update_student(state, rows)
            loss = metrics["loss"]
        loss = jnp.where(jnp.isfinite(meta_loss), loss, jnp.nan)
        after = state._replace(drawn=None)
        diverged = diverged | ~(_is_finite((after.student, after.teacher)) & jnp.isfinite(loss))

        def kept(old: Any, new: Any) -> Any:
            return jnp.where(diverged, old, new) if eqx.is_array(new) else new

        return jax.tree.map(kept, before, after), diverged, jnp.where(diverged, jnp.nan, loss)

    def _watch(
        self,
        data: PrivilegedSplit,
        world: Int[Array, ""],
        sizes: Sizes,
        diverged: Bool[Array, ""],
        cell: DistillationState,
    ) -> DistillationState:
        del world, sizes, diverged
        metrics = self._measure(cell.student, data)
        now = cell.iteration.astype(jnp.float32)
        best = tuple(
            watch.update(before, metrics, now)
            for watch, before in zip(WATCHES, cell.best, strict=True)
        )
        return cell._replace(best=best)

    def _measure(self, student: Any, data: PrivilegedSplit) -> Metrics:
        def accuracy(examples: PrivilegedExamples) -> Float[Array, ""]:
            def one(pair: tuple[Any, Any]) -> Float[Array, ""]:
                measures = self.learner.objective.measures(student(pair[0])[0], pair[1])
                return measures["accuracy"]

            together = min(self.learner.measured_together, count_examples(examples, "measured"))
            pairs = (examples.inputs, examples.labels)
            return jnp.mean(jax.lax.map(one, pairs, batch_size=together))

        assert data.selection is not None
        return {
            "test_accuracy": accuracy(data.test),
            "selection_accuracy": accuracy(data.selection),
        }

    def _rows(
        self, state: DistillationState, num_batches: Int[Array, ""], count: int, first: Any = 0
    ) -> Int[Array, "{count} batch"]:
        """Returns rows of the next batches of the order, from its beginning where it ends."""
        size = self.learner.batches.batch_size
        chosen = (first + jnp.arange(count)) % num_batches
        return state.order.train[chosen[:, None] * size + jnp.arange(size)[None, :]]

    def _hold(self, sizes: Sizes, num_rows: int, key: PRNGKeyArray) -> Int[Array, " held"]:
        """Draws a validation part, filled up with the row of padding."""
        order = _shuffled(key, jnp.arange(num_rows) < sizes.rows)[: self.most_held]
        return jnp.where(jnp.arange(self.most_held) < sizes.held, order, num_rows - 1)

    def _weighted(
        self, train: PrivilegedExamples, sizes: Sizes, is_held: Bool[Array, " rows"]
    ) -> PrivilegedExamples:
        """Weighs the validation part so that its padded mean is the mean without padding."""
        of_held = self.most_held / jnp.maximum(sizes.held, 1)
        weights = jnp.where(is_held, of_held, 1.0).at[-1].set(0.0)
        return train._replace(labels=(train.labels, weights))

    def _over_cells(self, function: Any, data: Any, worlds: Any, *of_cells: Any) -> Any:
        """Calls a function of data, world, sizes and what belongs to a cell, for all cells."""

        def of_world(data: Any, world: Any, of_world: Any) -> Any:
            def of_size(sizes: Any, of_cell: Any) -> Any:
                return function(data, world, sizes, *of_cell)

            return eqx.filter_vmap(of_size)(self.sizes, of_world)

        return eqx.filter_vmap(of_world)(data, worlds, of_cells)


def _with_padding(train: PrivilegedExamples) -> PrivilegedExamples:
    return jax.tree.map(lambda x: jnp.concatenate([x, jnp.zeros_like(x[:1])]), train)


def _shuffled(key: PRNGKeyArray, is_wanted: Bool[Array, " rows"]) -> Int[Array, " rows"]:
    """Returns all rows, those that are wanted first and in random order."""
    return jnp.argsort(jnp.where(is_wanted, jr.uniform(key, is_wanted.shape), 2.0))


def _floats(module: Any) -> Any:
    return eqx.filter(module, eqx.is_inexact_array)


def _is_finite(modules: Any) -> Bool[Array, ""]:
    leaves = jax.tree.leaves(_floats(modules))
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))
