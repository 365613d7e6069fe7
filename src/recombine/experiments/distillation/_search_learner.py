"""Several grids of settings as one learner, and what the best of them reached."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.distillation import GridLearner, GridState

Metrics = dict[str, Float[Array, ""]]
REPORTED = ("best_test_squared_error", "chosen_test_squared_error", "best_gap_squared_error")


class SearchLearner(eqx.Module):
    """Trains all points of several grids; grids differ in sizes, points of one in numbers.

    `<metric>/<setting>` is that of one setting, `lowest_squared_error` the lowest of all
    `best_test_squared_error`: chosen by the test examples themselves, as the thesis chose.
    """

    grids: tuple[GridLearner, ...]
    names: tuple[str, ...] = eqx.field(static=True)
    """Of all settings, grid by grid."""

    @property
    def compiler_options(self) -> Any:
        """Those of the settings."""
        return self.grids[0].shared.compiler_options

    def init(self, key: PRNGKeyArray) -> tuple[GridState, ...]:
        """Starts all settings from the same key."""
        return tuple(grid.init(key) for grid in self.grids)

    def step(
        self, state: tuple[GridState, ...], key: PRNGKeyArray
    ) -> tuple[tuple[GridState, ...], Metrics]:
        """Makes one step of every setting that has not diverged."""
        after = tuple(grid.step(of, key)[0] for grid, of in zip(self.grids, state, strict=True))
        diverged = jnp.concatenate([of.diverged for of in after])
        return after, {"diverged": jnp.mean(diverged.astype(jnp.float32))}

    def evaluate(self, state: tuple[GridState, ...], key: PRNGKeyArray) -> Metrics:
        """Returns what each setting has reached so far, and the best of them."""
        found = [grid.evaluate(of, key) for grid, of in zip(self.grids, state, strict=True)]
        metrics: Metrics = {}
        for name in REPORTED:
            values = [
                measured[f"{name}/{point}"]
                for grid, measured in zip(self.grids, found, strict=True)
                for point in range(grid.num_points)
            ]
            metrics |= {f"{name}/{of}": v for of, v in zip(self.names, values, strict=True)}
            if name == REPORTED[0]:
                metrics["lowest_squared_error"] = jnp.min(jnp.stack(values))
        diverged = jnp.concatenate([of.diverged for of in state])
        return metrics | {"share_diverged": jnp.mean(diverged.astype(jnp.float32))}

    def inspect(self, state: tuple[GridState, ...], key: PRNGKeyArray) -> dict[str, Array]:
        """Returns the errors of all settings."""
        metrics = self.evaluate(state, key)
        return {
            name: jnp.stack([metrics[f"{name}/{of}"] for of in self.names]) for name in REPORTED
        }


def settings_in(metrics: Any, metric: str = REPORTED[0]) -> dict[str, Any]:
    """Returns the values of a metric by setting, out of all that was measured."""
    return {
        name.removeprefix(f"{metric}/"): value
        for name, value in metrics.items()
        if name.startswith(f"{metric}/")
    }
