"""Conway's Game of Life on a board with an edge."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool


def advance(
    board: Bool[Array, "rows columns"], *, torus: bool = False
) -> Bool[Array, "rows columns"]:
    """Applies the rules once: two or three neighbours keep a cell alive, three make one.

    Args:
        board: which cells are alive.
        torus: whether each edge is joined to the one opposite; else all beyond the edge is dead.

    Example:
        >>> blinker = jnp.zeros((3, 3), bool).at[1].set(True)
        >>> advance(blinker).astype(int).tolist()
        [[0, 1, 0], [0, 1, 0], [0, 1, 0]]
    """
    if board.ndim != 2:
        raise ValueError(
            f"`board` must have rows and columns only; got shape {list(board.shape)}. Use "
            f"`jax.vmap` for many boards."
        )
    rows, columns = board.shape
    around = jnp.pad(board.astype(jnp.int8), 1, mode="wrap" if torus else "constant")
    blocks = [
        around[down : down + rows, right : right + columns]
        for down in range(3)
        for right in range(3)
    ]
    neighbors = sum(blocks[1:], start=blocks[0]) - blocks[4]
    return (neighbors == 3) | (board & (neighbors == 2))


def evolve(
    board: Bool[Array, "rows columns"], num_steps: int, *, torus: bool = False
) -> Bool[Array, "{num_steps} rows columns"]:
    """Returns the boards that follow, without the first."""
    if num_steps < 1:
        raise ValueError(f"`num_steps` must be at least 1; got {num_steps}")

    def one(board: Bool[Array, "rows columns"], _: None):
        after = advance(board, torus=torus)
        return after, after

    return jax.lax.scan(one, board, None, num_steps)[1]
