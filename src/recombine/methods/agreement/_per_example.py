"""Every example its own environment: the sums that the rules need, at the right price.

Where examples do not meet inside the network, one backward pass through tallied layers gives them
(`per_example_statistics`). Where they do, as in batch normalisation, the same pass shares the
gradient of the batch out among the examples, by the activations through which it comes. Should
every example have the gradient of its own loss there, with its paths through the others, each takes
a backward pass over the whole batch (`coupled_statistics`), as in the authors' code; only the
forward pass is shared.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from recombine.methods.agreement._statistics import GradientStatistics, stacked_statistics
from recombine.methods.agreement._tallied_layers import split_tallies, tally_weights

Losses = Callable[[PyTree[Any]], tuple[Float[Array, " examples"], Any]]
"""From parameters to the loss of every example of a batch, and anything else of use."""


def per_example_statistics(
    losses: Losses, params: PyTree[Any]
) -> tuple[Float[Array, " examples"], Any, GradientStatistics]:
    """Returns the losses, what comes with them, and the sums over the examples' gradients.

    All weights must be used in tallied layers (`tallied_conv`, `tallied_linear`,
    `tallied_scale_and_shift`), each once. If something in the network couples the examples, the
    total is still the gradient of the summed losses, and the signs are those of the shares that
    come through each example's activations.

    Args:
        losses: returns the loss of every example, and anything else of use (or `None`).
        params: a pytree of arrays; inside `losses` each of them is a `Tallied`.

    Example:
        >>> import jax.numpy as jnp
        >>> from recombine.methods.agreement import tallied_linear
        >>> x = jnp.array([[1.0, 2.0], [1.0, -2.0]])  # two examples
        >>> weight = jnp.zeros((2, 1))
        >>> losses = lambda w: (tallied_linear(x, w)[:, 0], None)
        >>> _, _, sums = per_example_statistics(losses, weight)
        >>> sums.total[:, 0].tolist(), sums.signs[:, 0].tolist()
        ([2.0, 0.0], [2, 0])
    """

    def summed(tallied: PyTree[Any]) -> Any:
        values, rest = losses(tallied)
        return jnp.sum(values), (values, rest)

    grads, (values, rest) = jax.grad(summed, has_aux=True)(tally_weights(params))
    total, signs = split_tallies(grads)
    whole = jax.tree.map(lambda leaf: leaf.astype(jnp.int32), signs)
    return values, rest, GradientStatistics(num_envs=len(values), total=total, signs=whole)


def coupled_statistics(
    losses: Losses, params: PyTree[Any], *, at_once: int = 1
) -> tuple[Float[Array, " examples"], Any, GradientStatistics]:
    """As `per_example_statistics`, for any network, also one that couples the examples.

    One forward pass, then one backward pass over the whole batch for every example: exact, and
    dear. Memory grows with `at_once`, not with the number of examples.

    Args:
        losses: returns the loss of every example, and anything else of use (or `None`).
        params: a pytree of arrays.
        at_once: how many examples' backward passes are one computation; it must divide the number
            of examples.

    Example:
        >>> import jax.numpy as jnp
        >>> x = jnp.array([1.0, 2.0, 6.0])
        >>> losses = lambda w: (w * (x - jnp.mean(x)), None)  # coupled by their mean
        >>> _, _, sums = coupled_statistics(losses, jnp.float32(1.0))
        >>> float(sums.total), int(sums.signs)
        (0.0, -1)
    """
    values, pull, rest = jax.vjp(losses, params, has_aux=True)
    examples = len(values)
    if examples % at_once:
        raise ValueError(
            f"`at_once` must divide the {examples} examples of the batch; got {at_once}"
        )
    chosen = jnp.eye(examples, dtype=values.dtype).reshape(-1, at_once, examples)

    def collect(sums: Any, one_hot: Array) -> tuple[Any, None]:
        [grads] = jax.vmap(pull)(one_hot)
        more = stacked_statistics(grads)
        return jax.tree.map(jnp.add, sums, (more.total, more.signs)), None

    zeros = jax.tree.map(jnp.zeros_like, params)
    whole = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.int32), params)
    (total, signs), _ = jax.lax.scan(collect, (zeros, whole), chosen)
    return values, rest, GradientStatistics(num_envs=examples, total=total, signs=signs)
