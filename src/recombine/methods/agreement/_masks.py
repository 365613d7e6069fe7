"""Which components of a gradient the environments agree on, or dispute, and how exactly.

The lead of the majority sign is a whole number of environments, and the thresholds of the papers
meet it exactly: with 80 environments 0.05, 0.1, 0.2, 0.4, 0.6 and 0.8 all have ties. Ties are the
normal case, and they count as agreement; a plain division in single precision would lose some.
"""

import math
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from recombine.methods.agreement._statistics import GradientStatistics, stacked_statistics

ROUNDING = 1e-6
"""Far below 1/d, far above the rounding of `threshold * d`: ties count as agreement."""

AGREE = "is the share of environments that must agree, in [0, 1]: 0 for the plain mean, 1 for all"
DISPUTE = "says how evenly the environments must be split, in [0, 1]: 0 keeps everything"


def agreement_mask(
    stats: GradientStatistics, threshold: float | Float[Array, ""]
) -> PyTree[Bool[Array, "..."]]:
    """Returns which components the AND-mask keeps; `threshold` may be an array under `vmap`.

    Example:
        >>> import jax.numpy as jnp
        >>> from recombine.methods.agreement import stacked_statistics
        >>> stats = stacked_statistics(jnp.array([[1.0, 1.0], [3.0, -3.0]]))
        >>> agreement_mask(stats, 1.0).tolist()
        [True, False]
    """
    check_share(threshold, "threshold", AGREE)
    if isinstance(threshold, int | float) and isinstance(stats.num_envs, int):
        enough: Any = min_agreement(threshold, stats.num_envs)
    else:
        enough = (threshold - ROUNDING) * jnp.asarray(stats.num_envs, jnp.float32)
    return jax.tree.map(lambda signs: lead_of(signs) >= enough, stats.signs)


def dispute_mask(
    stats: GradientStatistics, strength: float | Float[Array, ""]
) -> PyTree[Bool[Array, "..."]]:
    """Returns which components the XOR-mask keeps; `strength` may be an array under `vmap`.

    Example:
        >>> import jax.numpy as jnp
        >>> from recombine.methods.agreement import stacked_statistics
        >>> stats = stacked_statistics(jnp.array([[1.0, 1.0], [3.0, -3.0]]))
        >>> dispute_mask(stats, 1.0).tolist()
        [False, True]
    """
    check_share(strength, "strength", DISPUTE)
    at_most = (1.0 - strength + ROUNDING) * jnp.asarray(stats.num_envs, jnp.float32)
    return jax.tree.map(lambda signs: lead_of(signs) <= at_most, stats.signs)


def sign_agreement(grads: Float[Array, " envs *shape"]) -> Int[Array, " *shape"]:
    """Returns by how many environments the majority sign leads: |number of + minus number of -|."""
    return jnp.abs(stacked_statistics(grads).signs)


def min_agreement(threshold: float, num_envs: int) -> int:
    """Returns the smallest lead that `threshold` accepts, computed so that ties are exact.

    Example:
        >>> min_agreement(0.6, 25)  # 0.6 * 25 is 15.000000357 in single precision
        15
    """
    return math.ceil(threshold * num_envs - ROUNDING)


def attainable_levels(num_envs: int) -> tuple[float, ...]:
    """Returns the shares |number of + minus number of -| / d that d environments can reach.

    Only these thresholds differ: one between two levels does the same as the upper one. With three
    environments every threshold above 1/3 means unanimity, and a search over them is vacuous.
    Gradients that are exactly zero abstain, and add the levels in between.

    Example:
        >>> attainable_levels(4), attainable_levels(5)
        ((0.0, 0.5, 1.0), (0.2, 0.6, 1.0))
    """
    if num_envs < 1:
        raise ValueError(f"`num_envs` must be at least 1; got {num_envs}")
    return tuple(lead / num_envs for lead in range(num_envs % 2, num_envs + 1, 2))


def lead_of(signs: Int[Array, "..."]) -> Int[Array, "..."]:
    """Returns the lead of the majority sign, given the sum of signs in any whole type."""
    return jnp.abs(signs.astype(jnp.int32))


def check_share(value: Any, name: str, meaning: str) -> None:
    """Refuses what lies outside [0, 1], except under a transformation, where it is not known."""
    if isinstance(value, jax.core.Tracer):
        return
    if not np.all((np.asarray(value) >= 0) & (np.asarray(value) <= 1)):
        raise ValueError(f"`{name}` {meaning}; got {value}")
