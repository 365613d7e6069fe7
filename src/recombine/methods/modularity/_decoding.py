r"""Linear decoding: can the latents of tasks be read off what a learner inferred?

Ridge regression solves $(X^\top X + \lambda I) f = X^\top y$ for every latent $y$, the penalty
being on sums over tasks, by at most ten steps of conjugate gradients from zero (as the code of
Schug et al. 2024 does). With more than ten directions in $X$ this stops early, which regularizes.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

CG_STEPS = 10
"""Steps of conjugate gradients in every ridge regression."""


class Decoded(NamedTuple):
    """How much of each latent can be read, on tasks that the decoder was not fitted to."""

    r_squared: Float[Array, " *latents"]
    """1 - SSE/SST of every entry; not a number where an entry does not vary."""
    mean: Float[Array, ""]
    """Over the entries that vary."""
    minimum: Float[Array, ""]


def ridge(
    inputs: Float[Array, "tasks inputs"],
    targets: Float[Array, "tasks outputs"],
    penalty: float,
    *,
    num_steps: int = CG_STEPS,
) -> Float[Array, "outputs inputs"]:
    """Fits `targets ≈ inputs @ result.T` without an intercept; see the module."""
    with jax.default_matmul_precision("highest"):  # sums of squares do not survive rounding
        return _conjugate_gradients(inputs, targets, penalty, num_steps)


def fit_readout(
    latents: Float[Array, "tasks modules"],
    inferred: Float[Array, "tasks latents"],
    *,
    penalty: float = 0.01,
) -> Float[Array, "modules latents"]:
    """Returns the map F from inferred to true latents, e ≈ F ê, without an intercept."""
    return ridge(inferred, latents, penalty)


def fit_mixing(
    latents: Float[Array, "tasks modules"],
    inferred: Float[Array, "tasks latents"],
    *,
    penalty: float = 1e-3,
) -> Float[Array, "latents modules"]:
    """Returns the map A from true to inferred latents, ê ≈ A e, without an intercept.

    `fit_readout` goes the other way, and its penalty bends the map where some inferred latents are
    far smaller than others. Here the regressors are the true latents, whose size is known.
    """
    return ridge(latents, inferred, penalty)


def latent_r_squared(
    latents: Float[Array, " tasks *latents"], predicted: Float[Array, " tasks *latents"]
) -> Float[Array, " *latents"]:
    """Returns 1 - SSE/SST of every entry of the latents, not a number for a constant entry.

    Example:
        >>> import jax.numpy as jnp
        >>> latents = jnp.array([[1.0], [2.0], [3.0]])
        >>> latent_r_squared(latents, jnp.full((3, 1), 2.0)).tolist()
        [0.0]
    """
    error = jnp.sum(jnp.square(latents - predicted), axis=0)
    total = jnp.sum(jnp.square(latents - jnp.mean(latents, axis=0, keepdims=True)), axis=0)
    varies = total > 1e-6 * jnp.maximum(jnp.sum(jnp.square(latents), axis=0), 1e-12)
    return jnp.where(varies, 1 - error / jnp.where(varies, total, 1.0), jnp.nan)


def decode_latents(
    fit_features: Float[Array, "tasks features"],
    fit_latents: Float[Array, " tasks *latents"],
    features: Float[Array, "others features"],
    latents: Float[Array, " others *latents"],
    *,
    penalty: float = 1.0,
    standardize: bool = True,
) -> Decoded:
    """Fits a linear decoder on some tasks and measures it on others.

    Args:
        fit_features: what was adapted to each of the tasks to fit on, flat.
        fit_latents: what those tasks were made from.
        features: the same of the tasks to measure on.
        latents: the same of the tasks to measure on.
        penalty: of the squared weights.
        standardize: centres and scales the features by their statistics in the first set, with an
            intercept that is not penalized. Without it features stay as they are and the intercept
            is a feature like any other, as in the authors' code (whose intercept also vanishes for
            tasks that have an exact zero among their features; ours never does).
    """
    shape = latents.shape[1:]
    flat = fit_latents.reshape(len(fit_latents), -1)
    if standardize:
        mean, spread = jnp.mean(fit_features, axis=0), jnp.std(fit_features, axis=0)
        spread = jnp.where(spread > 1e-12, spread, 1.0)
        fit_features = (fit_features - mean[None]) / spread[None]
        features = (features - mean[None]) / spread[None]
        offset = jnp.mean(flat, axis=0)
    else:
        fit_features, features = (
            jnp.concatenate([x, jnp.ones((len(x), 1), x.dtype)], axis=1)
            for x in (fit_features, features)
        )
        offset = jnp.zeros(flat.shape[1], flat.dtype)
    weights = ridge(fit_features, flat - offset[None], penalty)
    predicted = jnp.matmul(features, weights.T, precision="highest") + offset[None]
    scores = latent_r_squared(latents, predicted.reshape(len(features), *shape))
    return Decoded(scores, jnp.nanmean(scores), jnp.nanmin(scores))


def _conjugate_gradients(
    inputs: Array, targets: Array, penalty: float, num_steps: int
) -> Float[Array, "outputs inputs"]:
    def apply(weights: Array) -> Array:  # one column for each output
        return inputs.T @ (inputs @ weights) + penalty * weights

    def divide(top: Array, bottom: Array) -> Array:  # a solved column has nothing left to do
        return jnp.where(bottom > 0, top / jnp.where(bottom > 0, bottom, 1.0), 0.0)

    def step(_: int, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        solution, residual, direction = carry
        image = apply(direction)
        power = jnp.sum(jnp.square(residual), axis=0)
        length = divide(power, jnp.sum(direction * image, axis=0))
        solution = solution + length[None] * direction
        residual = residual - length[None] * image
        turn = divide(jnp.sum(jnp.square(residual), axis=0), power)
        return solution, residual, residual + turn[None] * direction

    right = inputs.T @ targets
    start = (jnp.zeros_like(right), right, right)
    return jax.lax.fori_loop(0, num_steps, step, start)[0].T
