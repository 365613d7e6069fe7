"""Learning to distill: a teacher that learns what a student should take from privileged data.

An iteration looks ahead from the student's weights, moves the teacher so that a student that is
taught by it would do better on the validation part, forgets that student, and takes real student
steps with the new teacher (Neitz, thesis, §4.3.4). The algorithm box of the thesis is missing from
its text; the order of things here is the one that its words and the released toy tasks agree on.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recombine.methods._numbers import number
from recombine.methods.adaptation import adapt, raise_if_diverged
from recombine.methods.distillation._batches import Batches, RowOrder
from recombine.methods.distillation._checking import check_data, check_modules
from recombine.methods.distillation._data import (
    Given,
    PrivilegedExamples,
    PrivilegedSplit,
    Source,
    count_examples,
    take,
)
from recombine.methods.distillation._inspecting import show_teaching
from recombine.methods.distillation._interface import (
    Objective,
    Optimizer,
    TeachingLoss,
    ask,
    targets_of,
)
from recombine.methods.distillation._measuring import measure_parts
from recombine.methods.distillation._meta_gradient import (
    Lesson,
    TeacherTraining,
    inner_loop,
    meta_gradient,
    sanitize,
)
from recombine.methods.distillation._state import DistillationState, count_floats, floats_of
from recombine.methods.distillation._watching import Metrics, Watch


class DistillationLearner(eqx.Module):
    """A student, a teacher, and how they learn; baselines are settings.

    | what | settings |
    |---|---|
    | learning to distill | `teacher`, `teaching_loss`, `teacher_training`, a validation part |
    | no teacher | `teacher=None` |
    | fixed teacher, or an oracle | `teacher_training=None` |
    | auxiliary task | a student with an auxiliary head, `teacher=Ready(Copy())`, fixed |
    | untrained teacher (FT) | fixed, with the validation part still split off |
    | permuted, noisy frames (PT, RT-n) | `view=PermutedFrames()`, `view=NoisyFrames(n)` |
    | resampled validation (AR) | `Validation(resample=True)` |

    Without a validation part a student learns from all training examples. Numbers that only scale
    are array leaves: one program serves all their values, and `GridLearner` many values at once.

    Metrics are means of the objective's measures: `test_*`, `train_*` (of what the student learns
    from), `validation_*`, `selection_*`, and `gap_*`, test less train. Step metrics: `meta_loss` is
    the label loss on the validation part after the inner loop; where the loop diverges it is not a
    number, and `fit` stops (`check_inner_loop` says more).

    Example:
        >>> import jax.numpy as jnp
        >>> from dataclasses import replace
        >>> from recombine.methods import distillation as ldt
        >>> known = ldt.PrivilegedExamples(jnp.zeros((40, 3)), jnp.zeros((40, 5)), jnp.zeros(40))
        >>> new = ldt.PrivilegedExamples(jnp.ones((10, 3)), None, jnp.zeros(10))
        >>> learner = DistillationLearner(
        ...     source=ldt.Given(ldt.PrivilegedSplit(known, new)),
        ...     student=ldt.MLPStudentShape(3, 1, hidden=(16,)),
        ...     objective=ldt.BinaryLabels(),
        ...     optimizer=ldt.Adam(1e-3),
        ...     teacher=ldt.MLPTeacherShape(5, 2 * 16),
        ...     teaching_loss=ldt.GatedSquaredError(),
        ...     teacher_training=ldt.TeacherTraining(ldt.Adam(5e-4), ldt.Momentum(1e-2)),
        ...     batches=ldt.Batches(8, ldt.Validation(0.3)),
        ... )
        >>> untaught = replace(
        ...     learner, teacher=None, teacher_training=None, batches=ldt.Batches(8)
        ... )

        Both go into `recombine.training.fit`; a student never sees the privileged side.
    """

    source: Source
    student: Callable[[PRNGKeyArray], Any]
    """Makes a `Student` from a key."""
    objective: Objective
    optimizer: Optimizer
    """Of the student."""
    teacher: Callable[..., Any] | None = None
    """Makes a `Teacher` from a key; None: the student learns from labels alone."""
    teaching_loss: TeachingLoss | None = None
    teaching_weight: Float[Array, ""] = eqx.field(converter=number, default=1.0)
    """α, the teaching coefficient."""
    teacher_training: TeacherTraining | None = None
    """None: the teacher stays as it was made."""
    batches: Batches = eqx.field(static=True, default=Batches())
    student_steps: int = eqx.field(static=True, default=24)
    """Real steps of the student in an iteration."""
    view: Callable[[Any, PRNGKeyArray], Any] | None = eqx.field(static=True, default=None)
    """Makes the privileged data worse, once for every seed."""
    tells_teacher: bool = eqx.field(static=True, default=False)
    """Whether the maker of the teacher is also given the data's `hint`, as an oracle's is."""
    iterations: int = eqx.field(static=True, default=1)
    """How many are one step of the learner; what is watched is measured after each step."""
    watches: tuple[Watch, ...] = eqx.field(static=True, default=())
    measured_together: int = eqx.field(static=True, default=4096)
    """So many examples are measured at a time, to save memory."""
    num_inspected: int = eqx.field(static=True, default=64)
    precision: str | None = eqx.field(static=True, default=None)
    """Of matrix products, as `jax.default_matmul_precision` names them; None is the device's."""
    vectorize_seeds: bool = eqx.field(static=True, default=True)
    """Whether the seeds of a run may share one program on an accelerator."""
    compiler_options: tuple[tuple[str, Any], ...] = eqx.field(static=True, default=())
    """XLA's options and their values, for the programs of `fit`."""

    def __check_init__(self) -> None:
        for name in ("student_steps", "iterations", "measured_together"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1; got {getattr(self, name)}")
        if self.teacher is None and self.teacher_training is not None:
            raise ValueError("`teacher_training` needs a `teacher` to train")
        if self.teacher is not None and self.teaching_loss is None:
            raise ValueError(
                "a `teacher` needs a `teaching_loss`, for example `SquaredError()`, to compare the "
                "student's activations with its targets"
            )
        if self.teacher_training is not None and self.batches.validation is None:
            raise ValueError(
                "a teacher is trained on examples that its student does not learn from: give "
                "`Batches` a `Validation`, or set `teacher_training=None` for a fixed teacher"
            )
        if isinstance(self.source, Given):
            self._check_data(self.source.data)

    @property
    def lesson(self) -> Lesson:
        """What the student is trained on."""
        return Lesson(self.objective, self.teaching_loss, self.teaching_weight)

    def init(self, key: PRNGKeyArray) -> DistillationState:
        """Draws the data, if they are to be drawn, student, teacher and validation part."""
        data_key, student_key, teacher_key, order_key, view_key = jr.split(key, 5)
        drawn = self.source.draw(data_key)
        split = self.source.split(drawn)
        self._check_data(split)
        student = self.student(student_key)
        teacher = None
        if self.teacher is not None:
            hint = {"hint": split.hint} if self.tells_teacher else {}
            teacher = self.teacher(teacher_key, **hint)
        learns = self.teacher_training is not None
        check_modules(student, teacher, split, self.lesson, learns=learns)
        privileged = None
        if self.view is not None and split.train.privileged is not None:
            privileged = self.view(split.train.privileged, view_key)
        trains = self.teacher_training
        state = DistillationState(
            student=student,
            optimizer=self.optimizer.transformation().init(floats_of(student)),
            teacher=teacher,
            teacher_optimizer=trains and trains.optimizer.transformation().init(floats_of(teacher)),
            drawn=drawn,
            privileged=privileged,
            order=self.batches.init(count_examples(split.train), order_key),
            iteration=jnp.int32(0),
            best=(),
        )
        if self.watches:
            metrics = self._measure(state)
            state = state._replace(best=tuple(watch.start(metrics) for watch in self.watches))
        return state

    def step(
        self, state: DistillationState, key: PRNGKeyArray
    ) -> tuple[DistillationState, Metrics]:
        """Makes one iteration or several; the metrics are means over them."""
        with self._precision():
            if self.iterations == 1:
                state, metrics = self._iterate(state, key)
            else:
                arrays, static = eqx.partition(state, eqx.is_array)

                def one(arrays: Any, key: PRNGKeyArray) -> tuple[Any, Metrics]:
                    state, metrics = self._iterate(eqx.combine(arrays, static), key)
                    return eqx.filter(state, eqx.is_array), metrics

                keys = jr.split(key, self.iterations)
                arrays, metrics = jax.lax.scan(one, arrays, keys)
                state = eqx.combine(arrays, static)
                metrics = jax.tree.map(jnp.mean, metrics)
            if self.watches:
                now = self._measure(state)
                moment = state.iteration.astype(jnp.result_type(float))
                best = tuple(
                    watch.update(before, now, moment)
                    for watch, before in zip(self.watches, state.best, strict=True)
                )
                state = state._replace(best=best)
        return state, metrics

    def evaluate(self, state: DistillationState, key: PRNGKeyArray) -> Metrics:
        """Measures the student on all parts of the data; with what the watches remember."""
        del key
        with self._precision():
            metrics = self._measure(state)
        for watch, best in zip(self.watches, state.best, strict=True):
            metrics = metrics | watch.named(best)
        return metrics

    def final(self, state: DistillationState, key: PRNGKeyArray) -> Metrics:
        """Returns the sizes of student and teacher; everything else was measured on the way."""
        del key
        return {
            "student_parameters": jnp.float32(count_floats(state.student)),
            "teacher_parameters": jnp.float32(count_floats(state.teacher)),
        }

    def inspect(self, state: DistillationState, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns predictions on some test examples, and what the teacher attends to.

        `gates` are the mean openings for all units, in the order of `layer_sizes`; `attention` is
        what a teacher has under that name.
        """
        del key
        split = self.source.split(state.drawn)
        some = jnp.arange(min(self.num_inspected, count_examples(split.test)))
        prediction = ask(state.student, take(split.test.inputs, some)).prediction
        shown: dict[str, Array] = {}
        if eqx.is_array(prediction):
            shown["predictions"] = prediction
        if state.teacher is None:
            return shown
        examples = self._examples(state, state.order.train[: self.num_inspected])
        return shown | show_teaching(state.student, state.teacher, self.teaching_loss, examples)

    def update_teacher(
        self, state: DistillationState, rows: Int[Array, "inner_steps batch"]
    ) -> tuple[DistillationState, Metrics]:
        """Takes one meta-step; the student and its optimizer stay as they are.

        Args:
            state: of one seed.
            rows: training rows of the batches of the inner loop.
        """
        trains = self._trains()
        validation = self._examples(state, state.order.validation)._replace(privileged=None)
        found = meta_gradient(
            state.teacher,
            state.student,
            self._examples(state, rows),
            validation,
            lesson=self.lesson,
            training=trains,
            **self._inner_optimizer(state),
        )
        clean = sanitize(found.grads, trains.clip)
        learned = floats_of(state.teacher)
        updates, optimizer = trains.optimizer.transformation().update(
            clean.grads, state.teacher_optimizer, learned
        )
        new = (eqx.apply_updates(state.teacher, updates), optimizer)
        metrics = {
            "meta_loss": jnp.where(found.inner.finite, found.loss, jnp.nan),
            "inner_loss": found.inner.losses[-1],
            "meta_gradient_norm": optax.tree.norm(clean.grads),
            "clipped": clean.clipped.astype(jnp.float32),
            "replaced": clean.replaced.astype(jnp.float32),
        }
        if not trains.skips_runaways:
            return state._replace(teacher=new[0], teacher_optimizer=new[1]), metrics
        is_sound = jnp.isfinite(metrics["meta_loss"] + metrics["meta_gradient_norm"])
        if trains.longest_meta_gradient is not None:
            is_sound &= metrics["meta_gradient_norm"] <= trains.longest_meta_gradient
        # Of a step that is left out: the losses of the student as it stands, and no gradient.
        instead = jax.tree.map(jnp.zeros_like, metrics) | {
            "meta_loss": self.lesson.label_loss(state.student, validation),
            "inner_loss": found.inner.losses[0],
        }
        metrics = {name: jnp.where(is_sound, metrics[name], instead[name]) for name in metrics}
        metrics["runaways"] = 1 - is_sound.astype(jnp.float32)
        teacher, optimizer = jax.tree.map(
            lambda new, old: jnp.where(is_sound, new, old) if eqx.is_array(new) else new,
            new,
            (state.teacher, state.teacher_optimizer),
        )
        return state._replace(teacher=teacher, teacher_optimizer=optimizer), metrics

    def update_student(
        self, state: DistillationState, rows: Int[Array, "student_steps batch"]
    ) -> tuple[DistillationState, Metrics]:
        """Takes real student steps; the teacher stays as it is.

        Args:
            state: of one seed.
            rows: training rows of the batches of the steps.
        """
        examples = self._examples(state, rows)
        targets = None
        if state.teacher is not None:
            targets = jax.vmap(lambda part: targets_of(state.teacher, part))(examples.privileged)
        batches = (examples._replace(privileged=None), targets)
        lesson = self.lesson
        taught = adapt(
            lambda student, batch: lesson.loss(student, *batch),
            state.student,
            self.optimizer.transformation(),
            batches=batches,
            opt_state=state.optimizer,
            keep="everything",
        )
        last = jax.tree.map(lambda x: x[-1], batches)
        label, teaching = lesson.losses(taught.params, *last)
        metrics = {"loss": jnp.mean(taught.losses), "label_loss": label}
        if state.teacher is not None:
            metrics["teaching_loss"] = teaching
        return state._replace(student=taught.params, optimizer=taught.opt_state), metrics

    def check_inner_loop(self, state: DistillationState, key: PRNGKeyArray) -> None:
        """Raises `DivergedError`, with what to do, if the next inner loop would run away.

        For use outside of `jit`: before a long run, or after `fit` has stopped.
        """
        trains = self._trains()

        @eqx.filter_jit
        def look(learner: "DistillationLearner", state: DistillationState) -> Any:
            with learner._precision():
                _, rows = learner._next_rows(state, key)
                return inner_loop(
                    state.teacher,
                    state.student,
                    learner._examples(state, rows[: trains.inner_steps]),
                    lesson=learner.lesson,
                    training=learner._trains(),
                    **learner._inner_optimizer(state),
                )

        of_loop = self.optimizer if trains.inner is None else trains.inner
        rate = getattr(of_loop, "learning_rate", None)
        raise_if_diverged(look(self, state), learning_rate=None if rate is None else float(rate))

    def _iterate(
        self, state: DistillationState, key: PRNGKeyArray
    ) -> tuple[DistillationState, Metrics]:
        order, rows = self._next_rows(state, key)
        state = state._replace(order=order, iteration=state.iteration + 1)
        metrics: Metrics = {}
        if self.teacher_training is not None:
            state, metrics = self.update_teacher(state, rows[: self.teacher_training.inner_steps])
        state, of_student = self.update_student(state, rows[: self.student_steps])
        return state, of_student | metrics

    def _next_rows(
        self, state: DistillationState, key: PRNGKeyArray
    ) -> tuple[RowOrder, Int[Array, "batches batch"]]:
        inner_steps = self.teacher_training.inner_steps if self.teacher_training else 0
        wanted = max(self.student_steps, inner_steps)
        return self.batches.next(state.order, self.student_steps, wanted, key)

    def _inner_optimizer(self, state: DistillationState) -> dict[str, Any]:
        trains = self._trains()
        if trains.inner is None:
            return {"optimizer": self.optimizer.transformation(), "opt_state": state.optimizer}
        return {"optimizer": trains.inner.transformation(), "opt_state": None}

    def _trains(self) -> TeacherTraining:
        if self.teacher_training is None:
            raise ValueError("this learner has no `teacher_training`: its teacher is fixed")
        return self.teacher_training

    def _examples(
        self, state: DistillationState, rows: Int[Array, " *shape"]
    ) -> PrivilegedExamples:
        train = self.source.split(state.drawn).train
        if self.teacher is None:
            train = train._replace(privileged=None)
        elif state.privileged is not None:
            train = train._replace(privileged=state.privileged)
        return take(train, rows)

    def _measure(self, state: DistillationState) -> Metrics:
        return measure_parts(
            state.student,
            self.objective,
            self.source.split(state.drawn),
            state.order,
            together=self.measured_together,
        )

    def _check_data(self, split: PrivilegedSplit) -> None:
        check_data(split, self.batches, has_teacher=self.teacher is not None)

    def _precision(self) -> Any:
        if self.precision is None:
            return contextlib.nullcontext()
        return jax.default_matmul_precision(self.precision)
