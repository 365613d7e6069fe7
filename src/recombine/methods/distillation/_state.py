"""What one seed of a run consists of."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, Int

from recombine.methods.distillation._batches import RowOrder
from recombine.methods.distillation._data import PrivilegedSplit
from recombine.methods.distillation._watching import Metrics


class DistillationState(NamedTuple):
    """The state of one seed."""

    student: Any
    optimizer: Any  # of the student
    teacher: Any
    teacher_optimizer: Any
    drawn: PrivilegedSplit | None  # the data set, where every seed has its own
    privileged: Any  # as a view has made it, where there is one
    order: RowOrder
    iteration: Int[Array, ""]
    best: tuple[Metrics, ...]  # for every watch


def floats_of(module: Any) -> Any:
    """Returns what is trained of a module: its arrays of floats."""
    return eqx.filter(module, eqx.is_inexact_array)


def count_floats(module: Any) -> int:
    """Returns how many numbers of a module are trained."""
    return sum(leaf.size for leaf in jax.tree.leaves(floats_of(module)))
