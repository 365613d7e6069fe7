"""What both toy tasks draw their matrices by."""

import math

import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray


def uniform_matrix(key: PRNGKeyArray, rows: int, columns: int) -> Float[Array, "rows columns"]:
    """Draws entries uniformly within one over the root of the number of columns."""
    reach = 1 / math.sqrt(columns)
    return jr.uniform(key, (rows, columns), minval=-reach, maxval=reach)


def check_sizes(**sizes: int) -> None:
    """Refuses sizes below 1, by their names."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"`{name}` must be at least 1; got {size}")
