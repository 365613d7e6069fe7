"""The AND-mask over time: one environment per step, agreement over steps (Neitz, thesis, Alg. 4).

Where a batch of every environment in every step is too dear, each step has a batch of one, and the
signs that its gradients have had are remembered by an exponential moving average. The thesis prints
Adam without bias correction; we follow the authors' code, whose Adam has it, and leave a switch.
The average of signs is never corrected: it starts at zero, so that no weight moves before its
gradient has kept its sign for some steps.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from recombine.methods.agreement._decay import (
    DecayPlacement,
    Number,
    check_placement,
    decay_after,
)
from recombine.methods.agreement._joining import kept_fractions
from recombine.methods.agreement._masks import ROUNDING, check_share
from recombine.methods.agreement._signs import sign


class TemporalState(NamedTuple):
    """The signs so far, what the last update kept of every tensor, and the inner state."""

    sign_ema: PyTree[Float[Array, "..."]]
    kept: PyTree[Float[Array, ""]]
    inner: Any


def temporal_and_mask(
    inner: optax.GradientTransformation, b3: Number, threshold: Number
) -> optax.GradientTransformationExtraArgs:
    r"""Masks the updates of `inner` where the gradient has not kept its sign over the last steps.

    $$a \leftarrow \beta_3 a + (1 - \beta_3)\,\mathrm{sign}(g), \qquad
    u \leftarrow u \odot 1[\,|a| \ge \tau\,]$$

    with $\beta_3$ = `b3`, $\tau$ = `threshold`, g the gradient as it comes in and u what `inner`
    makes of it. Only the step is masked: the moments of `inner` see every gradient. It is a looser
    mask than `and_mask`: random signs make an average with a standard deviation of
    $\sqrt{(1-\beta_3)/(1+\beta_3)}$. An update that is not finite is not masked.

    Args:
        inner: what makes updates of gradients, for example `optax.scale_by_adam()`. Weight decay
            inside it is masked; `decay_after` behind the mask is not.
        b3: the share of the average of signs that is kept in a step, in [0, 1).
        threshold: 0 masks nothing. Ties pass.

    Example:
        >>> import jax.numpy as jnp
        >>> rule = temporal_and_mask(optax.identity(), b3=0.5, threshold=0.7)
        >>> state = rule.init(jnp.zeros(2))
        >>> for grads in ([1.0, 1.0], [2.0, -2.0]):
        ...     updates, state = rule.update(jnp.array(grads), state)
        ...     print(updates.tolist())
        [0.0, 0.0]
        [2.0, 0.0]
    """
    check_share(threshold, "threshold", "is what the average of signs must reach, in [0, 1]")
    check_share(b3, "b3", "is the share of the average of signs that is kept, in [0, 1)")
    if isinstance(b3, int | float) and b3 == 1:
        raise ValueError("`b3` must be below 1: the average of signs would stay zero")
    inner = optax.with_extra_args_support(inner)

    def init(params: PyTree[Any]) -> TemporalState:
        return TemporalState(
            sign_ema=jax.tree.map(lambda leaf: jnp.zeros(jnp.shape(leaf), jnp.float32), params),
            kept=jax.tree.map(lambda _: jnp.float32(1.0), params),
            inner=inner.init(params),
        )

    def update(
        grads: PyTree[Any],
        state: TemporalState,
        params: PyTree[Any] | None = None,
        **extra_args: Any,
    ) -> tuple[PyTree[Any], TemporalState]:
        updates, inner_state = inner.update(grads, state.inner, params, **extra_args)
        sign_ema = jax.tree.map(
            lambda average, grad: b3 * average + (1 - b3) * sign(grad), state.sign_ema, grads
        )
        masks = jax.tree.map(lambda average: jnp.abs(average) >= threshold - ROUNDING, sign_ema)
        masked = jax.tree.map(
            lambda leaf, mask: jnp.where(mask | ~jnp.isfinite(leaf), leaf, 0.0).astype(leaf.dtype),
            updates,
            masks,
        )
        return masked, TemporalState(sign_ema, kept_fractions(masks), inner_state)

    return optax.GradientTransformationExtraArgs(init, update)  # pyright: ignore[reportArgumentType]


def temporal_and_mask_adam(
    learning_rate: optax.ScalarOrSchedule,
    b1: Number = 0.9,
    b2: Number = 0.999,
    *,
    b3: Number,
    threshold: Number,
    eps: Number = 1e-8,
    weight_decay: Number = 0.0,
    decay_placement: DecayPlacement = "after",
    bias_correction: bool = True,
) -> optax.GradientTransformationExtraArgs:
    """Returns Adam with the temporal AND-mask, in the place of any other optimizer.

    All numbers may be arrays, so that one compiled program serves a search over them.
    `optax.tree.get(state, "sign_ema")` finds the average of signs in its state, and "count", "mu",
    "nu" and "kept" likewise.

    Args:
        learning_rate: a number or a schedule.
        b1: as in Adam.
        b2: as in Adam. The thesis does not print it.
        b3: the share of the average of signs that is kept in a step.
        threshold: what the magnitude of that average must reach for a weight to move.
        eps: as in Adam, outside the root.
        weight_decay: the strength.
        decay_placement: "after" lets all weights decay in a second update, masked ones too, as the
            thesis found to help. "before" adds the decay to the gradient that Adam sees, so that
            the mask is on it too; the signs are those of the gradient without it.
        bias_correction: False for the moments as the thesis prints them.

    Example:
        >>> import jax.numpy as jnp
        >>> optimizer = temporal_and_mask_adam(0.1, b3=0.5, threshold=0.7)
        >>> weights = jnp.zeros(1)
        >>> state = optimizer.init(weights)
        >>> for _ in range(2):
        ...     updates, state = optimizer.update(jnp.array([3.0]), state, weights)
        ...     print(f"{updates[0]:.3f}")
        -0.000
        -0.100
    """
    check_placement(decay_placement)
    scale_by_adam: Any = optax.scale_by_adam if bias_correction else _scale_by_uncorrected_adam
    adam = scale_by_adam(b1, b2, eps)
    scale = optax.scale_by_learning_rate(learning_rate)
    if decay_placement == "before":
        decayed = optax.chain(optax.add_decayed_weights(weight_decay), adam)  # pyright: ignore[reportArgumentType]
        return optax.chain(temporal_and_mask(decayed, b3, threshold), scale)
    return optax.chain(
        temporal_and_mask(adam, b3, threshold), scale, decay_after(learning_rate, weight_decay)
    )


def cycle_environments(
    key: PRNGKeyArray, num_envs: int
) -> Callable[[int | Int[Array, ""]], Int[Array, ""]]:
    """Returns which environment a step takes its batch from: all once per cycle, in random order.

    The order of a cycle depends on the key and its number alone, so that a run can go on midway.

    Example:
        >>> import jax.random as jr
        >>> environment_of = cycle_environments(jr.key(0), 4)
        >>> sorted(int(environment_of(step)) for step in range(4, 8))
        [0, 1, 2, 3]
    """
    if num_envs < 1:
        raise ValueError(f"`num_envs` must be at least 1; got {num_envs}")

    def environment_of(step: int | Int[Array, ""]) -> Int[Array, ""]:
        step = jnp.asarray(step)
        order = jr.permutation(jr.fold_in(key, step // num_envs), num_envs)
        return order[step % num_envs]

    return environment_of


def _scale_by_uncorrected_adam(b1: Number, b2: Number, eps: Number) -> optax.GradientTransformation:
    """Divides the first moment by the root of the second, as they are."""

    def init(params: PyTree[Any]) -> optax.ScaleByAdamState:
        zeros = jax.tree.map(jnp.zeros_like, params)
        return optax.ScaleByAdamState(count=jnp.zeros([], jnp.int32), mu=zeros, nu=zeros)

    def update(
        grads: PyTree[Any], state: optax.ScaleByAdamState, params: PyTree[Any] | None = None
    ) -> tuple[PyTree[Any], optax.ScaleByAdamState]:
        del params
        mu = jax.tree.map(lambda m, g: (b1 * m + (1 - b1) * g).astype(m.dtype), state.mu, grads)
        nu = jax.tree.map(lambda v, g: (b2 * v + (1 - b2) * g * g).astype(v.dtype), state.nu, grads)
        updates = jax.tree.map(lambda m, v: m / (jnp.sqrt(v) + eps), mu, nu)
        return updates, optax.ScaleByAdamState(optax.safe_increment(state.count), mu, nu)

    return optax.GradientTransformation(init, update)  # pyright: ignore[reportArgumentType]
