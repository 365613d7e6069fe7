"""Draws without replacement that cost little on the device, as fixed-shape functions of a key."""

from collections.abc import Sequence

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Int, PRNGKeyArray

SPARE_DRAWS = 32
"""Draws beyond the number wanted, against duplicates; see `draw_rows` for what they buy."""


def first_distinct(codes: Int[Array, " drawn"], count: int) -> Int[Array, " {count}"]:
    """Returns where the first `count` distinct values of a stream of draws stand, in order.

    Skipping what has been seen turns draws with replacement into draws without. A stream with
    fewer distinct values leaves position 0 in the rest: callers draw enough to make that
    impossible in practice.
    """
    seen_before = jnp.any(jnp.tril(codes[:, None] == codes[None, :], k=-1), axis=1)
    return first_true(~seen_before, count)


def first_true(accepted: Bool[Array, " drawn"], count: int) -> Int[Array, " {count}"]:
    """Returns the positions of the first `count` true entries, padded with position 0."""
    rank = jnp.where(accepted, jnp.cumsum(accepted) - 1, count)
    positions = jnp.arange(accepted.shape[0])
    return jnp.zeros(count, positions.dtype).at[rank].set(positions, mode="drop")


def draw_rows(key: PRNGKeyArray, size: int, count: int) -> Int[Array, " {count}"]:
    """Draws `count` distinct numbers below `size` in random order.

    Where `count² <= size`, it draws with replacement `SPARE_DRAWS` times more than needed and keeps
    the first distinct ones: no sorting of `size` numbers. Duplicates among `n = count + 32` draws
    number less than about `n²/2·size < 2` on average, so that more than 32 have a probability below
    1e-25; for 40 of 20,910 commands it is below 1e-60.
    """
    if count > size:
        raise ValueError(f"cannot draw `count` = {count} distinct rows from `size` = {size}")
    if count * count > size:
        return jr.permutation(key, size)[:count]
    codes = jr.randint(key, (count + SPARE_DRAWS,), 0, size)
    return codes[first_distinct(codes, count)]


def draw_ordered(key: PRNGKeyArray, size: int, count: int) -> Int[Array, " {count}"]:
    """Draws an ordered sample of a few distinct numbers below `size`, exactly uniform.

    The i-th draw picks among the `size - i` numbers that are left, by rank.
    """
    ranks = jr.randint(key, (count,), 0, size - jnp.arange(count))
    drawn: list[Array] = []
    ascending: list[Array] = []
    for i in range(count):
        number = skip_taken(ranks[i], ascending)
        drawn.append(number)
        for j, other in enumerate(ascending):  # insert in order: cheaper than sorting a handful
            ascending[j], number = jnp.minimum(other, number), jnp.maximum(other, number)
        ascending.append(number)
    return jnp.stack(drawn)


def skip_taken(
    rank: Int[Array, ""], taken: Sequence[Int[Array, ""]] | Int[Array, " taken"]
) -> Int[Array, ""]:
    """Returns the number of the given rank among those not in the ascending list `taken`."""
    for other in taken:
        rank = rank + (rank >= other)
    return rank
