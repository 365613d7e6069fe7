"""Which parameters the environments agree on, layer by layer."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from recombine.methods.agreement import (
    GradientStatistics,
    accumulate_gradients,
    min_agreement,
)
from recombine.methods.consistency._landscapes import count_environments


@dataclass(frozen=True)
class AgreementProfile:
    """By how many environments the majority sign of each gradient component leads.

    The lead of a component is |number of + minus number of -|, from 0 to the number of
    environments. A gradient that is exactly zero abstains.
    """

    num_envs: int
    leads: PyTree[Any]
    """The lead of every single parameter, shaped like the parameters."""
    counts: dict[str, Int[np.ndarray, " leads"]]
    """For every parameter tensor, how many components have a lead of 0, 1, 2 and so on."""
    idle: dict[str, float]
    """For every parameter tensor, the share of components whose gradient is zero everywhere."""

    @property
    def levels(self) -> Float[np.ndarray, " leads"]:
        """The agreement |mean sign| of each lead, from 0 to 1."""
        return np.arange(self.num_envs + 1) / self.num_envs

    @property
    def shares(self) -> dict[str, Float[np.ndarray, " leads"]]:
        """For every parameter tensor, the share of components at each of `levels`."""
        return {name: counts / counts.sum() for name, counts in self.counts.items()}

    @property
    def by_chance(self) -> Float[np.ndarray, " leads"]:
        """The shares that coin tosses in place of gradients would have."""
        return chance_of_leads(self.num_envs)

    def mean(self) -> dict[str, float]:
        """Returns the mean agreement of every parameter tensor."""
        return {name: float(share @ self.levels) for name, share in self.shares.items()}

    def kept(self, threshold: float) -> dict[str, float]:
        """Returns the share of every parameter tensor that an AND-mask would keep."""
        if not 0.0 <= threshold <= 1.0:
            raise ValueError(
                f"`threshold` is the share of environments that must agree, in [0, 1]; got "
                f"{threshold}"
            )
        least = min_agreement(threshold, self.num_envs)
        return {name: float(share[least:].sum()) for name, share in self.shares.items()}

    def to_text(self) -> str:
        """Returns a table: a line for every parameter tensor, and what chance would give."""
        mean, unanimous = self.mean(), self.kept(1.0)
        width = max(len(name) for name in (*mean, "parameters", "by chance"))
        chance = self.by_chance
        lines = [f"{'parameters':<{width}}  {'number':>9}  agreement  unanimous  no gradient"]
        lines += [
            f"{name:<{width}}  {self.counts[name].sum():>9,}  {mean[name]:>9.3f}  "
            f"{unanimous[name]:>9.1%}  {self.idle[name]:>11.1%}"
            for name in mean
        ]
        by_chance = f"{float(chance @ self.levels):>9.3f}  {chance[-1]:>9.1%}"
        return "\n".join([*lines, f"{'by chance':<{width}}  {'':>9}  {by_chance}"])

    def __str__(self) -> str:
        return self.to_text()


def agreement_profile(
    loss: Callable[[PyTree[Any], PyTree[Any]], Float[Array, ""]],
    params: PyTree[Any],
    batches: PyTree[Any],
) -> AgreementProfile:
    """Counts, for every parameter, how many environments want to move it the same way.

    Only sums over environments are kept: it needs the memory of a few gradients, however many
    environments there are.

    Args:
        loss: the mean loss of one environment's batch.
        params: any pytree; only its floating-point arrays count.
        batches: a pytree whose arrays have a leading axis of environments.

    Example:
        >>> import jax.numpy as jnp
        >>> def loss(w, x):
        ...     return jnp.dot(w, x)
        >>> profile = agreement_profile(loss, jnp.zeros(2), jnp.array([[1.0, 1.0], [3.0, -3.0]]))
        >>> profile.leads.tolist(), profile.levels.tolist()
        ([2, 0], [0.0, 0.5, 1.0])
    """
    num_envs = count_environments(batches)
    sums = _sum_signs(loss, params, jax.tree.map(jnp.asarray, batches))
    counts: dict[str, Int[np.ndarray, " leads"]] = {}
    idle: dict[str, float] = {}
    for name, signs, total, squares in _named(sums.signs, sums.total, sums.squares):
        if not np.isfinite(total).all():
            raise ValueError(f"the gradient of {name} is not finite in at least one environment")
        counts[name] = np.bincount(np.abs(signs).reshape(-1), minlength=num_envs + 1)
        idle[name] = float(np.mean(squares == 0))
    if not counts:
        raise ValueError("`params` has no floating-point array, so there is nothing to agree on")
    return AgreementProfile(num_envs, jax.tree.map(jnp.abs, sums.signs), counts, idle)


def chance_of_leads(num_envs: int) -> Float[np.ndarray, " leads"]:
    """Returns the probability of each lead when every sign is a coin toss.

    Example:
        >>> chance_of_leads(4).tolist()  # of leads 0, 1, 2, 3 and 4
        [0.375, 0.0, 0.5, 0.0, 0.125]
    """
    chance = np.zeros(num_envs + 1)
    for positive in range(num_envs + 1):
        chance[abs(2 * positive - num_envs)] += math.comb(num_envs, positive) / 2**num_envs
    return chance


@eqx.filter_jit
def _sum_signs(
    loss: Callable[..., Float[Array, ""]], params: PyTree[Any], batches: PyTree[Any]
) -> GradientStatistics:
    varied, fixed = eqx.partition(params, eqx.is_inexact_array)
    return accumulate_gradients(
        lambda some, batch: loss(eqx.combine(some, fixed), batch),
        varied,
        batches,
        with_squares=True,  # which, unlike sums of signs, tell no gradient from a tie
    )[1]


def _named(*trees: PyTree[Any]) -> Iterator[tuple[Any, ...]]:
    """Goes through the leaves that have components, side by side, with their names."""
    for (path, first), *others in zip(
        *(jax.tree_util.tree_leaves_with_path(tree) for tree in trees), strict=True
    ):
        if first.size:
            name = jax.tree_util.keystr(path).lstrip(".") or "parameters"
            yield name, np.asarray(first), *(np.asarray(leaf) for _, leaf in others)
