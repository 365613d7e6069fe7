"""The environments of a problem as loss landscapes over one flat vector of parameters."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

Loss = Callable[..., Float[Array, ""]]
"""The mean loss of one environment: of the parameters, and of a batch where batches are given."""


class Landscapes(NamedTuple):
    """What is measured: a point, and how every environment sees the points around it."""

    num_envs: int
    loss: Callable[[Int[Array, ""], Float[Array, " dims"]], Float[Array, ""]]  # (env, point)
    point: Float[Array, " dims"]
    to_params: Callable[[Float[Array, " dims"]], PyTree[Any]]
    are_batched: bool  # one loss on stacked batches: environments may share a program


def make_landscapes(
    losses: Loss | Sequence[Loss], params: PyTree[Any], batches: PyTree[Any] | None
) -> Landscapes:
    """Brings both ways to state environments into one form.

    Args:
        losses: one function of the parameters for every environment; or, with `batches`, one
            function of the parameters and of one environment's batch.
        params: a pytree; only its floating-point arrays vary.
        batches: a pytree whose arrays have a leading axis of environments.
    """
    point, to_params = flatten(params)
    if callable(losses):
        num_envs = count_environments(batches)

        def loss(env: Int[Array, ""], flat: Float[Array, " dims"]) -> Float[Array, ""]:
            batch = jax.tree.map(lambda array: jnp.asarray(array)[env], batches)
            return losses(to_params(flat), batch)

    else:
        functions = tuple(losses)
        num_envs = len(functions)
        if batches is not None:
            raise ValueError(
                "`batches` goes with one loss function; with one function per environment each "
                "holds its own data, so leave `batches` out"
            )
        if num_envs == 0:
            raise ValueError("`losses` is empty; give one loss function for every environment")

        def loss(env: Int[Array, ""], flat: Float[Array, " dims"]) -> Float[Array, ""]:
            branches = [lambda at, one=one: jnp.asarray(one(to_params(at))) for one in functions]
            return jax.lax.switch(env, branches, flat)

    shape = jax.eval_shape(loss, jnp.int32(0), point).shape
    if shape != ():
        raise ValueError(
            f"a loss must be one number, the mean over an environment; got shape {shape}"
        )
    return Landscapes(num_envs, loss, point, to_params, are_batched=callable(losses))


def flatten(
    params: PyTree[Any],
) -> tuple[Float[Array, " dims"], Callable[[Float[Array, " dims"]], PyTree[Any]]]:
    """Returns the floating-point arrays of a pytree as one vector, and the way back to a pytree."""
    varied, fixed = eqx.partition(params, eqx.is_inexact_array)
    point, unravel = ravel_pytree(varied)
    if point.size == 0:
        raise ValueError("`params` has no floating-point array, so there is nothing to vary")
    return point, lambda flat: eqx.combine(unravel(flat), fixed)


def count_environments(batches: PyTree[Any] | None) -> int:
    """Returns the length of the leading axis, which all arrays must share."""
    leaves = jax.tree.leaves(batches)
    if not leaves:
        raise ValueError(
            "one loss function needs `batches`, arrays with a leading axis of environments; or "
            "give a list with one loss function for every environment"
        )
    if any(jnp.ndim(leaf) == 0 for leaf in leaves):
        raise ValueError("`batches` holds a number where arrays need an axis of environments")
    lengths = sorted({jnp.shape(leaf)[0] for leaf in leaves})
    if len(lengths) > 1:
        raise ValueError(
            f"all arrays of `batches` need the same number of environments on their leading "
            f"axis; got {lengths}"
        )
    if lengths[0] == 0:
        raise ValueError("`batches` has no environment: its leading axis is empty")
    return lengths[0]
