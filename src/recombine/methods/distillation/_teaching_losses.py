r"""How far a student's activations are from a teacher's targets (Neitz, thesis, §4.3.3 and §4.4).

All are means over the supervised units of one example, whatever layers they belong to; with the
mean over a batch that is the mean over batch and units. A sum over the 640 units of the control
tasks would diverge at the published teaching coefficient.

Targets are one flat vector for all activations in order, or a pytree with the activations' shapes.
"""

import math
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from recombine.methods._numbers import number


class WeightedTargets(NamedTuple):
    """Targets with a weight that is not negative for each, or one that stretches over several.

    Weights have as many axes as the values they belong to; axes of length 1 stretch.
    """

    values: PyTree[Float[Array, "..."]]
    weights: PyTree[Float[Array, "..."]]


class SquaredError(eqx.Module):
    """The squared error, weighted where targets are `WeightedTargets`.

    Example:
        >>> import jax.numpy as jnp
        >>> hidden = (jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0]))
        >>> float(SquaredError()(hidden, jnp.array([1.0, 0.0, 3.0, 4.0])))
        1.0
    """

    def __call__(self, activations: Any, targets: Any) -> Float[Array, ""]:
        """Returns the mean over units."""
        if not isinstance(targets, WeightedTargets):
            return _mean_square(activations, targets, None)
        return _mean_square(activations, targets.values, targets.weights)


class GatedSquaredError(eqx.Module):
    r"""The squared error behind a learned gate, $\sigma(m_k / c + b)\,(h_k - h^*_k)^2$.

    The teacher's output has two numbers for each unit: all targets $h^*$ first, then all $m$; or it
    is a `WeightedTargets` whose weights are m. The values of c and b did not survive in the thesis
    (App. C.2.2.2): a gate that starts mostly closed, with enough gain, came nearest to its numbers.
    """

    scale: Float[Array, ""] = eqx.field(converter=number, default=1.0)
    """c"""
    shift: Float[Array, ""] = eqx.field(converter=number, default=-1.0)
    """b"""

    def __call__(self, activations: Any, targets: Any) -> Float[Array, ""]:
        """Returns the mean over units."""
        values, gates = self.open(activations, targets)
        return _mean_square(activations, values, gates)

    def open(self, activations: Any, targets: Any) -> WeightedTargets:
        """Returns the targets, and how far the gate of each is open, between 0 and 1."""
        if not isinstance(targets, WeightedTargets):
            units = _count(activations)
            if not _is_flat(targets) or _count(targets) != 2 * units:
                raise ValueError(
                    f"a gated teaching loss needs a teacher output of the size {2 * units}, a "
                    f"target and a gate for each of the {units} units that the student offers; "
                    f"got {_shapes(targets)}"
                )
            targets = WeightedTargets(targets[:units], targets[units:])
        opening = jax.tree.map(
            lambda m: jax.nn.sigmoid(m / self.scale + self.shift), targets.weights
        )
        return WeightedTargets(targets.values, opening)


class Divergence(eqx.Module):
    """KL(softmax of the teacher ‖ softmax of the student), for a student that offers its logits."""

    def __call__(self, activations: Any, targets: Any) -> Float[Array, ""]:
        """Returns the divergence in nats; a mean where the last axis is not the only one."""
        logits, wanted = _matched(activations, targets)
        if len(logits) != 1:
            raise ValueError(
                f"a divergence compares one array of logits; the student offers "
                f"{_shapes(activations)}"
            )
        ours, theirs = jax.nn.log_softmax(logits[0]), jax.nn.log_softmax(wanted[0])
        return jnp.mean(jnp.sum(jnp.exp(theirs) * (theirs - ours), axis=-1))


def _mean_square(activations: Any, values: Any, weights: Any) -> Float[Array, ""]:
    ours, wanted = _matched(activations, values)
    parts = [jnp.square(a - b) for a, b in zip(ours, wanted, strict=True)]
    if weights is not None:
        gates = [weights] if _is_flat(values) else jax.tree.leaves(weights)
        if len(gates) != len(parts) or any(
            g.ndim != p.ndim or any(s not in (1, q) for s, q in zip(g.shape, p.shape, strict=True))
            for g, p in zip(gates, parts, strict=True)
        ):
            raise ValueError(
                f"the weights of targets must fit the targets: got weights {_shapes(weights)} for "
                f"targets {_shapes(values)}"
            )
        parts = [gate * part for gate, part in zip(gates, parts, strict=True)]
    return sum((jnp.sum(part) for part in parts), jnp.zeros(())) / _count(activations)


def _matched(activations: Any, targets: Any) -> tuple[list[Array], list[Array]]:
    """Returns both as lists of arrays of equal shapes."""
    ours, wanted = jax.tree.leaves(activations), jax.tree.leaves(targets)
    if [a.shape for a in ours] == [b.shape for b in wanted]:
        return ours, wanted
    if _is_flat(targets) and _count(targets) == _count(activations):
        return [jnp.concatenate([a.reshape(-1) for a in ours])], wanted
    raise ValueError(
        f"the teacher's output does not fit what the student offers: expected {_shapes(ours)}, or "
        f"one vector of the size {_count(ours)}; got {_shapes(targets)}"
    )


def _is_flat(targets: Any) -> bool:
    return eqx.is_array_like(targets) and jnp.ndim(targets) == 1


def _count(tree: Any) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tree))


def _shapes(tree: Any) -> str:
    return ", ".join(str(list(jnp.shape(leaf))) for leaf in jax.tree.leaves(tree)) or "nothing"
