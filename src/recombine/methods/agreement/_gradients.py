"""One gradient per environment, computed in the way that is fast on the device."""

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, Float, PyTree


def environment_gradients(
    loss: Callable[[PyTree[Any], PyTree[Any]], Float[Array, ""]],
    params: PyTree[Any],
    batches: PyTree[Any],
) -> tuple[Float[Array, " envs"], PyTree[Any]]:
    """Returns the loss and the gradient of every environment, stacked on a leading axis.

    Accelerators take all environments at once; on a CPU, where matrix products with a batch axis
    are slow, they take turns.

    Args:
        loss: the mean loss of one environment's batch.
        params: a pytree of arrays.
        batches: a pytree whose arrays have a leading axis of environments.

    Example:
        >>> import jax.numpy as jnp
        >>> losses, grads = environment_gradients(lambda w, x: w * x, 2.0, jnp.array([1.0, -3.0]))
        >>> grads.tolist()
        [1.0, -3.0]
    """
    value_and_grad = jax.value_and_grad(loss)

    def take_turns(params: PyTree[Any], batches: PyTree[Any]) -> Any:
        return jax.lax.map(lambda batch: value_and_grad(params, batch), batches)

    def all_at_once(params: PyTree[Any], batches: PyTree[Any]) -> Any:
        return jax.vmap(value_and_grad, in_axes=(None, 0))(params, batches)

    return jax.lax.platform_dependent(params, batches, cpu=take_turns, default=all_at_once)
