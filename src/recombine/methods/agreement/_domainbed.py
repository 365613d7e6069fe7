"""For people who come from DomainBed: its ANDMask as one optimizer, and its SANDMask."""

import functools
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from recombine.methods.agreement._aggregators import and_mask
from recombine.methods.agreement._joining import (
    Joined,
    Rescale,
    aggregator,
    as_statistics,
    count_of,
    lacks,
    means_of,
    warn_of_one_environment,
)
from recombine.methods.agreement._masks import AGREE, ROUNDING, check_share, lead_of
from recombine.methods.agreement._statistics import GradientStatistics


def domainbed_and_mask(
    threshold: float = 1.0,
    learning_rate: optax.ScalarOrSchedule = 5e-5,
    weight_decay: float = 0.0,
) -> optax.GradientTransformationExtraArgs:
    """Returns the whole optimizer of DomainBed's ANDMask: mask, rescaling, coupled decay and Adam.

    The defaults are DomainBed's for pretrained networks; for its small images the learning rate is
    1e-3. The update takes one gradient per domain, stacked or as `statistics_of` sums them.

    Args:
        threshold: the share of domains that must agree. With few domains most values mean the
            same; `attainable_levels` lists those that differ.
        learning_rate: of Adam; a number or a schedule.
        weight_decay: added to the masked gradient, before Adam.

    Example:
        >>> import jax.numpy as jnp
        >>> params, grads = jnp.ones(2), jnp.array([[1.0, 1.0], [3.0, -3.0]])
        >>> optimizer = domainbed_and_mask(learning_rate=0.1)
        >>> updates, state = optimizer.update(grads, optimizer.init(params), params)
        >>> [f"{value:.3f}" for value in updates]
        ['-0.100', '-0.000']
    """
    return optax.chain(
        and_mask(threshold, rescale="tensor"),
        optax.add_decayed_weights(weight_decay),
        optax.adam(learning_rate),
    )


def sand_mask(
    threshold: float = 0.5, k: float = 10.0, *, rescale: Rescale | None = "tensor"
) -> optax.GradientTransformation:
    r"""Averages gradients with a soft mask, as DomainBed's SANDMask does.

    $$m_j = \max\Big(0, \tanh\Big(\frac{k}{\sigma_j^2}
    \Big(\frac1d\Big|\sum_e \mathrm{sign}(g_{e,j})\Big| - \tau\Big)\Big)\Big)$$

    with $\sigma_j^2$ the unbiased variance over environments (Shahtalebi et al. 2021,
    arXiv 2106.02266). Without variance the mask is 1 above the threshold and 0 elsewhere. From
    statistics, the variance is a difference of sums, which loses digits where it is small beside
    the mean.

    Args:
        threshold: $\tau$. DomainBed's default, 1, masks everything; ours is below it.
        k: how sharply the mask rises.
        rescale: "tensor" divides by the mean of each parameter tensor's mask, as DomainBed does.

    Example:
        >>> import jax.numpy as jnp
        >>> grads = jnp.array([[1.0, 1.0], [3.0, -3.0]])
        >>> rule = sand_mask(0.5)
        >>> jnp.abs(rule.update(grads, rule.init(jnp.zeros(2)))[0]).round(2).tolist()
        [4.0, 0.0]
    """
    if threshold == 1:
        warnings.warn(
            "with a `threshold` of 1 the mask of `sand_mask` is zero everywhere and nothing "
            "trains; choose one below 1",
            stacklevel=2,
        )
    return _sand_mask(threshold, k, rescale=rescale)


@functools.cache
def _sand_mask(
    threshold: float, k: float, *, rescale: Rescale | None
) -> optax.GradientTransformation:
    check_share(threshold, "threshold", AGREE)
    if not k > 0:
        raise ValueError(f"`k` is how sharply the mask rises, above 0; got {k}")

    def join(grads: PyTree[Any]) -> Joined:
        stats = as_statistics(grads)
        variances = _variances_of_sums(stats) if stats is grads else _variances(grads)
        warn_of_one_environment(stats)
        envs = count_of(stats)

        def soft(signs: Int[Array, "..."], variance: Float[Array, "..."]) -> Float[Array, "..."]:
            excess = lead_of(signs) / envs - threshold
            excess = jnp.where(jnp.abs(excess) < ROUNDING, 0.0, excess)  # ties are exact
            varies = variance > 0
            steep = jnp.tanh(k * excess / jnp.where(varies, variance, 1.0))
            return jnp.maximum(0.0, jnp.where(varies, steep, jnp.sign(excess)))

        return Joined(stats, means_of(stats), jax.tree.map(soft, stats.signs, variances))

    return aggregator(join, rescale=rescale)


def _variances(grads: PyTree[Any]) -> PyTree[Any]:
    def of(leaf: Array) -> Array:
        fine = leaf.astype(jnp.promote_types(leaf.dtype, jnp.float32))
        return jnp.var(fine, axis=0, ddof=1 if len(leaf) > 1 else 0)

    return jax.tree.map(of, grads)


def _variances_of_sums(stats: GradientStatistics) -> PyTree[Any]:
    if stats.squares is None:
        raise ValueError(lacks("SAND", "the sum of squares", "with_squares"))
    envs = count_of(stats)

    def of(total: Array, squares: Array) -> Array:
        return jnp.maximum(0.0, squares - total * (total / envs)) / jnp.maximum(envs - 1, 1)

    return jax.tree.map(of, stats.total, stats.squares)
