"""The propositions of the thesis as Monte Carlo: every step is one more case to hold them to."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recombine.experiments.agreement._theory_config import (
    HessianPairsConfig,
    MaskedDescentConfig,
    RandomGradientsConfig,
)
from recombine.methods.agreement import and_mask
from recombine.methods.consistency import (
    determinant_ratio,
    diagonal_bound,
    diagonal_inconsistency,
    expected_masked_norm,
    karcher_mean,
    quadratic_inconsistency,
)

ROUNDING = 1e-6  # of the first loss: what single precision may get wrong in a difference of losses
ENOUGH = 30.0  # survivors to expect before a mean of squared norms is compared with its exact value
FIGURE_CURVATURES = (0.05, 0.01)  # of the thesis's Figs. 3.3 and B.3, each beside 1


class Descent(NamedTuple):
    """A random problem, where the descent on it is, and what has been seen on the way."""

    hessians: Float[Array, "envs params params"]
    minima: Float[Array, "envs params"]
    smoothness: Float[Array, ""]  # the largest curvature of the mean loss
    params: Float[Array, " params"]
    first_loss: Float[Array, ""]
    smallest_norm: Float[Array, ""]  # squared, of a masked gradient
    violations: Int[Array, ""]
    step: Int[Array, ""]


class MaskedDescentLearner(eqx.Module):
    r"""Proposition 1: a masked step lowers the loss by at least $\eta/2$ times its squared norm."""

    num_envs: int = eqx.field(static=True)
    num_params: int = eqx.field(static=True)
    threshold: float = eqx.field(static=True)
    stride: Float[Array, ""] = eqx.field(converter=jnp.float32)

    def init(self, key: PRNGKeyArray) -> Descent:
        """Draws quadratic losses of zero and above, each with a minimum of its own."""
        hessian_key, minimum_key, start_key = jr.split(key, 3)
        shape = (self.num_envs, self.num_params, self.num_params)
        factors = jr.normal(hessian_key, shape) / self.num_params**0.5
        hessians = jnp.einsum("eij,ekj->eik", factors, factors)
        minima = jr.normal(minimum_key, shape[:2])
        params = 3 * jr.normal(start_key, shape[1:2])
        smoothness = jnp.linalg.eigvalsh(jnp.mean(hessians, axis=0))[-1]
        first_loss = jnp.mean(_losses(params, hessians, minima))
        zero = jnp.int32(0)
        smallest = jnp.float32(jnp.finfo(jnp.float32).max)
        return Descent(hessians, minima, smoothness, params, first_loss, smallest, zero, zero)

    def step(self, state: Descent, key: PRNGKeyArray) -> tuple[Descent, dict[str, Array]]:
        """Makes one masked update, and checks the inequality."""
        before = jnp.mean(_losses(state.params, state.hessians, state.minima))
        grads = jnp.einsum("eij,ej->ei", state.hessians, state.params[None, :] - state.minima)
        rule = and_mask(self.threshold)
        masked = rule.update(grads, rule.init(state.params))[0]
        rate = self.stride / state.smoothness
        params = state.params - rate * jnp.asarray(masked)
        after = jnp.mean(_losses(params, state.hessians, state.minima))
        norm = jnp.sum(jnp.asarray(masked) ** 2)
        is_broken = after > before - 0.5 * rate * norm + ROUNDING * state.first_loss
        new = state._replace(
            params=params,
            smallest_norm=jnp.minimum(state.smallest_norm, norm),
            violations=state.violations + is_broken,
            step=state.step + 1,
        )
        return new, {"loss": before, "masked_norm": norm}

    def evaluate(self, state: Descent, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns how often it was broken, and the smallest gradient beside its bound."""
        rate = self.stride / state.smoothness
        bound = 2 * state.first_loss / (rate * jnp.maximum(state.step, 1))
        return {
            "violations": state.violations.astype(jnp.float32),
            "smallest_norm": jnp.minimum(state.smallest_norm, bound * 1e6),
            "bound": bound,
            "share_of_bound": jnp.minimum(state.smallest_norm / bound, 1e6),
        }


