r"""Rules that turn the gradients of several environments into one gradient.

They are Optax transformations whose input has a leading axis of environments, like
`optax.contrib.differentially_private_aggregate`: put one first in a chain. The rest of the chain
sees an ordinary gradient. In the place of stacked gradients they take `GradientStatistics`.

    optax.chain(and_mask(0.8, rescale="tensor"), optax.add_decayed_weights(1e-4), optax.adam(1e-2))

Neither `optax.MultiSteps` nor `optax.apply_every` may come before one: they average first. With
`optax.adamw` the AND-mask does not train the networks of the thesis: the decay has to pass through
Adam, which turns it into a steady pull towards zero on the components that are masked.

What is not finite in any one environment is masked by no rule: it is handed on, to be seen.
"""

import functools
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from recombine.methods.agreement._joining import (
    AgreementState,
    Joined,
    Rescale,
    aggregator,
    apply_masks,
    as_statistics,
    count_of,
    kept_fractions,
    lacks,
    means_of,
    nothing_masked,
    result_types,
    scale_for,
    warn_of_one_environment,
)
from recombine.methods.agreement._masks import (
    AGREE,
    DISPUTE,
    agreement_mask,
    check_share,
    dispute_mask,
)
from recombine.methods.agreement._statistics import EPS_LOG


@functools.cache  # equal settings give one object, so that compiled programs are shared
def arithmetic_mean() -> optax.GradientTransformation:
    """Averages gradients over their leading axis of environments; what pooling the data does.

    Every environment has the same weight, whatever its number of examples.
    """

    def join(grads: PyTree[Any]) -> Joined:
        stats = as_statistics(grads)
        everything = jax.tree.map(lambda total: jnp.ones(total.shape, bool), stats.total)
        return Joined(stats, means_of(stats), everything)

    return aggregator(join, rescale=None)


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
    check_share(threshold, "threshold", AGREE)

    def join(grads: PyTree[Any]) -> Joined:
        stats = as_statistics(grads)
        warn_of_one_environment(stats)
        return Joined(stats, means_of(stats), agreement_mask(stats, threshold))

    return aggregator(join, rescale=rescale)


class AndMask(eqx.Module):
    """The AND-mask with numbers as array leaves, so that one program serves a search over them.

    It does what `and_mask` does, with `rescale` 0 for None and 1 for "tensor", and ties count as
    agreement here too: sums of signs are compared in single precision with a margin of a millionth
    of d, which is exact for every threshold with few decimals. `jax.vmap` over an `AndMask` whose
    leaves have an axis of settings gives one gradient for each. It fits into `optax.chain`.

    Args:
        threshold: 0 keeps everything (the plain mean), 1 asks for unanimity.
        rescale: 1 multiplies the survivors of each parameter tensor by the number of components
            over the number of survivors, 0 does not.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> grads = jnp.array([[1.0, 1.0], [3.0, -3.0]])
        >>> rules = AndMask(jnp.array([0.0, 1.0]), jnp.array([0.0, 1.0]))
        >>> jax.vmap(lambda rule: rule.update(grads, None)[0])(rules).tolist()
        [[2.0, -1.0], [4.0, 0.0]]
    """

    threshold: Float[Array, ""]
    rescale: Float[Array, ""]

    def __init__(self, threshold: Any, rescale: Any = 0.0):
        check_share(threshold, "threshold", AGREE)
        check_share(rescale, "rescale", "is 1 (scale the survivors up) or 0 (do not)")
        self.threshold = jnp.asarray(threshold, jnp.float32)
        self.rescale = jnp.asarray(rescale, jnp.float32)

    def init(self, params: PyTree[Any]) -> AgreementState:
        """Returns the state before the first update, as that of `and_mask`."""
        return nothing_masked(params)

    def update(
        self, grads: PyTree[Any], state: Any, params: PyTree[Any] | None = None
    ) -> tuple[PyTree[Any], AgreementState]:
        """Returns the joined gradient, and what was kept of it."""
        stats = as_statistics(grads)
        warn_of_one_environment(stats)
        masks = agreement_mask(stats, self.threshold)
        fractions = kept_fractions(masks)
        scales = jax.tree.map(
            lambda kept: jnp.where(self.rescale > 0.5, scale_for(kept), 1.0), fractions
        )
        joined = Joined(stats, means_of(stats), masks)
        return apply_masks(joined, scales, result_types(grads, params)), AgreementState(fractions)


