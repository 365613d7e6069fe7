"""What a training support that a seed draws can teach, as numbers beside the metrics of a row.

Under `jit`; `recombine.tasks.hyperteacher` has rank and connection on the host.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from recombine.tasks.hyperteacher import TaskOrder

Metrics = dict[str, Float[Array, ""]]


def count_combinations(order: TaskOrder) -> Metrics:
    """Says how many combinations are trained, and how many are held out."""
    return {
        "trained_combinations": order.num_train.astype(jnp.float32),
        "unseen_combinations": order.num_held_out.astype(jnp.float32),
    }


def describe_codes(codes: Float[Array, "tasks modules"]) -> Metrics:
    """Says what trained combinations span, and whether they link all modules that they use.

    Args:
        codes: which modules each task has; a row of zeros for a task that is not trained.
    """
    linked = codes.T @ codes > 0
    is_used = jnp.diagonal(linked)
    for _ in range(codes.shape[1].bit_length()):  # each round doubles how far links reach
        steps = linked.astype(codes.dtype)
        linked = steps @ steps > 0
    is_connected = jnp.all(linked | ~(is_used[:, None] & is_used[None, :]))
    return {
        "support_rank": jnp.linalg.matrix_rank(codes).astype(jnp.float32),
        "support_connected": is_connected.astype(jnp.float32),
    }
