"""What distillation needs from a student, a teacher, a loss and an optimizer.

Modules act on one example. Students are called independently for every example; teachers under a
`vmap` whose axis is called `BATCH_AXIS`, so that a layer of theirs may use the statistics of the
batch (and never those of another batch).
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import optax
from jaxtyping import Array, Float, PyTree

BATCH_AXIS = "batch"
"""The name of the axis along which a teacher sees the other examples of its batch."""


class Answer(NamedTuple):
    """What a student makes of one example."""

    prediction: Any
    activations: PyTree[Float[Array, "..."]]
    """What it offers to be taught: usually pre-activations of its hidden layers."""


@runtime_checkable
class Student(Protocol):
    """Predicts from the inputs alone; an `equinox.Module`, trained in all its float arrays."""

    def __call__(self, inputs: Any, /) -> Any:
        """Returns an `Answer`, or any pair of prediction and activations, for one example."""
        ...


@runtime_checkable
class Teacher(Protocol):
    """Turns the privileged side of one example into whatever the teaching loss compares with."""

    def __call__(self, privileged: Any, /) -> Any:
        """Returns the targets of one example."""
        ...


@runtime_checkable
class TeachingLoss(Protocol):
    """How far activations are from targets; an `equinox.Module`, its numbers as array leaves."""

    def __call__(self, activations: Any, targets: Any, /) -> Float[Array, ""]:
        """Returns the loss of one example; raises `ValueError` where the two do not fit."""
        ...


@runtime_checkable
class Objective(Protocol):
    """What a student is trained for; an `equinox.Module`, its numbers as array leaves."""

    def loss(self, prediction: Any, label: Any) -> Float[Array, ""]:
        """Returns the label loss of one example."""
        ...

    def measures(self, prediction: Any, label: Any) -> dict[str, Float[Array, ""]]:
        """Returns what is worth knowing of one example; the learner reports means."""
        ...


@runtime_checkable
class Optimizer(Protocol):
    """Settings of an optimizer; an `equinox.Module`, its numbers as array leaves."""

    def transformation(self) -> optax.GradientTransformation:
        """Returns it as Optax knows it."""
        ...


def ask(student: Any, inputs: Any) -> Answer:
    """Asks a student about a batch; every array of the answer has a leading axis of examples."""
    return Answer(*jax.vmap(student)(inputs))


def targets_of(teacher: Any, privileged: Any) -> Any:
    """Asks a teacher for the targets of a batch."""
    return jax.vmap(teacher, axis_name=BATCH_AXIS)(privileged)