@functools.cache
def geometric_mean(
    threshold: float = 1.0,
    *,
    strict: bool = False,
    eps_log: float = EPS_LOG,
    rescale: Rescale | None = None,
) -> optax.GradientTransformation:
    r"""Joins gradients by the geometric mean of their magnitudes, where their signs agree.

    $$G_j = m_j\, \mathrm{sign}\Big(\sum_e g_{e,j}\Big)
    \exp\Big(\frac{1}{d} \sum_e \log(|g_{e,j}| + \epsilon)\Big)$$

    with the mask m of `and_mask`. Where environments agree on a minimum and their curvatures are
    diagonal, it is the gradient of the landscape whose curvature is the geometric mean of theirs:
    it slows down the directions that they curve unequally (Neitz, thesis, §3.2.2).

    With a `threshold` below 1 the magnitude also has the environments that disagree in it, and one
    that is exactly zero contributes $\epsilon^{1/d}$ rather than zero, as in the authors' code.

    Args:
        threshold: as in `and_mask`.
        strict: takes the definition at its word, without $\epsilon$: any disagreement and any zero
            gives zero. It needs a `threshold` of 1.
        eps_log: $\epsilon$. Statistics have been collected with their own.
        rescale: as in `and_mask`.

    Example:
        >>> import jax.numpy as jnp
        >>> grads = jnp.array([[1.0, 1.0], [4.0, -4.0]])
        >>> rule = geometric_mean(strict=True)
        >>> rule.update(grads, rule.init(jnp.zeros(2)))[0].tolist()
        [2.0, 0.0]
    """
    check_share(threshold, "threshold", AGREE)
    if strict and threshold != 1:
        raise ValueError(
            f"`strict` makes every disagreement zero, so `threshold` must be 1; got {threshold}"
        )
    if not eps_log > 0:
        raise ValueError(f"`eps_log` must be above 0; got {eps_log}. Use `strict=True` for none.")

    def join(grads: PyTree[Any]) -> Joined:
        stats = as_statistics(grads, with_logs=True, eps_log=0.0 if strict else eps_log)
        if stats.logs is None:
            raise ValueError(lacks("the geometric mean", "the sum of logarithms", "with_logs"))
        warn_of_one_environment(stats)
        envs = count_of(stats)
        values = jax.tree.map(
            lambda total, logs: jnp.sign(total) * jnp.exp(logs / envs), stats.total, stats.logs
        )
        return Joined(stats, values, agreement_mask(stats, threshold))

    return aggregator(join, rescale=rescale)


@functools.cache
def xor_mask(strength: float, *, rescale: Rescale | None = None) -> optax.GradientTransformation:
    r"""Averages gradients over environments, zeroing the components they agree on.

    $$x_j = 1\Big[\,\Big|\sum_e \mathrm{sign}(g_{e,j})\Big| \le (1 - u) d\,\Big]$$

    with u = `strength`: the opposite of the AND-mask, which shows what is left out there. The
    thesis describes it in words; the formula is ours, and meets the AND-mask at 0, where both keep
    everything (Neitz, thesis, §3.3.2).

    Args:
        strength: 0 keeps everything, 1 only what is exactly undecided.
        rescale: as in `and_mask`.

    Example:
        >>> import jax.numpy as jnp
        >>> grads = jnp.array([[1.0, 1.0], [3.0, -3.0]])
        >>> rule = xor_mask(1.0)
        >>> rule.update(grads, rule.init(jnp.zeros(2)))[0].tolist()
        [0.0, -1.0]
    """
    check_share(strength, "strength", DISPUTE)

    def join(grads: PyTree[Any]) -> Joined:
        stats = as_statistics(grads)
        warn_of_one_environment(stats)
        return Joined(stats, means_of(stats), dispute_mask(stats, strength))

    return aggregator(join, rescale=rescale)
