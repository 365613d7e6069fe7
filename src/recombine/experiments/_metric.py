"""The numbers that rows are judged by and searches choose by."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """The number that a row is judged by: a final metric of its learner."""

    name: str
    label: str
    higher_is_better: bool = True
    percent: bool = True  # a share, shown as a percentage
    over: "Metric | None" = None  # what its curve is drawn against, in place of the step
