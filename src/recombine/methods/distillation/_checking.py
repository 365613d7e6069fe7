"""Refusing data, students and teachers that do not fit, before anything is compiled."""

from typing import Any

import equinox as eqx
import jax

from recombine.methods.distillation._batches import Batches
from recombine.methods.distillation._data import PrivilegedSplit, count_examples
from recombine.methods.distillation._interface import targets_of
from recombine.methods.distillation._meta_gradient import Lesson
from recombine.methods.distillation._state import count_floats


def check_data(split: PrivilegedSplit, batches: Batches, *, has_teacher: bool) -> None:
    """Refuses data of which no batch can be made, or nothing can be taught."""
    batches.check(count_examples(split.train))
    count_examples(split.test._replace(privileged=None), "test")
    if split.selection is not None:
        count_examples(split.selection._replace(privileged=None), "selection")
    if has_teacher and not jax.tree.leaves(split.train.privileged):
        raise ValueError(
            "a teacher needs privileged data for every training example; there are none. Give "
            "them, or set `teacher=None`"
        )


def check_modules(
    student: Any, teacher: Any, split: PrivilegedSplit, lesson: Lesson, *, learns: bool
) -> None:
    """Refuses students and teachers that do not fit each other.

    Args:
        student: as it was made.
        teacher: as it was made, or None.
        split: the data, of which one example is looked at.
        lesson: what the student is trained on.
        learns: whether the teacher is trained.
    """
    if not count_floats(student):
        raise ValueError("the student has no array of floats, so there is nothing to train")
    one = jax.tree.map(lambda x: x[:1], split.train)
    found = eqx.filter_eval_shape(jax.vmap(student), one.inputs)
    if not isinstance(found, tuple) or len(found) != 2:
        raise TypeError(
            f"a student must return a pair of its prediction and the activations that it "
            f"offers to be taught, or an `Answer`; got {type(found).__name__}"
        )
    if teacher is None:
        return
    if not jax.tree.leaves(found[1]):
        raise ValueError(
            "the student offers no activations, so there is nothing for a teacher to teach. "
            "Return them beside the prediction (of an `MLPStudentShape`, set `offers`), or set "
            "`teacher=None`."
        )
    if learns and not count_floats(teacher):
        raise ValueError(
            "the teacher has no array of floats, so there is nothing to learn for it: set "
            "`teacher_training=None`"
        )

    def teaching(privileged: Any, activations: Any) -> Any:
        targets = targets_of(teacher, privileged)
        return jax.vmap(lesson.teaching_loss)(activations, targets)  # pyright: ignore[reportArgumentType]

    value = eqx.filter_eval_shape(teaching, one.privileged, found[1])
    if getattr(value, "shape", None) != (1,):
        raise TypeError(f"a teaching loss must return one number for an example; got {value}")
