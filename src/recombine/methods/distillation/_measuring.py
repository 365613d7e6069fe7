"""What a student is worth on every part of the data, in one pass over all of them.

Parts differ in size; measured one by one, each would be a program of its own to compile.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from recombine.methods.distillation._batches import RowOrder
from recombine.methods.distillation._data import PrivilegedExamples, PrivilegedSplit, count_examples
from recombine.methods.distillation._interface import Objective

Metrics = dict[str, Float[Array, ""]]


def measure_parts(
    student: Any,
    objective: Objective,
    split: PrivilegedSplit,
    order: RowOrder,
    *,
    together: int,
) -> Metrics:
    """Returns the means of all measures on every part, and `gap_*`, test less train.

    Args:
        student: predicts.
        objective: says what is measured of one example.
        split: its training examples are measured too.
        order: which of them are learned from, and which judge the teacher, if any.
        together: at most so many examples are measured at a time, to save memory.
    """
    parts = {"test": split.test, "known": split.train}
    if split.selection is not None:
        parts["selection"] = split.selection
    values = _measure_each(student, objective, list(parts.values()), together)
    of_part = dict(zip(parts, values, strict=True))
    known = of_part.pop("known")
    of_part["train"] = _rows(known, order.train)
    if len(order.validation):
        of_part["validation"] = _rows(known, order.validation)
    means = {name: jax.tree.map(jnp.mean, measures) for name, measures in of_part.items()}
    metrics = {f"{part}_{m}": value for part, each in means.items() for m, value in each.items()}
    return metrics | {f"gap_{m}": v - means["train"][m] for m, v in means["test"].items()}


def _measure_each(
    student: Any, objective: Objective, parts: list[PrivilegedExamples], together: int
) -> list[dict[str, Float[Array, " examples"]]]:
    """Returns the measures of every example of every part."""
    counts = [count_examples(part._replace(privileged=None), "measured") for part in parts]
    total = sum(counts)
    num_chunks = -(-total // together)
    chunk = -(-total // num_chunks)
    missing = num_chunks * chunk - total

    def join(*arrays: Array) -> Array:
        last = arrays[-1]
        padding = jnp.broadcast_to(last[-1:], (missing, *last.shape[1:]))
        return jnp.concatenate([*arrays, padding])

    def one(pair: tuple[Any, Any]) -> Metrics:
        inputs, label = pair
        return objective.measures(student(inputs)[0], label)

    pairs = jax.tree.map(join, *[(part.inputs, part.labels) for part in parts])
    found = jax.lax.map(one, pairs, batch_size=chunk)
    starts = [sum(counts[:place]) for place in range(len(counts))]
    return [
        {name: values[start : start + count] for name, values in found.items()}
        for start, count in zip(starts, counts, strict=True)
    ]


def _rows(measures: Any, rows: Any) -> Any:
    return jax.tree.map(lambda values: values[rows], measures)
