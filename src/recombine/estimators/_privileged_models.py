"""Students and teachers for tables and sequences, where people bring none of their own.

The student is that of the first toy task (Neitz, thesis, App. C.2.1): a linear layer that is taught
comes first, and a network reads it. A teacher that shapes so few numbers has less to learn, and in
our trials learned it sooner, than one that shapes all layers. Those trials, of a few seeds each,
were on generated data like those of `examples/own_privileged.py`; so that example is no independent
evidence for the defaults. Sequences are read as one long row. Convolutions before the taught layer
did worse in the only trial, on rows cut into steps, which had no order in time to be found.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.distillation import (
    Answer,
    ConvTeacherShape,
    LayeredStudent,
    MLPStudentShape,
    MLPTeacherShape,
)

TEACHER_MAPS = (32, 32)
"""Of the convolutions over time with which a teacher reads sequences."""


def make_student_shape(
    input_shape: tuple[int, ...], num_outputs: int, hidden: tuple[int, ...]
) -> MLPStudentShape:
    """Returns what makes a student for a row, or for a sequence as one long row."""
    return MLPStudentShape(
        math.prod(input_shape),
        num_outputs,
        hidden=hidden,
        offers=(0,),
        linear=(0,),
        weight_norm=False,
        activation=rectify,
    )


def rectify(x: Float[Array, " *shape"]) -> Float[Array, " *shape"]:
    """Returns what is above zero; JAX's own function of the name cannot be pickled."""
    return jax.nn.relu(x)


class AuxiliaryStudent(eqx.Module):
    """Any student, with a linear head that reads all that it offers; offers the head's output."""

    student: Any
    head: eqx.nn.Linear

    def __call__(self, inputs: Any) -> Answer:
        """Predicts for one example."""
        prediction, activations = self.student(inputs)
        return Answer(prediction, (self.head(_flat(activations)),))


@dataclass(frozen=True)
class AuxiliaryShape:
    """Makes a student of one's own, and puts a head on what it offers."""

    make: Callable[[PRNGKeyArray], Any]
    num_offered: int
    num_privileged: int

    def __call__(self, key: PRNGKeyArray) -> AuxiliaryStudent:
        """Draws student and head."""
        student_key, head_key = jr.split(key)
        head = eqx.nn.Linear(self.num_offered, self.num_privileged, key=head_key)
        return AuxiliaryStudent(self.make(student_key), head)


def with_auxiliary(
    make: Callable[[PRNGKeyArray], Any], num_offered: int, num_privileged: int
) -> Callable[[PRNGKeyArray], Any]:
    """Returns what makes the same student with an auxiliary task."""
    if isinstance(make, MLPStudentShape):
        return replace(make, auxiliary=num_privileged)
    return AuxiliaryShape(make, num_offered, num_privileged)


def without_auxiliary(student: Any) -> Any:
    """Returns what predicts; an auxiliary head has done its work."""
    if isinstance(student, AuxiliaryStudent):
        return student.student
    if isinstance(student, LayeredStudent) and student.head is not None:
        return replace(student, head=None, offers=student.linear)
    return student


def make_teacher_shape(
    privileged_shape: tuple[int, ...], num_offered: int, width: int
) -> Callable[[PRNGKeyArray], Any]:
    """Returns what makes a teacher for a row (features,) or a sequence (steps, features)."""
    if len(privileged_shape) == 1:
        return MLPTeacherShape(privileged_shape[0], num_offered, hidden=(width, width))
    steps, features = privileged_shape
    return ConvTeacherShape(
        steps, features, num_offered, maps=TEACHER_MAPS, hidden=(width,), batch_norm=False
    )


class Predictor(eqx.Module):
    """A student that returns its prediction alone."""

    student: Any

    def __call__(self, inputs: Any) -> Any:
        """Predicts for one example."""
        return self.student(inputs)[0]


def count_offered(
    make: Callable[[PRNGKeyArray], Any], input_shape: tuple[int, ...], num_outputs: int
) -> int:
    """Returns how many numbers a student offers, and refuses what is no student.

    Args:
        make: makes the student from a key.
        input_shape: of one example.
        num_outputs: how many numbers it must predict.
    """
    try:
        student = eqx.filter_eval_shape(make, jr.key(0))
    except Exception as error:  # of the user's own code
        raise TypeError(
            f"`student` must make a student from a key, as `lambda key: MyStudent(key=key)` does; "
            f"calling it with a key failed ({type(error).__name__}: {error})"
        ) from error
    if not callable(student):
        raise TypeError(
            f"`student` must make a student from a key, as `lambda key: MyStudent(key=key)` does; "
            f"called with a key, it returned {student!r}"
        )
    one = jax.ShapeDtypeStruct(input_shape, jnp.float32)
    found = eqx.filter_eval_shape(lambda student, x: student(x), student, one)
    if not isinstance(found, tuple) or len(found) != 2:
        raise TypeError(
            f"a student must return a pair of its prediction and the activations that it offers "
            f"to be taught; got {type(found).__name__}"
        )
    shape = getattr(found[0], "shape", None)
    if shape != (num_outputs,):
        raise ValueError(
            f"the student must predict a vector of {num_outputs} numbers for one example, one for "
            f"each class, or one for a number; got the shape {shape}"
        )
    return sum(leaf.size for leaf in jax.tree.leaves(found[1]))


def _flat(activations: Any) -> Float[Array, " units"]:
    return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(activations)])
