r"""How hard to vary a solution is (Neitz, thesis, §3.2.1).

$$\mathcal I^\epsilon(\theta^*) = \max_{e, e'} \; \max_{\theta \in N^\epsilon_{e,\theta^*}}
|L_{e'}(\theta) - L_e(\theta^*)|$$

where $N^\epsilon_{e,\theta^*}$ is the connected region around $\theta^*$ in which the loss of
environment e differs from $L_e(\theta^*)$ by at most $\epsilon$: the parameters that e cannot tell
from $\theta^*$. Another environment may tell them apart very well; then the solution is a patchwork
that happens to suit both.

The thesis calls N the largest connected region "containing both", which is loose; this is the
reading that fits its explanation and its proofs. Two equal quadratic landscapes score exactly
$\epsilon$, as it remarks.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax import core as jax_core
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from recombine.methods.consistency._ascent import climb
from recombine.methods.consistency._curvature import FULL_UP_TO, Curvature, unwhiten, whitening
from recombine.methods.consistency._landscapes import Landscapes, Loss, make_landscapes


class Inconsistency(NamedTuple):
    """The score of a solution, and where it is reached."""

    score: Float[Array, ""]
    """The largest difference found: a lower bound on the true score."""
    region: Int[Array, ""]
    """The environment that cannot tell `params` from the solution."""
    judge: Int[Array, ""]
    """The environment that can."""
    params: PyTree[Any]
    """The variation of the solution at which the score is reached."""
    by_pair: Float[Array, "envs envs"]
    """The score of every pair: rows are regions, columns judges."""
    losses: Float[Array, " envs"]
    """The loss of every environment at the solution."""


def inconsistency(
    losses: Loss | Sequence[Loss],
    params: PyTree[Any],
    epsilon: float | Float[Array, ""],
    *,
    key: PRNGKeyArray,
    batches: PyTree[Any] | None = None,
    steps: int = 200,
    restarts: int = 4,
    radius: float | Float[Array, ""] | None = None,
    curvature: Curvature | None = None,
    pairs_at_once: int | None = None,
) -> Inconsistency:
    """Measures how much a solution can be varied unseen by one environment, but seen by another.

    It climbs every environment's loss inside the region that another cannot tell from the solution,
    from several starts, upwards and downwards, and reports the largest difference found: a lower
    bound. The region of an environment that leaves a direction free has no end, and then the score
    grows with `steps`; `radius` says how far from the solution is still a variation of it.

    `epsilon` has to stand well above the rounding of the losses, about 1e-7 of them.

    Args:
        losses: one function of the parameters for every environment; or, with `batches`, one
            function of the parameters and of one environment's batch.
        params: the solution, any pytree; only its floating-point arrays vary.
        epsilon: how far a loss may move before its environment notices.
        key: for the starts of the walks.
        batches: a pytree whose arrays have a leading axis of environments.
        steps: how many steps a walk tries. Each costs about ten evaluations of a loss.
        restarts: walks of every pair in each of the two directions.
        radius: the largest Euclidean distance from `params`; by default, any.
        curvature: what steps are measured by; by default the whole Hessian up to 128 parameters,
            and beyond that an estimate of its diagonal.
        pairs_at_once: how many pairs of environments are walked at a time; by default all on an
            accelerator where the environments are `batches`, and otherwise one.

    Example:
        >>> import jax.numpy as jnp, jax.random as jr
        >>> def loss(w, curvature):
        ...     return 0.5 * jnp.sum(curvature * w**2)
        >>> curvatures = jnp.array([[0.05, 1.0], [1.0, 0.05]])
        >>> found = inconsistency(loss, jnp.zeros(2), 0.01, key=jr.key(0), batches=curvatures)
        >>> 0.19 < found.score <= 0.2  # exactly: 20 times epsilon
        Array(True, dtype=bool)
    """
    _check(epsilon, steps, restarts, radius, curvature)
    scapes = make_landscapes(losses, params, batches)
    if curvature is None:
        curvature = "full" if scapes.point.size <= FULL_UP_TO else "diagonal"
    if pairs_at_once is None:
        all_at_once = scapes.are_batched and jax.default_backend() != "cpu"
        pairs_at_once = scapes.num_envs**2 if all_at_once else 1
    reach = jnp.inf if radius is None else radius
    functions = losses if callable(losses) else tuple(losses)
    found = _measure(
        functions,
        params,
        batches,
        jnp.float32(epsilon),
        jnp.float32(reach),
        key,
        steps,
        restarts,
        curvature,
        pairs_at_once,
    )
    _check_finite(found.losses)
    return found


@eqx.filter_jit
def _measure(
    losses: Loss | tuple[Loss, ...],
    params: PyTree[Any],
    batches: PyTree[Any] | None,
    epsilon: Float[Array, ""],
    radius: Float[Array, ""],
    key: PRNGKeyArray,
    steps: int,
    restarts: int,
    curvature: Curvature,
    pairs_at_once: int,
) -> Inconsistency:
    scapes = make_landscapes(losses, params, batches)
    envs = jnp.arange(scapes.num_envs)
    at_solution = jax.lax.map(lambda env: scapes.loss(env, scapes.point), envs)
    region_key, walk_key = jr.split(key)
    scales = jax.lax.map(
        lambda env: whitening(
            lambda flat: scapes.loss(env, flat),
            scapes.point,
            curvature,
            jr.fold_in(region_key, env),
        ),
        envs,
    )
    pairs = jnp.stack(jnp.meshgrid(envs, envs, indexing="ij"), axis=-1).reshape(-1, 2)

    def explore(pair: Int[Array, " 2"]) -> tuple[Float[Array, ""], Float[Array, " dims"]]:
        region, judge = pair
        pair_key = jr.fold_in(jr.fold_in(walk_key, region), judge)
        return _explore_pair(
            scapes, region, judge, at_solution, scales[region], epsilon, radius, pair_key,
            steps, restarts,
        )  # fmt: skip

    batch_size = pairs_at_once if pairs_at_once > 1 else None
    scores, points = jax.lax.map(explore, pairs, batch_size=batch_size)
    worst = jnp.argmax(scores)
    return Inconsistency(
        score=scores[worst],
        region=pairs[worst, 0],
        judge=pairs[worst, 1],
        params=scapes.to_params(points[worst]),
        by_pair=scores.reshape(scapes.num_envs, scapes.num_envs),
        losses=at_solution,
    )


def _explore_pair(
    scapes: Landscapes,
    region: Int[Array, ""],
    judge: Int[Array, ""],
    at_solution: Float[Array, " envs"],
    scale: Float[Array, " dims *dims"],
    epsilon: Float[Array, ""],
    radius: Float[Array, ""],
    key: PRNGKeyArray,
    steps: int,
    restarts: int,
) -> tuple[Float[Array, ""], Float[Array, " dims"]]:
    """Returns the largest difference that the walks of one pair find, and where."""
    level = at_solution[region]

    def place(step: Float[Array, " dims"]) -> Float[Array, " dims"]:
        return scapes.point + unwhiten(scale, step)

    def shorten(step: Float[Array, " dims"]) -> Float[Array, " dims"]:
        distance = jnp.linalg.norm(unwhiten(scale, step))
        return step * jnp.where(distance > radius, radius / jnp.maximum(distance, 1e-30), 1.0)

    def walk(sign: Float[Array, ""], walk_key: PRNGKeyArray) -> tuple[Array, Array]:
        end = climb(
            own=lambda step: scapes.loss(region, place(step)) - level,
            other=lambda step: sign * (scapes.loss(judge, place(step)) - level),
            epsilon=epsilon,
            shorten=shorten,
            dims=scapes.point.size,
            steps=steps,
            key=walk_key,
        )
        return jnp.abs(end.height), end.point

    keys = jr.split(key, 2 * restarts)
    signs = jnp.tile(jnp.array([1.0, -1.0], level.dtype), restarts)
    heights, steps_taken = jax.vmap(walk)(signs, keys)
    standing = jnp.abs(at_solution[judge] - level)  # the solution itself lies in its region
    heights = jnp.concatenate([standing[None], heights])
    steps_taken = jnp.concatenate([jnp.zeros_like(steps_taken[:1]), steps_taken])
    best = jnp.argmax(jnp.where(jnp.isfinite(heights), heights, -jnp.inf))
    return heights[best], place(steps_taken[best])


def _check(
    epsilon: float | Float[Array, ""],
    steps: int,
    restarts: int,
    radius: float | Float[Array, ""] | None,
    curvature: Curvature | None,
) -> None:
    if isinstance(epsilon, int | float) and not 0 < epsilon < float("inf"):
        raise ValueError(
            f"`epsilon` is a difference of losses that goes unnoticed, above 0; got {epsilon}"
        )
    for name, value in (("steps", steps), ("restarts", restarts)):
        if value < 1:
            raise ValueError(f"`{name}` must be at least 1; got {value}")
    if radius is not None and isinstance(radius, int | float) and not radius > 0:
        raise ValueError(f"`radius` is a distance, above 0, or None for any; got {radius}")
    if curvature not in (None, "full", "diagonal", "none"):
        raise ValueError(
            f'`curvature` must be "full", "diagonal", "none" or None to choose; got {curvature!r}'
        )


def _check_finite(losses: Float[Array, " envs"]) -> None:
    if isinstance(losses, jax_core.Tracer):
        return  # inside another program, where values are not known yet
    bad = np.flatnonzero(~np.isfinite(np.asarray(losses)))
    if len(bad):
        raise ValueError(
            f"the loss at `params` must be finite in every environment; it is "
            f"{float(losses[bad[0]])} in environment {bad[0]}"
        )