class Norms(NamedTuple):
    """Sums over draws, one for each number of environments."""

    draws: Float[Array, ""]
    mean: Float[Array, " numbers"]
    mean_squared: Float[Array, " numbers"]
    masked: Float[Array, " numbers"]
    masked_squared: Float[Array, " numbers"]


class RandomGradientsLearner(eqx.Module):
    """Proposition 2: masked random gradients vanish exponentially with more environments."""

    num_envs: tuple[int, ...] = eqx.field(static=True)
    num_params: int = eqx.field(static=True)
    threshold: float = eqx.field(static=True)

    def init(self, key: PRNGKeyArray) -> Norms:
        """Returns sums over nothing."""
        zeros = jnp.zeros(len(self.num_envs))
        return Norms(jnp.float32(0.0), zeros, zeros, zeros, zeros)

    def step(self, state: Norms, key: PRNGKeyArray) -> tuple[Norms, dict[str, Array]]:
        """Draws gradients for every number of environments, and joins them."""
        rule = and_mask(self.threshold)
        plain, masked = [], []
        for envs in self.num_envs:
            grads = jr.normal(jr.fold_in(key, envs), (envs, self.num_params))
            joined = rule.update(grads, rule.init(grads[0]))[0]
            plain.append(jnp.sum(jnp.mean(grads, axis=0) ** 2))
            masked.append(jnp.sum(jnp.asarray(joined) ** 2))
        mean, left = jnp.stack(plain), jnp.stack(masked)
        added = Norms(jnp.float32(1.0), mean, mean**2, left, left**2)
        return jax.tree.map(jnp.add, state, added), {"masked_norm": jnp.sum(left)}

    def evaluate(self, state: Norms, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns the farthest mean from its exact value, and what is left beyond 100."""
        many = jnp.array([envs > 100 for envs in self.num_envs])
        plain, masked = self._means(state)
        return {
            "left_beyond_100": jnp.sum(jnp.where(many, masked.value, 0.0)),
            "standard_errors": jnp.maximum(plain.errors.max(), masked.errors.max()),
            "compared": jnp.sum(masked.is_compared).astype(jnp.float32),
        }

    def inspect(self, state: Norms, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns the measured norms, and the exact ones for every number of environments."""
        every = np.arange(2, max(self.num_envs) + 1)
        exact = [expected_masked_norm(int(d), self.threshold, self.num_params) for d in every]
        plain, masked = self._means(state)
        return {
            "num_envs": jnp.array(self.num_envs),
            "measured": jnp.stack([plain.value, masked.value]),
            "every_num_envs": jnp.asarray(every),
            "exact": jnp.array([[e.mean for e in exact], [e.masked for e in exact]]),
            "bound": jnp.array([e.bound for e in exact]),
        }

    def _means(self, state: Norms) -> tuple["_Compared", "_Compared"]:
        exact = [expected_masked_norm(d, self.threshold, self.num_params) for d in self.num_envs]
        survivors = jnp.array([e.kept * self.num_params for e in exact]) * state.draws
        return (
            _compare(state.draws, state.mean, state.mean_squared,
                     jnp.array([e.mean for e in exact]), jnp.ones(len(exact), bool)),
            _compare(state.draws, state.masked, state.masked_squared,
                     jnp.array([e.masked for e in exact]), survivors >= ENOUGH),
        )  # fmt: skip


class _Compared(NamedTuple):
    """Measured means, and how many standard errors they are from the exact values."""

    value: Float[Array, " numbers"]
    errors: Float[Array, " numbers"]  # 0 where too little survives to compare
    is_compared: Float[Array, " numbers"]


def _compare(
    count: Float[Array, ""],
    total: Float[Array, " numbers"],
    squared: Float[Array, " numbers"],
    exact: Float[Array, " numbers"],
    is_compared: Array,
) -> _Compared:
    count = jnp.maximum(count, 1.0)
    value = total / count
    variance = jnp.maximum(squared / count - value**2, 0.0) * count / jnp.maximum(count - 1, 1.0)
    error = jnp.sqrt(variance / count)
    usable = is_compared & (error > 0)
    return _Compared(
        value,
        jnp.where(usable, jnp.abs(value - exact) / jnp.where(usable, error, 1.0), 0.0),
        usable,
    )


class Pairs(NamedTuple):
    """What has been counted of random pairs of Hessians."""

    draws: Float[Array, ""]
    broken: Float[Array, ""]
    closest: Float[Array, ""]  # the largest score over its bound


class HessianPairsLearner(eqx.Module):
    """Proposition 3: means of Hessians bound the score; the printed constant is too small."""

    num_pairs: int = eqx.field(static=True)
    max_params: int = eqx.field(static=True)
    constant: Float[Array, ""] = eqx.field(converter=jnp.float32)
    decades: Float[Array, ""] = eqx.field(converter=jnp.float32)

    def init(self, key: PRNGKeyArray) -> Pairs:
        """Returns counts of nothing."""
        return Pairs(*[jnp.float32(0.0)] * 3)

    def step(self, state: Pairs, key: PRNGKeyArray) -> tuple[Pairs, dict[str, Array]]:
        """Draws pairs of one to `max_params` curvatures, and compares scores with bounds."""
        size_key, value_key = jr.split(key)
        sizes = jr.randint(size_key, (self.num_pairs, 1, 1), 1, self.max_params + 1)
        shape = (self.num_pairs, 2, self.max_params)
        exponents = jr.uniform(value_key, shape, minval=-1.0) * self.decades
        is_there = jnp.arange(self.max_params)[None, None, :] < sizes
        diagonals = jnp.where(is_there, 10.0**exponents, 1.0)  # 1 and 1 change nothing
        scores = jax.vmap(lambda pair: diagonal_inconsistency(pair, 1.0))(diagonals)
        bounds = self.constant * jax.vmap(lambda pair: diagonal_bound(pair, 1.0, constant=1.0))(
            diagonals
        )
        broken = jnp.mean(scores > bounds, dtype=jnp.float32)
        new = Pairs(
            state.draws + 1,
            state.broken + broken,
            jnp.maximum(state.closest, jnp.max(scores / bounds)),
        )
        return new, {"broken": broken}

    def evaluate(self, state: Pairs, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns the share of pairs that break the bound, and how close one came to it."""
        return {
            "violations": state.broken / jnp.maximum(state.draws, 1.0),
            "score_over_bound": state.closest,
        }

    def inspect(self, state: Pairs, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns the two pairs of the thesis's figures with both of their means."""
        cases = [np.array([[low, 1.0], [1.0, low]]) for low in FIGURE_CURVATURES]
        matrices = [np.stack([np.diag(diagonal) for diagonal in case]) for case in cases]
        shown = [np.stack([*pair, pair.mean(axis=0), karcher_mean(pair)]) for pair in matrices]
        return {
            "ellipses": jnp.array(np.stack(shown)),
            "determinant_ratios": jnp.array([determinant_ratio(case) for case in cases]),
            "scores": jnp.array([quadratic_inconsistency(case, 1.0) for case in cases]),
        }


def _losses(
    params: Float[Array, " params"],
    hessians: Float[Array, "envs params params"],
    minima: Float[Array, "envs params"],
) -> Float[Array, " envs"]:
    away = params[None, :] - minima
    return 0.5 * jnp.einsum("ei,eij,ej->e", away, hessians, away)


def make_masked_descent_learner(config: MaskedDescentConfig) -> MaskedDescentLearner:
    """Returns the learner of proposition 1."""
    return MaskedDescentLearner(
        num_envs=config.num_envs,
        num_params=config.num_params,
        threshold=config.threshold,
        stride=config.stride,  # pyright: ignore[reportArgumentType]
    )


def make_random_gradients_learner(config: RandomGradientsConfig) -> RandomGradientsLearner:
    """Returns the learner of proposition 2."""
    return RandomGradientsLearner(config.num_envs, config.num_params, config.threshold)


def make_hessian_pairs_learner(config: HessianPairsConfig) -> HessianPairsLearner:
    """Returns the learner of proposition 3."""
    return HessianPairsLearner(
        num_pairs=config.num_pairs,
        max_params=config.max_params,
        constant=config.constant,  # pyright: ignore[reportArgumentType]
        decades=config.decades,  # pyright: ignore[reportArgumentType]
    )
