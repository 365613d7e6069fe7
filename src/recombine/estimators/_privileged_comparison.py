"""Whether a teacher helped: scores on held-out rows, beside those of students without one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import t as student_t

COMPARED = {
    "teacher": "teacher",
    "none": "no teacher",
    "auxiliary": "auxiliary task",
    "shuffled": "shuffled teacher",
}
"""What is trained for a comparison, and how a report calls it."""

HELD_OUT_SHARE = 0.25
"""Of the rows, those that a comparison holds out to judge by."""

CONFIDENCE = 0.95


class ScoreDifference(NamedTuple):
    """How far the teacher is ahead of another method, with its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ({self.low:+.3f} to {self.high:+.3f})"


@dataclass(frozen=True)
class PrivilegedComparison:
    r"""What a teacher is worth on one's own data, and how sure that is.

    Every seed holds out a part of the rows, drawn anew, and trains everything on the others. The
    differences between two methods are paired by seed. Their interval is that of Student's t with
    the variance times $1/S + m/n$ in the place of $1/S$, for S seeds, n rows to learn from and m
    held out: training sets overlap, and the plain interval would be too narrow (Nadeau and Bengio,
    2003). It remains an approximation.
    """

    scores: Mapping[str, Float[np.ndarray, " seeds"]]
    """Of each method: accuracy, or R² for numbers. `shuffled` is a teacher that is given the
    privileged data of other rows; what it gains does not come from them."""
    score_name: str
    num_rows: int
    """Rows that were learned from."""
    num_held_out: int

    def over(self, method: str) -> ScoreDifference:
        """Returns how far the teacher is ahead of a method."""
        ahead = self.scores["teacher"] - self.scores[method]
        mean, count = float(np.mean(ahead)), len(ahead)
        variance = float(np.var(ahead, ddof=1)) * (1 / count + self.num_held_out / self.num_rows)
        reach = float(student_t.ppf((1 + CONFIDENCE) / 2, count - 1)) * variance**0.5
        return ScoreDifference(mean, mean - reach, mean + reach)

    @property
    def verdict(self) -> Literal["helped", "hurt", "unclear"]:
        """Whether the privileged data helped through the teacher.

        It helped if the interval is above zero beside a student without a teacher and beside a
        shuffled teacher; it hurt if the interval beside the former is below zero.
        """
        if min(self.over("none").low, self.over("shuffled").low) > 0:
            return "helped"
        return "hurt" if self.over("none").high < 0 else "unclear"

    def __str__(self) -> str:
        seeds = len(self.scores["teacher"])
        lines = [
            f"{self.score_name} on held-out rows: the mean of {seeds} splits, with "
            f"{self.num_rows} rows to learn from and {self.num_held_out} to judge by.",
            "",
            f"{'':18}{'mean':>6}{'worst':>8}{'best':>8}   teacher ahead by (95 % interval)",
        ]
        for method, name in COMPARED.items():
            values = self.scores[method]
            numbers = f"{values.mean():>6.3f}{values.min():>8.3f}{values.max():>8.3f}"
            ahead = "" if method == "teacher" else f"   {self.over(method)}"
            lines.append(f"{name:18}{numbers}{ahead}")
        return "\n".join([*lines, "", self._explain()])

    def _explain(self) -> str:
        none, shuffled, auxiliary = map(self.over, ("none", "shuffled", "auxiliary"))
        if self.verdict == "helped":
            said = ["The teacher helped, more than one with shuffled privileged data."]
        elif self.verdict == "hurt":
            said = ["The teacher hurt: predict without one."]
        elif none.low > 0:
            said = [
                "A teacher helped, but one with shuffled privileged data did so too, as far as can "
                "be told: the gain need not come from the data."
            ]
        else:
            said = ["No clear difference: these rows do not say that the teacher helped."]
        if auxiliary.high < 0:
            said.append("An auxiliary task did better: use it.")
        elif auxiliary.low <= 0:
            said.append("An auxiliary task may do as well.")
        if none.low <= 0 <= none.high or (none.low > 0 and shuffled.low <= 0):
            said.append("More rows or seeds would tell more.")
        return " ".join(said)
