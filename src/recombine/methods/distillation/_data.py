"""Examples with a privileged side, and where a learner gets them from.

The privileged side is known in training only: later measurements, a future trajectory, a cleaner
sensor. Examples that are only measured on need none.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PRNGKeyArray, PyTree, Shaped


class PrivilegedExamples(NamedTuple):
    """Triples (x, x*, y); each side is an array, or a pytree of arrays, with an axis of examples.

    Example:
        >>> import jax.numpy as jnp
        >>> data = PrivilegedExamples(jnp.zeros((5, 3)), jnp.zeros((5, 16, 2)), jnp.zeros(5))
        >>> take(data, jnp.array([0, 4])).privileged.shape
        (2, 16, 2)
    """

    inputs: PyTree[Shaped[Array, " examples ..."]]
    privileged: PyTree[Shaped[Array, " examples ..."]] | None
    labels: PyTree[Shaped[Array, " examples ..."]]


class PrivilegedSplit(NamedTuple):
    """What is learned from, and what is measured on."""

    train: PrivilegedExamples
    test: PrivilegedExamples
    selection: PrivilegedExamples | None = None
    """Examples to choose by, apart from training, its validation part, and test."""
    hint: Any = None
    """What an oracle may be told when it is made: for example the true order of the frames."""


class Given(eqx.Module):
    """The same arrays for every seed; they stay with the learner."""

    data: PrivilegedSplit

    def draw(self, key: PRNGKeyArray) -> None:
        """Draws nothing."""

    def split(self, drawn: Any) -> PrivilegedSplit:
        """Returns the arrays."""
        return self.data


class Drawn(eqx.Module):
    """A data set of its own for every seed; it is part of the seed's state."""

    sample: Callable[[PRNGKeyArray], PrivilegedSplit] = eqx.field(static=True)

    def draw(self, key: PRNGKeyArray) -> PrivilegedSplit:
        """Draws the data set."""
        return self.sample(key)

    def split(self, drawn: Any) -> PrivilegedSplit:
        """Returns what was drawn."""
        return drawn


Source = Given | Drawn
"""Where a learner gets its examples from."""


def take(examples: Any, rows: Int[Array, " *shape"]) -> Any:
    """Picks rows of every array; the axis of examples becomes the shape of `rows`."""
    return jax.tree.map(lambda array: array[rows], examples)


def count_examples(examples: PrivilegedExamples, what: str = "training") -> int:
    """Returns the length of the axis of examples, which all arrays must share.

    Args:
        examples: may lack the privileged side.
        what: how an error calls them.
    """
    counts: dict[str, list[int]] = {}
    for side in PrivilegedExamples._fields:
        leaves = jax.tree.leaves(getattr(examples, side))
        if any(jnp.ndim(leaf) == 0 for leaf in leaves):
            raise ValueError(
                f"the {what} {side} hold a single number; every array needs a leading axis of "
                f"examples"
            )
        counts[side] = sorted({leaf.shape[0] for leaf in leaves})
    for side in ("inputs", "labels"):
        if not counts[side]:
            raise ValueError(f"the {what} examples have no {side}")
    lengths = {length for each in counts.values() for length in each}
    if len(lengths) > 1:
        named = ", ".join(f"{side} {each}" for side, each in counts.items() if each)
        raise ValueError(
            f"the {what} examples differ in length: {named}. Inputs, privileged data and labels "
            f"need one row for every example, in the same order."
        )
    return lengths.pop()
