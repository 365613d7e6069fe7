"""Adapting a trained model to many tasks, outside of training."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float

from recombine.estimators._buckets import power_of_two
from recombine.estimators._few_shot_tasks import ParsedTask
from recombine.estimators._few_shot_training import TaskArrays, TaskCollection, bucket_tasks
from recombine.methods.hypernetworks import (
    Architecture,
    InnerLoop,
    MetaLearner,
    Objective,
    TaskEmbedding,
    normalize_embedding,
)

AT_ONCE = 32
"""So many tasks are adapted to together."""


class Program(eqx.Module):
    """What does not change between tasks, apart from the model."""

    architecture: Architecture = eqx.field(static=True)
    objective: Objective = eqx.field(static=True)
    inner: InnerLoop


class Found(NamedTuple):
    """What came of adapting to tasks, along a leading axis."""

    params: Any  # the tasks' own, where they are kept
    losses: Float[Array, "tasks steps"]
    finite: Bool[Array, " tasks"]
    outputs: Float[Array, "tasks rows outputs"]


class Answered(NamedTuple):
    """The same in the order of the tasks, without padding."""

    outputs: list[Float[np.ndarray, "rows outputs"]]
    losses: Float[np.ndarray, "tasks steps"]
    finite: Bool[np.ndarray, " tasks"]
    embedding: Float[np.ndarray, "tasks layers modules"] | None


@eqx.filter_jit
def adapt_to(program: Program, model: Any, tasks: TaskArrays, keep_params: bool) -> Found:
    """Adapts to all tasks at once, and answers their queries."""
    learner = MetaLearner(
        TaskCollection(tasks), program.architecture, program.objective, inner=program.inner
    )

    def one(task: TaskArrays) -> Found:
        adapted = learner.adapt(model, task.support, jr.key(0))
        outputs = model.predict(adapted.params, model.read(task.query.inputs))
        params = adapted.params if keep_params else None
        return Found(params, adapted.losses, adapted.finite, outputs)

    return jax.vmap(one)(tasks)


def answer_queries(
    program: Program,
    model: Any,
    tasks: Sequence[ParsedTask],
    *,
    max_buckets: int,
    has_embedding: bool,
) -> Answered:
    """Adapts to encoded tasks of any sizes, and answers their queries."""
    bucketed = bucket_tasks(tasks, max_buckets, few_shapes=True)
    order = np.argsort(np.concatenate(bucketed.members))
    parts = [_adapt_in_chunks(program, model, bucket, has_embedding) for bucket in bucketed.buckets]
    outputs = [row for part in parts for row in part.outputs]
    return Answered(
        outputs=[outputs[i][: len(tasks[n].x_query)] for n, i in enumerate(order.tolist())],
        losses=np.concatenate([part.losses for part in parts])[order],
        finite=np.concatenate([part.finite for part in parts])[order],
        embedding=np.concatenate([_describe_all(part.params) for part in parts])[order]
        if has_embedding
        else None,
    )


def describe(task: Any) -> Float[np.ndarray, "..."]:
    """Returns a task's embedding rows; without modules, all its own weights as one vector."""
    if isinstance(task, TaskEmbedding):
        rows = jnp.concatenate([task.input, task.hidden, task.output])
        return np.asarray(normalize_embedding(rows))
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(task)])


def _adapt_in_chunks(program: Program, model: Any, tasks: TaskArrays, keep_params: bool) -> Found:
    """Adapts to some tasks at a time; the last ones are filled up, so that one program does."""
    count = tasks.support.inputs.shape[0]
    size = min(AT_ONCE, power_of_two(count, least=1))
    parts = []
    for start in range(0, count, size):
        numbers = np.minimum(np.arange(start, start + size), count - 1)
        chunk = jax.tree.map(lambda array, numbers=numbers: array[numbers], tasks)
        found = jax.device_get(adapt_to(program, model, chunk, keep_params))
        parts.append(jax.tree.map(lambda array, left=count - start: array[:left], found))
    return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)


def _describe_all(tasks: Any) -> Float[np.ndarray, "tasks ..."]:
    """Returns the embedding rows of tasks along a leading axis."""
    rows = jnp.concatenate([tasks.input, tasks.hidden, tasks.output], axis=1)
    return np.asarray(jax.vmap(normalize_embedding)(rows))
