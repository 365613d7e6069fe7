"""A `DistillationLearner` on data that come without a test set, and the baselines beside it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recombine.estimators._privileged_models import with_auxiliary
from recombine.methods.distillation import (
    Adam,
    Batches,
    ClassLabels,
    Copy,
    DistillationLearner,
    DistillationState,
    Given,
    NumberLabels,
    PrivilegedExamples,
    PrivilegedSplit,
    Ready,
    SquaredError,
    TeacherTraining,
    Validation,
    take,
)

Metrics = dict[str, Float[Array, ""]]

PrivilegedMethod = Literal["teacher", "auxiliary", "none"]
"""What an estimator makes of privileged data: a teacher that learns what to teach, an auxiliary
task, or nothing."""

CURVES = ("loss", "label_loss", "teaching_loss", "meta_loss")
MEASURED_ROWS = 2048
"""At most so many rows are looked at for the training curves."""

AUXILIARY_WEIGHT = 1.0
"""Of the auxiliary task beside the labels; the published search had 1, 2 and 4."""

DECAY_OF_MEAN = 0.5
"""The first moment of Adam, of student and teacher; that of the published toy tasks."""

L2 = 1e-6

ROUNDING = 1e-6
"""A feature that varies less, in units of its deviation over all rows, is a constant."""


class SplitState(NamedTuple):
    """The state of one seed."""

    training: DistillationState
    kept: Int[Array, " kept"]  # rows that are learned from
    held_out: Int[Array, " held_out"]  # rows that are only measured


class OwnPrivilegedLearner(eqx.Module):
    """Trains as its `DistillationLearner` does, without the rows that a seed holds out.

    Every seed draws its own rows. The held-out part may be empty. If not, all features are
    standardized once more, by the rows that are learned from: those that judge have no part in it.
    """

    trained: DistillationLearner
    num_held_out: int = eqx.field(static=True, default=0)

    def init(self, key: PRNGKeyArray) -> SplitState:
        """Draws the rows that are held out, student, teacher and validation part."""
        split_key, init_key = jr.split(key)
        rows = jnp.arange(len(self._all.labels))
        if self.num_held_out:
            rows = jr.permutation(split_key, rows)
        held_out, kept = rows[: self.num_held_out], rows[self.num_held_out :]
        return SplitState(self._learner(kept).init(init_key), kept, held_out)

    def step(self, state: SplitState, key: PRNGKeyArray) -> tuple[SplitState, Metrics]:
        """Makes one iteration."""
        training, metrics = self._learner(state.kept).step(state.training, key)
        shown = {name: metrics[name] for name in CURVES if name in metrics}
        return state._replace(training=training), shown

    def evaluate(self, state: SplitState, key: PRNGKeyArray) -> Metrics:
        """Returns the measures of the objective on training rows, and the held-out score."""
        del key
        student = state.training.student
        rows = self._rows(state.kept)
        some = take(rows, state.kept[:MEASURED_ROWS])
        metrics = jax.tree.map(jnp.mean, self._measures(student, some))
        del metrics["loss"]  # the step's loss has the name
        if self.num_held_out:
            metrics["held_out_score"] = self._score(student, take(rows, state.held_out))
        return metrics

    @property
    def _all(self) -> PrivilegedExamples:
        return self.trained.source.split(None).train

    def _learner(self, kept: Int[Array, " kept"]) -> DistillationLearner:
        if not self.num_held_out:
            return self.trained
        examples = take(self._rows(kept), kept)
        return replace(self.trained, source=Given(PrivilegedSplit(examples, examples)))

    def _rows(self, kept: Int[Array, " kept"]) -> PrivilegedExamples:
        """Returns all rows, standardized by those that are learned from."""
        rows = self._all
        if not self.num_held_out:
            return rows
        labels = rows.labels
        if isinstance(self.trained.objective, NumberLabels):
            labels = _standardize_by(kept, labels[:, None])[:, 0]
        known = rows.privileged
        return PrivilegedExamples(
            _standardize_by(kept, rows.inputs),
            None if known is None else _standardize_by(kept, known),
            labels,
        )

    def _measures(self, student: Any, examples: PrivilegedExamples) -> Metrics:
        predictions = jax.vmap(lambda x: student(x)[0])(examples.inputs)
        return jax.vmap(self.trained.objective.measures)(predictions, examples.labels)

    def _score(self, student: Any, examples: PrivilegedExamples) -> Float[Array, ""]:
        """Returns the accuracy, or R² for numbers."""
        measures = self._measures(student, examples)
        if "accuracy" in measures:
            return jnp.mean(measures["accuracy"])
        return 1 - jnp.mean(measures["squared_error"]) / jnp.var(examples.labels)


def _standardize_by(
    kept: Int[Array, " kept"], array: Float[Array, "rows *steps features"]
) -> Float[Array, "rows *steps features"]:
    """Brings every feature to mean 0 and deviation 1 over some rows; a constant is only shifted."""
    some, axes = array[kept], tuple(range(array.ndim - 1))
    mean, deviation = (f(some, axis=axes, keepdims=True) for f in (jnp.mean, jnp.std))
    is_constant = deviation <= ROUNDING * (1 + jnp.abs(mean))
    return (array - mean) / jnp.where(is_constant, 1.0, deviation)


@dataclass(frozen=True)
class PrivilegedTraining:
    """How students and teachers are made and trained; every method uses the same student."""

    student: Callable[[PRNGKeyArray], Any]
    objective: ClassLabels | NumberLabels
    num_offered: int
    teacher: Callable[[PRNGKeyArray], Any] | None  # None: there are no privileged data
    learning_rate: float
    teacher_learning_rate: float
    teaching_weight: float
    inner_steps: int
    student_steps: int | None
    batch_size: int
    validation: Validation

    def make(
        self, method: str, examples: PrivilegedExamples, num_held_out: int = 0
    ) -> OwnPrivilegedLearner:
        """Makes the learner of a method.

        Student steps are counted alike for all methods: an iteration has as many as one pass over
        what a taught student learns from takes, if nothing else was asked for.
        """
        num_rows = len(examples.labels) - num_held_out
        batch_size = self.batch_size if method == "teacher" else min(self.batch_size, num_rows)
        left = num_rows - self.validation.count(num_rows)
        shared: dict[str, Any] = {
            "source": Given(PrivilegedSplit(examples, examples)),
            "objective": self.objective,
            "optimizer": Adam(self.learning_rate, b1=DECAY_OF_MEAN, l2=L2),  # pyright: ignore[reportArgumentType]
            "student_steps": self.student_steps or max(left // batch_size, 1),
        }
        if method == "teacher":
            batches = Batches(batch_size, self.validation)
            batches.check(num_rows)
            learner = DistillationLearner(
                student=self.student,
                teacher=self.teacher,
                teaching_loss=SquaredError(),
                teaching_weight=self.teaching_weight,  # pyright: ignore[reportArgumentType]
                teacher_training=TeacherTraining(
                    Adam(self.teacher_learning_rate, b1=DECAY_OF_MEAN),  # pyright: ignore[reportArgumentType]
                    inner_steps=self.inner_steps,
                    keep="everything",
                ),
                batches=batches,
                **shared,
            )
        elif method == "auxiliary":
            num_privileged = examples.privileged[0].size  # pyright: ignore[reportOptionalSubscript]
            learner = DistillationLearner(
                student=with_auxiliary(self.student, self.num_offered, num_privileged),
                teacher=Ready(Copy()),
                teaching_loss=SquaredError(),
                teaching_weight=AUXILIARY_WEIGHT,  # pyright: ignore[reportArgumentType]
                batches=Batches(batch_size),
                **shared,
            )
        else:
            learner = DistillationLearner(
                student=self.student, batches=Batches(batch_size), **shared
            )
        return OwnPrivilegedLearner(learner, num_held_out)
