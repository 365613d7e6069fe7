"""Boards, what became of them, and whether the cell in the middle is alive in the end."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recombine.tasks.life._order import scramble_time
from recombine.tasks.life._rules import evolve

SIZE = 17
"""Cells in each direction of the board (Neitz, thesis, §4.4.2)."""

ALIVE = 0.4
"""The chance of a cell to be alive in the first board (Neitz, thesis, §4.4.2)."""

LABEL_RATE = 0.301
"""How often the middle cell is alive in the end; always saying that it is dead is right 69.9 %."""


class LifeExamples(NamedTuple):
    """Examples; a cell that is alive is 1, one that is dead is 0."""

    inputs: Float[Array, "examples rows columns"]
    """The first board."""
    privileged: Float[Array, "examples time rows columns"]
    """The boards that follow, in an order that all examples share."""
    labels: Int[Array, " examples"]
    """The cell in the middle of the last board."""


@partial(jax.jit, static_argnames=("num_examples", "size", "alive", "torus"))
def sample_life(
    key: PRNGKeyArray,
    order: Int[Array, " time"],
    *,
    num_examples: int,
    size: int = SIZE,
    alive: float = ALIVE,
    torus: bool = False,
) -> LifeExamples:
    """Draws examples; their trajectories have as many steps as `order` has places.

    `jnp.arange(3)` as the order leaves the trajectories as they are.

    Args:
        key: of the first boards.
        order: of the trajectories; see `draw_time_order`.
        num_examples: how many.
        size: of the board in each direction; odd, so that there is a cell in the middle.
        alive: the chance of a cell to be alive in the first board.
        torus: whether each edge is joined to the one opposite.

    Example:
        >>> examples = sample_life(jr.key(0), jnp.array([2, 0, 1]), num_examples=5)
        >>> examples.inputs.shape, examples.privileged.shape
        ((5, 17, 17), (5, 3, 17, 17))
        >>> last = examples.privileged[:, 0, 8, 8]  # the order has the last board first
        >>> bool(jnp.all(last == examples.labels))
        True
    """
    if num_examples < 1:
        raise ValueError(f"`num_examples` must be at least 1; got {num_examples}")
    if size < 1 or size % 2 == 0:
        raise ValueError(f"`size` must be odd, so that there is a middle; got {size}")
    if not 0 <= alive <= 1:
        raise ValueError(f"`alive` is a chance, between 0 and 1; got {alive}")
    if order.ndim != 1:
        raise ValueError(f"`order` must have one axis; got shape {list(order.shape)}")
    boards = jr.bernoulli(key, alive, (num_examples, size, size))
    follow = partial(evolve, num_steps=order.shape[0], torus=torus)
    after = jax.vmap(follow)(boards)
    return LifeExamples(
        boards.astype(jnp.float32),
        scramble_time(after.astype(jnp.float32), order),
        after[:, -1, size // 2, size // 2].astype(jnp.int32),
    )
