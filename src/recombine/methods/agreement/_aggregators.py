r"""Rules that turn the gradients of several environments into one gradient.

They are Optax transformations whose input has a leading axis of environments, like
`optax.contrib.differentially_private_aggregate`: put one first in a chain. The rest of the chain
sees an ordinary gradient.

    optax.chain(and_mask(0.8, rescale="tensor"), optax.add_decayed_weights(1e-4), optax.adam(1e-2))

Neither `optax.MultiSteps` nor `optax.apply_every` may come before one: they average first. With
`optax.adamw` the AND-mask does not train the networks of the thesis: the decay has to pass through
Adam, which turns it into a steady pull towards zero on the components that are masked.
"""

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PyTree

Rescale = Literal["tensor", "global"]
"""Over what the survivors are counted when a masked gradient is scaled up again."""

ROUNDING = 1e-6
"""Far below 1/d, far above the rounding of `threshold * d`: ties count as agreement."""


class AgreementState(NamedTuple):
    """What the last update kept: one fraction for every parameter tensor."""

    kept: PyTree[Float[Array, ""]]


@functools.cache  # equal settings give one object, so that compiled programs are shared
def arithmetic_mean() -> optax.GradientTransformation:
    """Averages gradients over their leading axis of environments; what pooling the data does.

    Every environment has the same weight, whatever its number of examples.
    """
    return _aggregator(lambda grads: jax.tree.map(_keep_all, grads), rescale=None)


@functools.cache
def and_mask(threshold: float, *, rescale: Rescale | None = None) -> optax.GradientTransformation:
    r"""Averages gradients over environments, zeroing the components they dispute.

    $$m_j = 1\Big[\,\Big|\sum_e \mathrm{sign}(g_{e,j})\Big| \ge \tau d\,\Big], \qquad
    \bar g_j = m_j \frac{1}{d}\sum_e g_{e,j}$$

    with $\tau$ = `threshold` and d environments. A zero gradient abstains: it counts in d and for
    neither sign. Ties count as agreement, compared in whole numbers, since sums of signs reach
    every threshold of the papers exactly. What is not finite is never masked (Neitz, thesis,
    §3.2.3).

    Args:
        threshold: 0 keeps everything (the plain mean), 1 asks for unanimity.
        rescale: multiplies the survivors of each parameter tensor ("tensor", as the authors'
            code does; the thesis calls it optional) or of the whole gradient ("global", ours) by
            the number of components over the number of survivors.

    Example:
        >>> import jax.numpy as jnp
        >>> grads = jnp.array([[1.0, 1.0], [3.0, -3.0]])  # two environments, two weights
        >>> rule = and_mask(1.0)
        >>> rule.update(grads, rule.init(jnp.zeros(2)))[0].tolist()
        [2.0, 0.0]
    """
    _check_threshold(threshold)
    if rescale not in (None, "tensor", "global"):
        raise ValueError(f'`rescale` must be None, "tensor" or "global"; got {rescale!r}')

    def agreed(grads: Float[Array, " envs *shape"]) -> Bool[Array, " *shape"]:
        return sign_agreement(grads) >= min_agreement(threshold, len(grads))

    def choose(grads: PyTree[Any]) -> PyTree[Any]:
        _warn_of_one_environment(grads)
        return jax.tree.map(agreed, grads)

    return _aggregator(choose, rescale=rescale)


def sign_agreement(grads: Float[Array, " envs *shape"]) -> Int[Array, " *shape"]:
    """Returns by how many environments the majority sign leads: |number of + minus number of -|."""
    signs = (grads > 0).astype(jnp.int32) - (grads < 0).astype(jnp.int32)
    return jnp.abs(jnp.sum(signs, axis=0))


def min_agreement(threshold: float, num_envs: int) -> int:
    """Returns the smallest lead that `threshold` accepts, computed so that ties are exact.

    Example:
        >>> min_agreement(0.6, 25)  # 0.6 * 25 is 15.000000357 in single precision
        15
    """
    return math.ceil(threshold * num_envs - ROUNDING)


def _aggregator(
    choose: Callable[[PyTree[Any]], PyTree[Any]], *, rescale: Rescale | None
) -> optax.GradientTransformation:
    """Makes the transformation that averages and keeps the components that `choose` marks."""

    def init(params: PyTree[Any]) -> AgreementState:
        return AgreementState(jax.tree.map(lambda _: jnp.float32(1.0), params))

    def update(
        grads: PyTree[Any], state: AgreementState, params: PyTree[Any] | None = None
    ) -> tuple[PyTree[Any], AgreementState]:
        del state, params
        _check_environments(grads)
        keep = choose(grads)
        fractions = jax.tree.map(lambda mask: jnp.mean(mask, dtype=jnp.float32), keep)
        averaged = jax.tree.map(_masked_mean, grads, keep)
        if rescale is not None:
            scales = fractions if rescale == "tensor" else _pooled(keep)
            averaged = jax.tree.map(_scale_up, averaged, scales)
        return averaged, AgreementState(fractions)

    return optax.GradientTransformation(init, update)  # pyright: ignore[reportArgumentType]


def _keep_all(grads: Float[Array, " envs *shape"]) -> Bool[Array, " *shape"]:
    return jnp.ones(grads.shape[1:], bool)


def _masked_mean(
    grads: Float[Array, " envs *shape"], keep: Bool[Array, " *shape"]
) -> Float[Array, " *shape"]:
    mean = jnp.mean(grads, axis=0, dtype=jnp.promote_types(grads.dtype, jnp.float32))
    # A gradient that is not finite must be seen, not masked away.
    return jnp.where(keep | ~jnp.isfinite(mean), mean, 0.0).astype(grads.dtype)


def _pooled(keep: PyTree[Any]) -> PyTree[Any]:
    masks = jax.tree.leaves(keep)
    total = sum(mask.size for mask in masks)
    kept = sum(jnp.sum(mask, dtype=jnp.float32) for mask in masks)
    return jax.tree.map(lambda _: kept / total, keep)


def _scale_up(
    grads: Float[Array, " *shape"], fraction: Float[Array, ""]
) -> Float[Array, " *shape"]:
    scale = jnp.where(fraction > 0, 1.0 / jnp.where(fraction > 0, fraction, 1.0), 0.0)
    return jnp.where(jnp.isfinite(grads), grads * scale, grads).astype(grads.dtype)


def _check_threshold(threshold: float) -> None:
    if not 0.0 <= threshold <= 1.0:
        raise ValueError(
            f"`threshold` is the share of environments that must agree, in [0, 1]; got "
            f"{threshold}. Use 0 for the plain mean and 1 for unanimity."
        )


def _check_environments(grads: PyTree[Any]) -> None:
    sizes = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(grads):
        name = jax.tree_util.keystr(path) or "the gradient"
        if jnp.ndim(leaf) == 0:
            raise ValueError(
                f"gradients need a leading axis of environments, but {name} is a scalar; stack "
                f"one gradient per environment, as `environment_gradients` does"
            )
        sizes.setdefault(leaf.shape[0], name)
    if len(sizes) > 1:
        (first, one), (second, other) = list(sizes.items())[:2]
        raise ValueError(
            f"all gradients need the same number of environments on their leading axis; "
            f"{one} has {first}, {other} has {second}"
        )


def _warn_of_one_environment(grads: PyTree[Any]) -> None:
    if any(len(leaf) == 1 for leaf in jax.tree.leaves(grads)):
        warnings.warn(
            "there is only one environment, so there is nothing to agree on: only components "
            "that are exactly zero are masked",
            stacklevel=5,
        )
