"""Numbers that a model holds and nobody trains."""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import PyTree


class Frozen(eqx.Module):
    """An array that belongs to a model but is neither trained nor decayed."""

    value: Any


def split_frozen(model: PyTree[Any]) -> tuple[PyTree[Any], PyTree[Any]]:
    """Parts a model into what is trained and what is `Frozen`; `eqx.combine` joins them."""

    def is_frozen(node: Any) -> bool:
        return isinstance(node, Frozen)

    trained = jax.tree.map(
        lambda node: jax.tree.map(lambda _: not is_frozen(node), node), model, is_leaf=is_frozen
    )
    return eqx.partition(model, trained)


def count_parameters(tree: PyTree[Any]) -> int:
    """Returns how many numbers a model holds, or the parameters of a task, frozen ones left out.

    Example:
        >>> import jax.numpy as jnp
        >>> count_parameters({"weight": jnp.zeros((3, 2)), "start": Frozen(jnp.zeros(5))})
        6
    """
    return sum(leaf.size for leaf in jax.tree.leaves(split_frozen(tree)[0]))
