"""Few-shot tasks of many sizes in few arrays, and a meta-learner that trains on them.

Tasks are sorted into buckets and filled up with rows of weight zero to the largest of their
bucket. Every step takes its tasks from one bucket, each as likely as it has tasks.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from recombine.estimators._buckets import assign_buckets, power_of_two
from recombine.estimators._few_shot_tasks import ParsedTask
from recombine.methods.hypernetworks import MetaLearner, MetaTraining

Metrics = dict[str, Float[Array, ""]]

MEASURED = "tasks"


class Rows(NamedTuple):
    """Examples of one task, or of several along a leading axis."""

    inputs: Float[Array, "... rows features"]
    targets: Shaped[Array, "..."]
    weights: Float[Array, "... rows"]  # 1 for a row, 0 for one that only fills up


class TaskArrays(NamedTuple):
    """Tasks as the networks read them, stacked along a leading axis."""

    support: Rows
    query: Rows
    latent: None = None


class BucketedTasks(NamedTuple):
    """All tasks, sorted into buckets."""

    buckets: list[TaskArrays]
    members: list[Int[np.ndarray, " tasks"]]  # the numbers of each bucket's tasks
    padding: float  # the share of rows that only fill up


def fill_up(inputs: np.ndarray, targets: np.ndarray, rows: int) -> Rows:
    """Adds rows of zeros that do not count."""
    missing = rows - len(inputs)
    weights = np.concatenate([np.ones(len(inputs)), np.zeros(missing)]).astype(np.float32)

    def filled(array: np.ndarray) -> Any:
        return np.concatenate([array, np.zeros((missing, *array.shape[1:]), array.dtype)])

    return Rows(filled(inputs), filled(targets), weights)  # pyright: ignore[reportArgumentType]


def bucket_tasks(
    tasks: Sequence[ParsedTask], most: int, *, few_shapes: bool = False
) -> BucketedTasks:
    """Sorts tasks, as numbers that a network can read, into at most `most` buckets.

    With `few_shapes` sizes are rounded up to powers of two, so that other tasks, later on, likely
    find a program that is compiled already.
    """
    shapes = np.array([[len(task.x_support), len(task.x_query)] for task in tasks])
    labels = assign_buckets(shapes, most, cost=lambda sizes: sizes.sum(axis=-1))
    buckets, members, padded = [], [], 0
    for label in range(labels.max() + 1):
        numbers = np.flatnonzero(labels == label)
        shown, asked = shapes[numbers].max(axis=0).tolist()
        if few_shapes:
            shown, asked = power_of_two(shown), power_of_two(asked)
        padded += len(numbers) * (shown + asked)
        stacked = [_fill_up_task(tasks[i], shown, asked) for i in numbers.tolist()]
        buckets.append(jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *stacked))
        members.append(numbers)
    return BucketedTasks(buckets, members, 1 - float(shapes.sum()) / padded)


class TaskCollection(eqx.Module):
    """A source of tasks that are all in memory."""

    tasks: TaskArrays

    @property
    def sets(self) -> tuple[str, ...]:
        """There is one set, of all tasks."""
        return (MEASURED,)

    @property
    def count(self) -> int:
        """How many there are."""
        return self.tasks.support.inputs.shape[0]

    def begin(self, key: PRNGKeyArray) -> None:
        """Draws nothing: every seed has the same tasks."""
        del key

    def sample(self, world: None, key: PRNGKeyArray, num_tasks: int) -> TaskArrays:
        """Draws tasks, in whole shuffled passes where more are wanted than there are."""
        del world
        passes = -(-num_tasks // self.count)
        orders = jax.vmap(lambda k: jr.permutation(k, self.count))(jr.split(key, passes))
        return self._take(orders.reshape(-1)[:num_tasks])

    def sample_set(self, world: None, name: str, key: PRNGKeyArray, num_tasks: int) -> TaskArrays:
        """Returns the first tasks."""
        del world, name, key
        return self._take(jnp.arange(num_tasks))

    def _take(self, numbers: Int[Array, " tasks"]) -> TaskArrays:
        return jax.tree.map(lambda array: array[numbers], self.tasks)


class FewShotTraining(NamedTuple):
    """All that changes during training."""

    model: Any
    optimizer: Any
    step: Int[Array, ""]


class BucketedMetaLearner(eqx.Module):
    """Meta-learners that share one model, each with the tasks of a bucket.

    `measured` holds, by the prefix of its metrics, a meta-learner for each collection that is
    measured; `measures` says under which name each of their measures is kept, and its factor.
    """

    buckets: tuple[MetaLearner, ...]
    measured: dict[str, MetaLearner]
    measures: tuple[tuple[str, str, float], ...] = eqx.field(static=True)

    def init(self, key: PRNGKeyArray) -> FewShotTraining:
        """Draws the model."""
        return _kept(self.buckets[0].init(key))

    def step(self, state: FewShotTraining, key: PRNGKeyArray) -> tuple[FewShotTraining, Metrics]:
        """Chooses a bucket, and takes one step on tasks of it."""
        bucket_key, step_key = jr.split(key)
        ends = np.cumsum([bucket.source.count for bucket in self.buckets])  # pyright: ignore[reportAttributeAccessIssue]
        number = jr.randint(bucket_key, (), 0, int(ends[-1]))
        which = jnp.sum(number >= jnp.asarray(ends)).astype(jnp.int32)

        def learn_from(bucket: MetaLearner) -> Any:
            def learn(state: FewShotTraining) -> tuple[FewShotTraining, Metrics]:
                new, metrics = bucket.step(_whole(state), step_key)
                return _kept(new), metrics

            return learn

        return jax.lax.switch(which, [learn_from(bucket) for bucket in self.buckets], state)

    def evaluate(self, state: FewShotTraining, key: PRNGKeyArray) -> Metrics:
        """Measures how well the queries of some tasks are answered."""
        found = {}
        for prefix, learner in self.measured.items():
            metrics = learner.evaluate(_whole(state), key)
            for measure, name, factor in self.measures:
                found[f"{prefix}{name}"] = factor * metrics[f"{MEASURED}_{measure}"]
        return found


def _whole(state: FewShotTraining) -> MetaTraining:
    # No collection draws anything by the evaluation key.
    return MetaTraining(state.model, state.optimizer, None, jr.key(0), state.step)


def _kept(state: MetaTraining) -> FewShotTraining:
    return FewShotTraining(state.model, state.optimizer, state.step)


def _fill_up_task(task: ParsedTask, shown: int, asked: int) -> TaskArrays:
    return TaskArrays(
        fill_up(task.x_support, task.y_support, shown), fill_up(task.x_query, task.y_query, asked)
    )
