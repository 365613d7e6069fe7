"""What the backward pass of a prediction needs, to be kept for later.

`jax.vjp` returns a function whose leaves are arrays: some are the model's own, some the same for
every input, such as weights that were rounded, and the rest belong to one prediction. Only these
have to be written down for each.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, PyTree

from recombine.methods.skipping._changing import which_change


def differentiate(
    static: Any, arrays: PyTree[Array], items: Array, inputs: Array
) -> tuple[Array, list[Array], Callable[[Array], tuple[PyTree[Array], Array]]]:
    """Returns a prediction, what its backward pass needs beside `arrays`, and that pass."""
    prediction, go_back = jax.vjp(
        lambda arrays, inputs: eqx.combine(arrays, static)(items, inputs), arrays, inputs
    )
    leaves = jax.tree.leaves(go_back)
    own = jax.tree.leaves(arrays)
    return prediction, [leaf for leaf in leaves if _place(leaf, own) is None], go_back


class Passes(NamedTuple):
    """What the backward passes of all predictions have in common."""

    form: Any
    places: list[int | None]
    """Which of their leaves are the model's arrays."""
    changes: list[bool]
    """Of what `differentiate` returns for them: whether it is another one for every input."""


def look_at_passes(static: Any, arrays: PyTree[Array], items: Array, inputs: Array) -> Passes:
    """Looks at the backward pass of one prediction; nothing is computed."""
    form, places = None, []

    def passes_of(arrays: PyTree[Array], items: Array, inputs: Array) -> list[Array]:
        nonlocal form, places
        _, passes, go_back = differentiate(static, arrays, items, inputs)
        leaves, form = jax.tree.flatten(go_back)
        places = [_place(leaf, jax.tree.leaves(arrays)) for leaf in leaves]
        return passes

    changes = which_change(passes_of, arrays, items, inputs)
    return Passes(form, places, changes)


def make_restorer(
    static: Any, arrays: PyTree[Array], items: Array, inputs: Array
) -> Callable[[list[Array]], Callable[[Array], tuple[PyTree[Array], Array]]]:
    """Returns what makes a backward pass of what was kept of it."""
    form, places, changes = look_at_passes(static, arrays, items, inputs)
    own = jax.tree.leaves(arrays)
    # Weights that were rounded or turned: the same for all inputs, so those of the first will do.
    # A compiler leaves out what else belongs to that prediction.
    of_first = differentiate(static, arrays, items, inputs)[1]

    def restore(kept: list[Array]) -> Callable[[Array], tuple[PyTree[Array], Array]]:
        changing = iter(kept)
        passes = iter(
            [next(changing) if does else one for one, does in zip(of_first, changes, strict=True)]
        )
        leaves = [next(passes) if place is None else own[place] for place in places]
        return jax.tree.unflatten(form, leaves)

    return restore


def _place(leaf: Array, own: list[Array]) -> int | None:
    """Says which of the model's arrays a leaf is, if it is one."""
    return next((place for place, one in enumerate(own) if one is leaf), None)
