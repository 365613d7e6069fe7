"""What all rules share: a mask on joined gradients, made up for by scaling, as an Optax piece."""

import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, PyTree

from recombine.methods.agreement._statistics import GradientStatistics, stacked_statistics

Rescale = Literal["tensor", "global"]
"""Over what the survivors are counted when a masked gradient is scaled up again."""


class AgreementState(NamedTuple):
    """What the last update kept: one fraction for every parameter tensor."""

    kept: PyTree[Float[Array, ""]]


class Joined(NamedTuple):
    """What a rule makes of gradients: one value per component, and how much of it is kept."""

    stats: GradientStatistics
    values: PyTree[Float[Array, "..."]]
    masks: PyTree[Bool[Array, "..."]] | PyTree[Float[Array, "..."]]


def aggregator(
    join: Callable[[PyTree[Any]], Joined], *, rescale: Rescale | None
) -> optax.GradientTransformation:
    """Makes the transformation that joins gradients, masks them and scales what is kept."""
    if rescale not in (None, "tensor", "global"):
        raise ValueError(f'`rescale` must be None, "tensor" or "global"; got {rescale!r}')

    def update(
        grads: PyTree[Any], state: AgreementState, params: PyTree[Any] | None = None
    ) -> tuple[PyTree[Any], AgreementState]:
        del state
        joined = join(grads)
        fractions = kept_fractions(joined.masks)
        if rescale is None:
            scales = None
        else:
            over = fractions if rescale == "tensor" else _pooled(joined.masks)
            scales = jax.tree.map(scale_for, over)
        return apply_masks(joined, scales, result_types(grads, params)), AgreementState(fractions)

    return optax.GradientTransformation(nothing_masked, update)  # pyright: ignore[reportArgumentType]


def as_statistics(grads: PyTree[Any], **settings: Any) -> GradientStatistics:
    """Returns statistics as they are, and those of stacked gradients."""
    if isinstance(grads, GradientStatistics):
        return grads
    return stacked_statistics(grads, **settings)


def count_of(stats: GradientStatistics) -> Any:
    """Returns what to divide sums by; where no environment was present they are all zero."""
    if isinstance(stats.num_envs, int):
        return stats.num_envs
    return jnp.maximum(stats.num_envs, 1)


def means_of(stats: GradientStatistics) -> PyTree[Float[Array, "..."]]:
    """Returns the mean gradient."""
    envs = count_of(stats)
    return jax.tree.map(lambda total: total / envs, stats.total)


def apply_masks(
    joined: Joined, scales: PyTree[Float[Array, ""]] | None, types: PyTree[Any]
) -> PyTree[Float[Array, "..."]]:
    """Masks and scales the values, and lets through what is not finite."""

    def masked(value: Array, mask: Array) -> Array:
        return jnp.where(mask, value, 0.0) if mask.dtype == bool else mask * value

    kept = jax.tree.map(masked, joined.values, joined.masks)
    if scales is not None:
        kept = jax.tree.map(jnp.multiply, kept, scales)
    return jax.tree.map(
        # A gradient that is not finite must be seen, not masked away.
        lambda total, leaf, dtype: jnp.where(jnp.isfinite(total), leaf, total).astype(dtype),
        joined.stats.total,
        kept,
        types,
    )


def kept_fractions(masks: PyTree[Any]) -> PyTree[Float[Array, ""]]:
    """Returns how much of every tensor is kept; of an empty one, everything."""
    return jax.tree.map(
        lambda mask: jnp.mean(mask, dtype=jnp.float32) if mask.size else jnp.float32(1.0), masks
    )


def scale_for(fraction: Float[Array, ""]) -> Float[Array, ""]:
    """Returns what makes up for the masked components; 0 where nothing is left to scale."""
    some = fraction > 0
    return jnp.where(some, 1.0 / jnp.where(some, fraction, 1.0), 0.0)


def result_types(grads: PyTree[Any], params: PyTree[Any] | None) -> PyTree[Any]:
    """Returns the types of the result: those of a stack, or, for sums, those of the parameters."""
    like = grads
    if isinstance(grads, GradientStatistics):
        like = grads.total if params is None else params
    return jax.tree.map(lambda leaf: jnp.asarray(leaf).dtype, like)


def nothing_masked(params: PyTree[Any]) -> AgreementState:
    """Returns the state before the first update."""
    return AgreementState(jax.tree.map(lambda _: jnp.float32(1.0), params))


def lacks(rule: str, what: str, flag: str) -> str:
    """Says what statistics must be collected with."""
    return f"{rule} needs {what}, which these statistics lack; collect them with `{flag}=True`"


def warn_of_one_environment(stats: GradientStatistics) -> None:
    """Warns of a mask that has nothing to compare; called by rules, which `update` calls."""
    if isinstance(stats.num_envs, int) and stats.num_envs == 1:
        warnings.warn(
            "there is only one environment, so there is nothing to agree on: a mask sees its "
            "signs alone, and at best keeps what is not exactly zero",
            stacklevel=4,
        )


def _pooled(masks: PyTree[Any]) -> PyTree[Float[Array, ""]]:
    leaves = jax.tree.leaves(masks)
    total = max(1, sum(mask.size for mask in leaves))
    kept = sum(jnp.sum(mask, dtype=jnp.float32) for mask in leaves)
    return jax.tree.map(lambda _: kept / total, masks)
