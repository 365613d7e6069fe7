"""Learners that differ only in numbers: which they are, and how they share one program.

A compiled program knows a learner by its structure, its static fields and the shapes of its array
leaves. What the leaves hold is an argument: learners that agree in everything else can be stacked,
and mapped over like seeds.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PyTree

from recombine.training._learner import Learner


def group_alike(learners: Sequence[Learner]) -> list[list[int]]:
    """Sorts learners into groups that one program can train; returns their numbers.

    Example:
        >>> import equinox as eqx, jax.numpy as jnp
        >>> class Rate(eqx.Module):
        ...     rate: jnp.ndarray
        ...     layers: int = eqx.field(static=True, default=1)
        >>> group_alike([Rate(jnp.float32(0.1)), Rate(jnp.float32(0.2), 2), Rate(jnp.float32(0.3))])
        [[0, 2], [1]]
    """
    groups: list[list[int]] = []
    for number, learner in enumerate(learners):
        for group in groups:
            if are_alike(learners[group[0]], learner):
                group.append(number)
                break
        else:
            groups.append([number])
    return groups


def are_alike(one: Learner, other: Learner) -> bool:
    """Says whether two learners differ at most in the numbers that their array leaves hold."""
    if one is other:
        return True
    (mine, my_tree), (theirs, their_tree) = jax.tree.flatten(one), jax.tree.flatten(other)
    return my_tree == their_tree and all(map(_same_kind, mine, theirs))


def split_shared(learners: Sequence[Learner]) -> tuple[PyTree[Any], PyTree[Any]]:
    """Parts alike learners into what is each one's own, stacked, and what all of them share.

    `eqx.combine` of a slice of the first with the second is a learner again.
    """
    first = learners[0]
    if all(learner is first for learner in learners):
        return eqx.filter(first, lambda _: False), first
    structure = jax.tree.structure(first)
    own, shared = [], []
    for leaves in zip(*map(jax.tree.leaves, learners), strict=True):
        differ = eqx.is_array(leaves[0]) and not _all_equal(leaves)
        own.append(jnp.stack(leaves) if differ else None)
        shared.append(None if differ else leaves[0])
    return jax.tree.unflatten(structure, own), jax.tree.unflatten(structure, shared)


def _same_kind(one: Any, other: Any) -> bool:
    if eqx.is_array(one) and eqx.is_array(other):
        return (one.shape, one.dtype) == (other.shape, other.dtype)
    if eqx.is_array(one) or eqx.is_array(other):
        return False
    return one is other or bool(np.all(one == other))


def _all_equal(leaves: Sequence[Any]) -> bool:
    first = _on_host(leaves[0])
    return all(leaf is leaves[0] or np.array_equal(_on_host(leaf), first) for leaf in leaves)


def _on_host(leaf: Any) -> np.ndarray:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jr.key_data(leaf) if is_key else leaf)
