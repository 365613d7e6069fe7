"""The few sums that the rules need of many gradients, so that the gradients need not be kept.

The AND-mask needs the sum of the gradients and the sum of their signs, whatever the number of
environments; the geometric mean also needs a sum of logarithms, and SAND a sum of squares. Sums can
be collected a few environments at a time (`accumulate_gradients`), from one gradient after the
other (`statistics_of`), and over devices (`sum_over_devices`). Every rule takes them in the place
of stacked gradients.
"""

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from recombine.methods.agreement._signs import sign

EPS_LOG = 1e-10
"""Added to a magnitude before its logarithm is taken, as in the authors' code."""


class GradientStatistics(eqx.Module):
    """Sums over environments of what the rules need of every gradient; `+` joins two.

    Sums are single precision (or whatever is finer in the gradients), sums of signs 32-bit whole
    numbers. A gradient that is exactly zero has no sign: it counts in `num_envs` and for neither
    side. Half precision underflows to zero early, and then abstains.
    """

    num_envs: int | Int[Array, ""]
    """How many environments there are, or how many were present."""
    total: PyTree[Float[Array, "..."]]
    """The sum of their gradients."""
    signs: PyTree[Int[Array, "..."]]
    """How many gradients are positive, less how many are negative."""
    logs: PyTree[Float[Array, "..."]] | None = None
    """The sum of the logarithms of their magnitudes, for the geometric mean."""
    squares: PyTree[Float[Array, "..."]] | None = None
    """The sum of their squares, for SAND."""

    def __add__(self, other: "GradientStatistics") -> "GradientStatistics":
        """Returns the statistics of the environments of both."""
        for name in ("logs", "squares"):
            if (getattr(self, name) is None) != (getattr(other, name) is None):
                raise ValueError(
                    f"both statistics must have `{name}`, or neither; collect both with "
                    f"`with_{name}=True`"
                )
        return jax.tree.map(operator.add, _wide(self), _wide(other))


def stacked_statistics(
    grads: PyTree[Float[Array, " envs ..."]],
    *,
    present: Bool[Array, " envs"] | Int[Array, " envs"] | Float[Array, " envs"] | None = None,
    with_logs: bool = False,
    with_squares: bool = False,
    eps_log: float = EPS_LOG,
) -> GradientStatistics:
    """Sums gradients over their leading axis of environments.

    Args:
        grads: a pytree whose arrays all have the same leading axis of environments.
        present: 1 for the environments that take part and 0 for those that are missing, which are
            skipped whatever their gradient holds; they do not count in `num_envs`.
        with_logs: also sums the logarithms of the magnitudes, which the geometric mean needs.
        with_squares: also sums the squares, which SAND needs.
        eps_log: added to a magnitude before its logarithm is taken. With 0 a gradient of zero
            counts as if it were 1: it has no logarithm, and no sign to agree with either.

    Example:
        >>> import jax.numpy as jnp
        >>> grads = jnp.array([[1.0, 2.0], [3.0, -2.0], [jnp.nan, jnp.nan]])
        >>> stats = stacked_statistics(grads, present=jnp.array([1, 1, 0]))
        >>> int(stats.num_envs), stats.total.tolist(), stats.signs.tolist()
        (2, [4.0, 0.0], [2, 0])
    """
    num_envs = count_environments(grads)
    if present is not None:
        present = as_presence(present, num_envs)
        grads = jax.tree.map(lambda g: jnp.where(_column(present, g), g, 0), grads)

    def sum_of(function: Callable[[Array], Array]) -> PyTree[Any]:
        def add_up(leaf: Array) -> Array:
            values = function(leaf)
            if present is not None:
                values = jnp.where(_column(present, values), values, 0)
            return jnp.sum(values, axis=0)

        return jax.tree.map(add_up, grads)

    return GradientStatistics(
        num_envs=num_envs if present is None else jnp.sum(present, dtype=jnp.int32),
        total=sum_of(_fine),
        signs=sum_of(lambda grads: sign(grads, jnp.int32)),
        logs=sum_of(lambda g: _log_magnitude(g, eps_log)) if with_logs else None,
        squares=sum_of(lambda g: jnp.square(_fine(g))) if with_squares else None,
    )


def statistics_of(
    gradients: Iterable[PyTree[Any]],
    *,
    with_logs: bool = False,
    with_squares: bool = False,
    eps_log: float = EPS_LOG,
) -> GradientStatistics:
    """Sums gradients that come one after the other, one for every environment.

    This is the way in for batches of unequal size, of which each has its own gradient: every
    environment has the same weight, whatever its number of examples. Of a generator only one
    gradient is held at a time.

    Args:
        gradients: one pytree of gradients per environment, all of the same structure.
        with_logs: as in `stacked_statistics`.
        with_squares: as in `stacked_statistics`.
        eps_log: as in `stacked_statistics`.

    Example:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> batches = [jnp.array([1.0, 3.0]), jnp.array([2.0]), jnp.array([-1.0, -1.0, -1.0])]
        >>> gradient = jax.grad(lambda w, x: w * jnp.mean(x))
        >>> stats = statistics_of(gradient(0.5, batch) for batch in batches)
        >>> stats.num_envs, float(stats.total), int(stats.signs)
        (3, 3.0, 1)
    """

    def of_one(grads: PyTree[Any]) -> GradientStatistics:
        stacked = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], grads)
        return stacked_statistics(
            stacked, with_logs=with_logs, with_squares=with_squares, eps_log=eps_log
        )

    each = map(of_one, gradients)
    first = next(each, None)
    if first is None:
        raise ValueError("`gradients` is empty; give one gradient for every environment")
    return functools.reduce(operator.add, each, first)


def sum_over_devices(stats: GradientStatistics, axis_name: str) -> GradientStatistics:
    """Sums statistics over the devices of `axis_name`, each of which has its own environments.

    Two all-reduces, one of the gradients and one of the signs: no device ever sees the gradient of
    another's environment. Call it inside `jax.shard_map` or `jax.pmap`; the mask that follows is
    then the same everywhere.
    """
    return jax.tree.map(lambda leaf: jax.lax.psum(leaf, axis_name), _wide(stats))


def count_environments(grads: PyTree[Any]) -> int:
    """Returns the length of the leading axis that all arrays of `grads` share."""
    sizes: dict[int, str] = {}
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
    if 0 in sizes:
        raise ValueError(f"there is no environment: the leading axis of {sizes[0]} has length 0")
    return next(iter(sizes), 1)


def as_presence(present: Any, num_envs: int) -> Bool[Array, " envs"]:
    """Returns which environments are there, as a mask of the right length."""
    present = jnp.asarray(present)
    if present.shape != (num_envs,):
        raise ValueError(
            f"`present` has one entry, 0 or 1, for each of the {num_envs} environments; got shape "
            f"{present.shape}"
        )
    return present != 0


def _column(present: Bool[Array, " envs"], like: Array) -> Bool[Array, "..."]:
    return jnp.expand_dims(present, tuple(range(1, like.ndim)))


def _fine(grads: Array) -> Array:
    return grads.astype(jnp.promote_types(grads.dtype, jnp.float32))


def _log_magnitude(grads: Array, eps_log: float) -> Array:
    magnitude = jnp.abs(_fine(grads))
    if eps_log == 0:
        magnitude = jnp.where(magnitude == 0, 1.0, magnitude)
    return jnp.log(magnitude + eps_log)


def _wide(stats: GradientStatistics) -> GradientStatistics:
    """Makes room for sums: a count of signs may have come in 8 bits."""
    signs = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.int32), stats.signs)
    return eqx.tree_at(lambda s: s.signs, stats, signs)
