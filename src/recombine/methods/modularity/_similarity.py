"""How alike tasks are to a student: the weights it generates, and the embeddings it infers."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

EPS = 1e-12


class GeneratedAlignment(NamedTuple):
    """Cosines between the hidden units that teacher and student generate for the same tasks."""

    task_independent: Float[Array, ""]
    """The best student unit is chosen once, for all tasks."""
    task_dependent: Float[Array, ""]
    """It is chosen for every task anew. Far above the other: units change places between tasks."""


def generated_alignment(
    teacher: Float[Array, "tasks inputs units"], student: Float[Array, "tasks inputs width"]
) -> GeneratedAlignment:
    """Compares the columns of generated weights, task by task."""
    cosines = jnp.einsum("tiu,tiw->tuw", _unit(teacher, 1), _unit(student, 1), precision="highest")
    return GeneratedAlignment(
        task_independent=jnp.mean(jnp.max(jnp.mean(cosines, axis=0), axis=-1)),
        task_dependent=jnp.mean(jnp.max(cosines, axis=-1)),
    )


def pairwise_cosine(rows: Float[Array, "tasks features"]) -> Float[Array, ""]:
    """Returns the mean cosine between the rows of different tasks; 1 where all point one way.

    Example:
        >>> import jax.numpy as jnp
        >>> float(pairwise_cosine(jnp.eye(3)))
        0.0
    """
    units = _unit(rows, 1)
    total = jnp.sum(jnp.square(jnp.sum(units, axis=0)))  # of all pairs, each row with itself too
    count = rows.shape[0]
    return (total - jnp.sum(jnp.square(units))) / (count * (count - 1))


def _unit(array: Array, axis: int) -> Array:
    length = jnp.sqrt(jnp.sum(jnp.square(array), axis=axis, keepdims=True))
    return array / jnp.maximum(length, EPS)
