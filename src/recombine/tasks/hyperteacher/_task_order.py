"""Which tasks are trained and which are held out, in arrays whose shapes do not say it.

Sources that differ only in their supports then differ only in numbers, and share compiled programs.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray


class TaskOrder(NamedTuple):
    """All tasks, by number: the trained ones first, the held-out ones last.

    There may be others in between.

    Example:
        >>> order = order_tasks([2, 0], [3], num_tasks=4)
        >>> order.tasks.tolist(), order.train.tolist(), order.held_out.tolist()
        ([2, 0, 1, 3], [2, 0], [3])
    """

    tasks: Int[Array, " tasks"]
    num_train: Int[Array, ""]
    num_held_out: Int[Array, ""]

    @property
    def train(self) -> Int[Array, " trained"]:
        """The trained tasks; not within `jit`, where their number is not known."""
        return self.tasks[: int(self.num_train)]

    @property
    def held_out(self) -> Int[Array, " others"]:
        """The held-out tasks; not within `jit`."""
        return self.tasks[self.tasks.shape[0] - int(self.num_held_out) :]

    @property
    def is_trained(self) -> Bool[Array, " tasks"]:
        """Which of `tasks` are trained."""
        return jnp.arange(self.tasks.shape[0]) < self.num_train

    @property
    def is_held_out(self) -> Bool[Array, " tasks"]:
        """Which of `tasks` are held out."""
        num_tasks = self.tasks.shape[0]
        return jnp.arange(num_tasks) >= num_tasks - self.num_held_out

    def pick(self, key: PRNGKeyArray, count: int, *, held_out: bool) -> Int[Array, " count"]:
        """Draws trained or held-out tasks, with replacement."""
        number = self.num_held_out if held_out else self.num_train
        first = self.tasks.shape[0] - number if held_out else 0
        return self.tasks[first + jr.randint(key, (count,), 0, number)]


def order_tasks(
    train: Sequence[int] | np.ndarray, held_out: Sequence[int] | np.ndarray, *, num_tasks: int
) -> TaskOrder:
    """Returns the order of `num_tasks` tasks of which some are trained and others held out."""
    others = np.setdiff1d(np.arange(num_tasks), np.concatenate([train, held_out]))
    return TaskOrder(
        jnp.asarray(np.concatenate([train, others, held_out]), jnp.int32),
        jnp.int32(len(train)),
        jnp.int32(len(held_out)),
    )
