"""Remembering the best moment of a run.

The thesis reports the best value that a run ever reaches on its test examples. That choice is made
on the test examples themselves; a second watch, on examples kept for selection, says what an honest
choice would have got.
"""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float

Metrics = dict[str, Float[Array, ""]]


@dataclass(frozen=True)
class Watch:
    """Keeps all metrics of the moment when one of them was best, as `<name>_<metric>`."""

    metric: str
    """As `evaluate` calls it, for example `test_accuracy`."""
    highest: bool = True
    """Whether the best is the highest value."""
    name: str = "best"

    def start(self, metrics: Metrics) -> Metrics:
        """Remembers the first moment."""
        if self.metric not in metrics:
            raise LookupError(
                f"there is no metric called {self.metric!r} to watch; there are "
                f"{', '.join(sorted(metrics))}"
            )
        return {**metrics, "iteration": jnp.zeros(())}

    def update(self, best: Metrics, metrics: Metrics, iteration: Float[Array, ""]) -> Metrics:
        """Replaces what is remembered where the present is better."""
        now, then = metrics[self.metric], best[self.metric]
        is_better = (now > then) if self.highest else (now < then)
        present = {**metrics, "iteration": iteration}
        return {name: jnp.where(is_better, present[name], best[name]) for name in best}

    def named(self, best: Metrics) -> Metrics:
        """Returns what is remembered, under the watch's name."""
        return {f"{self.name}_{name}": value for name, value in best.items()}
