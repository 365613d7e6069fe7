"""What a run has measured so far: one row of metrics per evaluation, one column per seed."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float


@dataclass
class Seconds:
    """Wall time, with compilation apart from running."""

    compile: float = 0.0
    run: float = 0.0


@dataclass
class History:
    """Metrics at the evaluated steps.

    The names are those of `evaluate`; a metric of the last `step` before an evaluation stands
    under `step/<name>`. `final` holds the metrics after the last step, `Learner.final` included.
    """

    seeds: tuple[int, ...]
    steps: list[int] = field(default_factory=list)
    metrics: dict[str, list[Float[np.ndarray, " seeds"]]] = field(default_factory=dict)
    final: dict[str, Float[np.ndarray, " seeds"]] = field(default_factory=dict)

    def append(self, step: int, metrics: dict[str, np.ndarray]) -> None:
        """Adds one evaluation. A metric that is new, or missing this time, is NaN elsewhere."""
        blank = np.full(len(self.seeds), np.nan)
        for name, values in metrics.items():
            past = self.metrics.setdefault(name, [blank] * len(self.steps))
            past.append(np.asarray(values, dtype=np.float64))
        self.steps.append(step)
        for past in self.metrics.values():
            if len(past) < len(self.steps):
                past.append(blank)

    def last(self) -> dict[str, Float[np.ndarray, " seeds"]]:
        """Returns the newest value of every metric."""
        return {name: values[-1] for name, values in self.metrics.items()}

    def curves(self) -> dict[str, Float[np.ndarray, "evaluations seeds"]]:
        """Returns one array per metric."""
        return {name: np.stack(values) for name, values in self.metrics.items()}

    def to_json(self) -> dict[str, Any]:
        """Returns plain lists; Python's floats keep every bit."""
        return {
            "seeds": list(self.seeds),
            "steps": self.steps,
            "metrics": {name: curve.tolist() for name, curve in self.curves().items()},
            "final": {name: values.tolist() for name, values in self.final.items()},
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "History":
        """Reads what `to_json` wrote."""
        return cls(
            seeds=tuple(data["seeds"]),
            steps=list(data["steps"]),
            metrics={
                name: [np.asarray(row, dtype=np.float64) for row in rows]
                for name, rows in data["metrics"].items()
            },
            final={name: np.asarray(values) for name, values in data["final"].items()},
        )
