"""Few-shot tasks as a network reads them, by what the training tasks looked like."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from recombine.estimators._few_shot_tasks import ParsedTask, Predicts, classes_of
from recombine.estimators._standardizing import Standard, measure
from recombine.estimators._task_predictors import check_width


class TaskEncoder(NamedTuple):
    """Standardizes inputs and numbers to predict, and numbers the classes."""

    inputs: Standard
    targets: Standard | Shaped[np.ndarray, " classes"]  # of numbers, or the classes, sorted

    @classmethod
    def of(cls, tasks: Sequence[ParsedTask], predicts: Predicts) -> "TaskEncoder":
        """Takes the measures of the training tasks."""
        rows = np.concatenate([x for task in tasks for x in (task.x_support, task.x_query)])
        inputs = measure(rows, "column {} of `x`")
        if predicts == "classes":
            return cls(inputs, classes_of(tasks))
        numbers = np.concatenate([y for task in tasks for y in (task.y_support, task.y_query)])
        return cls(inputs, measure(numbers, "column {} of `y`"))

    @property
    def num_features(self) -> int:
        """How many columns an input has."""
        return len(self.inputs.mean)

    @property
    def num_outputs(self) -> int:
        """How many outputs a network needs."""
        return len(self.targets.mean if isinstance(self.targets, Standard) else self.targets)

    def encode_all(self, tasks: Sequence[ParsedTask], name: str) -> list[ParsedTask]:
        """Encodes tasks; `name` is what messages call all of them."""
        for number, task in enumerate(tasks):
            check_width(task.x_support, f"`{name}`[{number}], x_support", self.num_features)
        return [
            ParsedTask(
                self.encode_inputs(task.x_support, f"`{name}`[{number}], x_support"),
                self.encode_targets(task.y_support, f"`{name}`[{number}], y_support"),
                self.encode_inputs(task.x_query, f"`{name}`[{number}], x_query"),
                self.encode_targets(task.y_query, f"`{name}`[{number}], y_query"),
            )
            for number, task in enumerate(tasks)
        ]

    def encode_inputs(self, rows: np.ndarray, where: str) -> Float[np.ndarray, "rows features"]:
        """Standardizes inputs; refuses what is too far away."""
        return _finite(self.inputs.apply(rows), where)

    def encode_targets(self, targets: np.ndarray, where: str) -> Shaped[np.ndarray, "rows ..."]:
        """Standardizes numbers, or numbers the classes; refuses classes that are not known."""
        if isinstance(self.targets, Standard):
            if targets.shape[1] != self.num_outputs:
                raise ValueError(
                    f"{where} has {targets.shape[1]} numbers in a row, but the training tasks had "
                    f"{self.num_outputs}"
                )
            return _finite(self.targets.apply(targets), where)
        is_known = np.isin(targets, self.targets)
        if not is_known.all():
            raise ValueError(
                f"{where} has the class {targets[~is_known].tolist()[0]!r}, which no training task "
                f"had; known are {self.targets.tolist()}"
            )
        return np.searchsorted(self.targets, targets).astype(np.int32)


def _finite(values: np.ndarray, where: str) -> np.ndarray:
    if not np.isfinite(values).all():
        row = int(np.argwhere(~np.isfinite(values))[0][0])
        raise ValueError(f"row {row} of {where} is too far from the training data to be computed")
    return values
