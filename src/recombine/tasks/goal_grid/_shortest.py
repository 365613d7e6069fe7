"""Shortest ways between all cells of a maze, and the expert who follows them."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int


def shortest_distances(
    neighbors: Int[Array, "cells moves"], free: Bool[Array, " cells"]
) -> Int[Array, "goals cells"]:
    """Returns the number of moves from every cell to every goal.

    What cannot be reached is as far away as there are cells. The loop ends when nothing gets
    nearer any more.
    """
    count = free.shape[0]
    start = jnp.where(jnp.eye(count, dtype=bool) & free[None], 0, count).astype(jnp.int32)

    def relax(
        carry: tuple[Int[Array, "goals cells"], Bool[Array, ""]],
    ) -> tuple[Int[Array, "goals cells"], Bool[Array, ""]]:
        distances, _ = carry
        nearest = jnp.min(distances[:, neighbors], axis=-1)
        nearer = jnp.minimum(distances, nearest + 1)
        return nearer, jnp.any(nearer != distances)

    return jax.lax.while_loop(lambda carry: carry[1], relax, (start, jnp.bool_(True)))[0]


def shortening_moves(
    distances: Int[Array, "goals cells"], neighbors: Int[Array, "cells moves"]
) -> Bool[Array, "goals cells moves"]:
    """Says which moves bring a cell nearer to a goal; at the goal, and in walls, none does."""
    return distances[:, neighbors] < distances[:, :, None]
