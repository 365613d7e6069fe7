"""One gradient per environment, computed in the way that is fast on the device.

`environment_gradients` keeps them all, which is fine while environments are few or the network is
small. `accumulate_gradients` keeps only their sums, for many environments and many parameters.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from recombine.methods.agreement._statistics import (
    EPS_LOG,
    GradientStatistics,
    as_presence,
    stacked_statistics,
)

Loss = Callable[[PyTree[Any], PyTree[Any]], Float[Array, ""]]

CHUNK_BYTES = 2**28
"""How much memory the gradients of one chunk may take when no chunk is asked for: 256 MiB."""


def environment_gradients(
    loss: Loss, params: PyTree[Any], batches: PyTree[Any]
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


def accumulate_gradients(
    loss: Loss,
    params: PyTree[Any],
    batches: PyTree[Any],
    *,
    chunk: int | None = None,
    present: Bool[Array, " envs"] | Int[Array, " envs"] | Float[Array, " envs"] | None = None,
    with_logs: bool = False,
    with_squares: bool = False,
    eps_log: float = EPS_LOG,
) -> tuple[Float[Array, " envs"], GradientStatistics]:
    """Returns the loss of every environment and the sums of their gradients, never all gradients.

    Environments are taken `chunk` at a time, so that `chunk` gradients and the two sums (three with
    logarithms or squares, four with both) are in memory. The rules take the sums in the place of
    the stacked gradients and keep the same components.

    Args:
        loss: the mean loss of one environment's batch. What couples environments, such as batch
            norm over all of them, does not belong into it.
        params: a pytree of arrays.
        batches: a pytree whose arrays have a leading axis of environments.
        chunk: how many environments are vectorised; the last chunk may be smaller. By default as
            many as keep the gradients of a chunk within 256 MiB on accelerators, and one on a CPU.
        present: 1 for the environments that take part and 0 for those that are missing, whose loss
            is reported as 0.
        with_logs: also sums the logarithms of the magnitudes, which the geometric mean needs.
        with_squares: also sums the squares, which SAND needs.
        eps_log: added to a magnitude before its logarithm is taken.

    Example:
        >>> import jax.numpy as jnp
        >>> batches = jnp.array([1.0, -3.0, 5.0])
        >>> losses, stats = accumulate_gradients(lambda w, x: w * x, 2.0, batches, chunk=2)
        >>> losses.tolist(), float(stats.total), int(stats.signs), stats.num_envs
        ([2.0, -6.0, 10.0], 3.0, 1, 3)
    """
    num_envs = _leading_axis(batches)
    if chunk is not None and not chunk >= 1:
        raise ValueError(
            f"`chunk` is how many environments are taken at a time, at least 1; got {chunk}"
        )
    if present is not None:
        present = as_presence(present, num_envs)
    value_and_grad = jax.value_and_grad(loss)
    summed = functools.partial(
        stacked_statistics, with_logs=with_logs, with_squares=with_squares, eps_log=eps_log
    )

    def of_chunk(
        params: PyTree[Any], batches: PyTree[Any], present: Array | None
    ) -> tuple[Array, GradientStatistics]:
        if _leading_axis(batches) == 1:  # on a CPU a batch axis costs time even when it is short
            one = value_and_grad(params, jax.tree.map(lambda leaf: leaf[0], batches))
            losses, grads = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], one)
        else:
            losses, grads = jax.vmap(value_and_grad, in_axes=(None, 0))(params, batches)
        if present is not None:
            losses = jnp.where(present, losses, 0.0)
        return losses, summed(grads, present=present)

    def in_chunks(
        params: PyTree[Any], batches: PyTree[Any], present: Array | None, *, size: int
    ) -> tuple[Array, GradientStatistics]:
        whole = num_envs // size

        def body(stats: GradientStatistics, one: tuple[Any, Any]) -> Any:
            losses, of_these = of_chunk(params, *one)
            return stats + of_these, losses

        given = (batches, present)
        chunks = jax.tree.map(
            lambda leaf: leaf[: whole * size].reshape(whole, size, *leaf.shape[1:]), given
        )
        some = jax.tree.map(lambda leaf: leaf[:1], given)
        nothing = jax.tree.map(
            lambda leaf: jnp.zeros(jnp.shape(leaf), leaf.dtype),
            jax.eval_shape(of_chunk, params, *some)[1],
        )
        stats, losses = jax.lax.scan(body, nothing, chunks)
        losses = losses.reshape(-1)
        if whole * size < num_envs:
            rest = jax.tree.map(lambda leaf: leaf[whole * size :], given)
            last_losses, of_rest = of_chunk(params, *rest)
            losses, stats = jnp.concatenate([losses, last_losses]), stats + of_rest
        return losses, stats

    given = (params, batches, present)
    if chunk is not None:
        losses, stats = in_chunks(*given, size=min(chunk, num_envs))
    else:
        fitting = _chunk_that_fits(params, num_envs)
        losses, stats = jax.lax.platform_dependent(
            *given,
            cpu=functools.partial(in_chunks, size=1),
            default=functools.partial(in_chunks, size=fitting),
        )
    if present is None:  # a number that is known stays a number: ties are then compared exactly
        stats = GradientStatistics(num_envs, stats.total, stats.signs, stats.logs, stats.squares)
    return losses, stats


def _leading_axis(batches: PyTree[Any]) -> int:
    sizes = {jnp.shape(leaf)[:1] for leaf in jax.tree.leaves(batches)}
    if len(sizes) != 1 or sizes & {(), (0,)}:
        raise ValueError(
            f"all arrays of `batches` need the same leading axis of environments, at least one "
            f"long; got leading axes {sorted(sizes)}"
        )
    return sizes.pop()[0]


def _chunk_that_fits(params: PyTree[Any], num_envs: int) -> int:
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(params)]
    size = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)
    return max(1, min(num_envs, CHUNK_BYTES // max(size, 1)))
