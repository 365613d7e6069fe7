"""What a teacher says to a student, as arrays to be drawn."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from recombine.methods.distillation._data import PrivilegedExamples
from recombine.methods.distillation._interface import TeachingLoss, ask, targets_of
from recombine.methods.distillation._teaching_losses import GatedSquaredError


def show_teaching(
    student: Any,
    teacher: Any,
    teaching_loss: TeachingLoss | None,
    examples: PrivilegedExamples,
) -> dict[str, Array]:
    """Returns the sizes of what is taught, and gates and attention where there are any.

    Args:
        student: offers activations.
        teacher: may have an `attention`.
        teaching_loss: has gates, if it is a `GatedSquaredError`.
        examples: over which gates are averaged.
    """
    offered = ask(student, examples.inputs).activations
    sizes = [leaf[0].size for leaf in jax.tree.leaves(offered)]
    shown: dict[str, Array] = {"layer_sizes": jnp.asarray(sizes)}
    if isinstance(teaching_loss, GatedSquaredError):
        targets = targets_of(teacher, examples.privileged)
        gates = jax.vmap(teaching_loss.open)(offered, targets).weights
        means = [jnp.mean(gate, axis=0).reshape(-1) for gate in jax.tree.leaves(gates)]
        shown["gates"] = jnp.concatenate(means)
    if hasattr(teacher, "attention"):
        shown["attention"] = teacher.attention
    return shown
