"""A rule for rows whose answer is known exactly."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from recombine.experiments._rules import Finals, Judgement


@dataclass(frozen=True)
class KnownValues:
    """Every seed has the known values, each to within its tolerance."""

    values: tuple[tuple[str, float, float], ...]  # (metric, value, tolerance)

    def judge(
        self, metric: str, finals: Finals, others: Callable[[str], Finals | None]
    ) -> Judgement:
        """Compares all, and names those that are off."""
        missing = [name for name, _, _ in self.values if name not in finals]
        if missing:
            return Judgement(None, f"{', '.join(missing)} was not measured")
        off = []
        for name, value, tolerance in self.values:
            farthest = max(finals[name], key=lambda found: abs(found - value))
            if not np.all(np.abs(finals[name] - value) <= tolerance):
                off.append(f"{name} {farthest:.6g}, must be within {tolerance:.2g} of {value:.6g}")
        if off:
            return Judgement(False, "; ".join(off))
        return Judgement(True, f"all {len(self.values)} known values are met")
