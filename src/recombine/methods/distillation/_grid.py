"""Many settings of one learner at once, as one more vectorised axis.

Settings are the array leaves in which several learners differ: learning rates, coefficients, gates.
What they have in common, the data above all, is held once. All points of the grid start from the
same key, so that they differ in their settings alone.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

Metrics = dict[str, Float[Array, ""]]


class GridState(NamedTuple):
    """The states of all points, along a leading axis of every array."""

    points: Any
    diverged: Bool[Array, " points"]


class GridLearner(eqx.Module):
    """Trains several learners that differ in numbers only, side by side.

    A point whose step metrics or state stop being finite is held where it was before, and counted
    in `diverged`. `evaluate` and `final` return every metric as `<metric>/<point>`; `inspect`
    returns arrays over points.

    Points are made with `dataclasses.replace(learner, teaching_weight=...)` and the like.
    """

    shared: Any
    varied: Any
    num_points: int = eqx.field(static=True)

    @classmethod
    def of(cls, learners: Sequence[Any]) -> "GridLearner":
        """Stacks learners.

        Args:
            learners: equal but for the values of arrays; what is not an array must be equal.
        """
        if not learners:
            raise ValueError("a grid needs at least one learner")
        parts = [eqx.partition(learner, eqx.is_array) for learner in learners]
        arrays = [jax.tree.leaves(part[0]) for part in parts]
        structures = {jax.tree.structure(part[0]) for part in parts}
        shapes = {tuple((leaf.shape, str(leaf.dtype)) for leaf in leaves) for leaves in arrays}
        rest = all(bool(eqx.tree_equal(part[1], parts[0][1])) for part in parts[1:])
        if len(structures) > 1 or len(shapes) > 1 or not rest:
            raise ValueError(
                "the learners of a grid may differ in numbers only: their modules, sizes, counts "
                "of steps and data must be the same. Run other differences as other learners."
            )
        differs = [
            any(leaf is not first and not np.array_equal(leaf, first) for leaf in leaves)
            for first, *leaves in zip(*arrays, strict=True)
        ]
        tree = jax.tree.structure(parts[0][0])
        varied = tree.unflatten(
            [
                jnp.stack(leaves) if differ else None
                for leaves, differ in zip(zip(*arrays, strict=True), differs, strict=True)
            ]
        )
        same = tree.unflatten(
            [None if differ else first for first, differ in zip(arrays[0], differs, strict=True)]
        )
        return cls(eqx.combine(same, parts[0][1]), varied, len(learners))

    def init(self, key: PRNGKeyArray) -> GridState:
        """Starts all points from the same key."""
        points = self._over(lambda learner, _: learner.init(key), None)
        return GridState(points, jnp.zeros(self.num_points, bool))

    def step(self, state: GridState, key: PRNGKeyArray) -> tuple[GridState, Metrics]:
        """Makes one step of every point that has not diverged."""

        def one(learner: Any, point: Any) -> tuple[Any, Bool[Array, ""]]:
            state, diverged = point
            after, metrics = learner.step(state, key)
            finite = jnp.all(jnp.stack([jnp.isfinite(value) for value in metrics.values()]))
            diverged = diverged | ~finite

            def held(old: Any, new: Any) -> Any:
                return jnp.where(diverged, old, new) if eqx.is_array(new) else new

            return jax.tree.map(held, state, after), diverged

        points, diverged = self._over(one, (state.points, state.diverged))
        share = jnp.mean(diverged.astype(jnp.float32))
        return GridState(points, diverged), {"diverged": share}

    def evaluate(self, state: GridState, key: PRNGKeyArray) -> Metrics:
        """Measures every point."""
        return self._named("evaluate", state, key) | {
            f"diverged/{point}": state.diverged[point].astype(jnp.float32)
            for point in range(self.num_points)
        }

    def final(self, state: GridState, key: PRNGKeyArray) -> Metrics:
        """Returns what the learners' `final` does, if they have it, of every point."""
        return self._named("final", state, key) if hasattr(self.shared, "final") else {}

    def inspect(self, state: GridState, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns what the learners' `inspect` does, if they have it, stacked over points."""
        if not hasattr(self.shared, "inspect"):
            return {}
        return self._over(lambda learner, point: learner.inspect(point, key), state.points)

    def point(self, number: int) -> Any:
        """Returns the learner of one point."""
        return eqx.combine(self.shared, jax.tree.map(lambda leaf: leaf[number], self.varied))

    def _named(self, what: str, state: GridState, key: PRNGKeyArray) -> Metrics:
        found = self._over(lambda learner, point: getattr(learner, what)(point, key), state.points)
        return {
            f"{name}/{point}": values[point]
            for name, values in found.items()
            for point in range(self.num_points)
        }

    def _over(self, function: Any, points: Any) -> Any:
        def one(varied: Any, point: Any) -> Any:
            return function(eqx.combine(self.shared, varied), point)

        return eqx.filter_vmap(one, axis_size=self.num_points)(self.varied, points)
