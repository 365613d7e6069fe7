"""Which examples the student learns from, which judge the teacher, and in what order.

A part of the training examples is split off for validation: once, or anew in every iteration. The
rest is visited in a shuffled order, in whole batches; what does not fill a batch waits for the next
order. An iteration looks at the next batches of the order, and starts again from its beginning
where it has too few. Its student steps are taken on the first of them, and a new order is drawn
when fewer are left than one iteration of student steps takes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Int, PRNGKeyArray


@dataclass(frozen=True)
class Validation:
    """The part of the training examples that judges the teacher.

    The thesis (§4.3.4) draws it once, and reports that drawing it anew in every iteration is
    harmful (AR, §4.4.4). The toy tasks reach their published figures only when it is drawn anew:
    then the student learns from every label in the course of time.
    """

    share: float = 0.5
    resample: bool = False
    """Whether it is drawn anew in every iteration."""
    ascending: bool = False
    """Whether a resampled training part stays in the order of the data, in place of shuffling."""

    def __post_init__(self) -> None:
        if not 0.0 < self.share < 1.0:
            raise ValueError(
                f"`share` is the part of the training examples that is split off for validation, "
                f"between 0 and 1; got {self.share}"
            )
        if self.ascending and not self.resample:
            raise ValueError("`ascending` belongs to `resample`: a fixed part would never change")

    def count(self, num_examples: int) -> int:
        """Returns how many examples are split off."""
        return round(self.share * num_examples)


class RowOrder(NamedTuple):
    """The state of the order: rows of the training examples."""

    validation: Int[Array, " validation"]
    train: Int[Array, " train"]
    next_batch: Int[Array, ""]


@dataclass(frozen=True)
class Batches:
    """How many examples are in a batch, and which are split off."""

    batch_size: int = 24
    validation: Validation | None = None
    """None: all training examples are learned from."""

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"`batch_size` must be at least 1; got {self.batch_size}")

    def check(self, num_examples: int) -> None:
        """Refuses splits that leave nothing to learn from, or nothing to judge by."""
        held = 0 if self.validation is None else self.validation.count(num_examples)
        left = num_examples - held
        if self.validation is not None and held == 0:
            raise ValueError(
                f"a validation share of {self.validation.share} splits off none of the "
                f"{num_examples} training examples; raise it, or give more examples"
            )
        if left < self.batch_size:
            share = "" if self.validation is None else (
                f" a validation share of {self.validation.share} leaves"
            )  # fmt: skip
            raise ValueError(
                f"no batch can be made:{share} {left} of {num_examples} training examples, and a "
                f"batch has {self.batch_size}. Lower the share or the batch size, or give more "
                f"examples."
            )

    def init(self, num_examples: int, key: PRNGKeyArray) -> RowOrder:
        """Draws the split and the first order."""
        self.check(num_examples)
        return self._draw(num_examples, key)

    def next(
        self, order: RowOrder, num_student_steps: int, num_batches: int, key: PRNGKeyArray
    ) -> tuple[RowOrder, Int[Array, "{num_batches} {self.batch_size}"]]:
        """Returns the rows of the batches of an iteration, and the order after it.

        Args:
            order: before the iteration.
            num_student_steps: so many of the batches are used up.
            num_batches: how many to return.
            key: of a new order or split.
        """
        size = len(order.train)
        in_order = size // self.batch_size
        if self.validation is not None and self.validation.resample:
            order = self._draw(size + len(order.validation), key)
        else:
            is_used_up = order.next_batch + num_student_steps > in_order
            shuffled = jr.permutation(key, order.train)
            order = order._replace(
                train=jnp.where(is_used_up, shuffled, order.train),
                next_batch=jnp.where(is_used_up, 0, order.next_batch),
            )
        batches = order.train[: in_order * self.batch_size].reshape(in_order, self.batch_size)
        chosen = (order.next_batch + jnp.arange(num_batches)) % in_order
        used = jnp.minimum(order.next_batch + num_student_steps, in_order)
        return order._replace(next_batch=used.astype(jnp.int32)), batches[chosen]

    def _draw(self, num_examples: int, key: PRNGKeyArray) -> RowOrder:
        rows = jr.permutation(key, num_examples).astype(jnp.int32)
        held = 0 if self.validation is None else self.validation.count(num_examples)
        train = rows[held:]
        if self.validation is not None and self.validation.ascending:
            train = jnp.sort(train)
        return RowOrder(rows[:held], train, jnp.int32(0))
