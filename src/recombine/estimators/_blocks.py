"""Models applied to any number of rows or items, with few compilations."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, PyTree

LEAST, MOST = 64, 8192
"""Rows are filled up to a power of two between these; longer tables are cut."""

AT_ONCE = 64
"""So many items are run together where each is a long computation."""


def apply_in_blocks(
    model: PyTree[Any], inputs: Float[np.ndarray, "rows inputs"]
) -> Float[np.ndarray, "rows outputs"]:
    """Returns `model(row)` for every row.

    Example:
        >>> import jax.numpy as jnp
        >>> apply_in_blocks(jnp.sum, np.ones((3, 2), np.float32)).tolist()
        [2.0, 2.0, 2.0]
    """
    size = min(MOST, max(LEAST, 1 << (len(inputs) - 1).bit_length()))
    outputs = []
    for start in range(0, len(inputs), size):
        block = inputs[start : start + size]
        filled = np.zeros((size, *inputs.shape[1:]), inputs.dtype)
        filled[: len(block)] = block
        outputs.append(np.asarray(_apply(model, filled))[: len(block)])
    return np.concatenate(outputs)


@eqx.filter_jit
def _apply(model: Any, inputs: Any) -> Any:
    return jax.vmap(model)(inputs)


def item_blocks(items: np.ndarray) -> list[tuple[np.ndarray, int]]:
    """Cuts items into blocks, filled up to a power of two with the last, and counts the real.

    Example:
        >>> [(block.tolist(), count) for block, count in item_blocks(np.arange(3))]
        [([0, 1, 2, 2], 3)]
    """
    size = min(AT_ONCE, 1 << (len(items) - 1).bit_length())
    blocks = []
    for start in range(0, len(items), size):
        places = np.minimum(np.arange(start, start + size), len(items) - 1)
        blocks.append((items[places], min(size, len(items) - start)))
    return blocks
