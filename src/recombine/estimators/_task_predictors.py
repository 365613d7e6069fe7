"""What `ModularFewShot.adapt` gives: a predictor for one task."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Shaped
from sklearn.metrics import accuracy_score, r2_score

from recombine.estimators._blocks import apply_in_blocks
from recombine.estimators._few_shot_tasks import parse_inputs
from recombine.estimators._standardizing import Standard
from recombine.methods.hypernetworks import FewShotModel


class TaskNetwork(eqx.Module):
    """A model with the parameters of one task, for one row."""

    model: FewShotModel
    task: Any

    def __call__(self, row: Float[Array, " features"]) -> Float[Array, " outputs"]:
        """Returns the outputs of a row."""
        return self.model.predict(self.task, self.model.read(row[None]))[0]


class TaskPredictor:
    """The network of one task, ready to answer; `embedding_` is what was inferred of the task."""

    embedding_: Float[np.ndarray, "..."]
    n_features_in_: int

    def __init__(self, network: TaskNetwork, embedding: Float[np.ndarray, "..."], inputs: Standard):
        self._network = network
        self._inputs = inputs
        self.embedding_ = embedding
        self.n_features_in_ = len(inputs.mean)

    def _outputs(self, x: Any) -> Float[np.ndarray, "rows outputs"]:
        rows = self._inputs.apply(check_width(parse_inputs(x, "`x`"), "`x`", self.n_features_in_))
        if not len(rows):
            raise ValueError("`x` has no rows: nothing would be predicted")
        outputs = apply_in_blocks(self._network, rows).astype(np.float64)
        if not np.isfinite(outputs).all():
            row = int(np.flatnonzero(~np.isfinite(outputs).all(axis=1))[0])
            raise ValueError(f"row {row} of `x` is too far from the training data to be computed")
        return outputs


class TaskClassifier(TaskPredictor):
    """Tells the classes of one task apart: those that its support shows.

    Attributes:
        classes_: the labels of the support, sorted.
        embedding_: what was inferred of the task; see `ModularFewShot`.
        n_features_in_: the number of columns of `x`.
    """

    classes_: Shaped[np.ndarray, " classes"]

    def __init__(
        self,
        network: TaskNetwork,
        embedding: Float[np.ndarray, "..."],
        inputs: Standard,
        *,
        known: Shaped[np.ndarray, " known"],
        shown: Shaped[np.ndarray, " classes"],
    ):
        super().__init__(network, embedding, inputs)
        self.classes_ = shown
        self._columns = np.searchsorted(known, shown)

    def predict_proba(self, x: Any) -> Float[np.ndarray, "rows classes"]:
        """Returns the probability of each class, in the order of `classes_`."""
        logits = self._outputs(x)[:, self._columns]
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def predict(self, x: Any) -> Shaped[np.ndarray, " rows"]:
        """Returns the most probable class of each row."""
        return self.classes_[np.argmax(self._outputs(x)[:, self._columns], axis=1)]

    def score(self, x: Any, y: Any) -> float:
        """Returns the share of rows whose class is right."""
        return float(accuracy_score(np.asarray(y), self.predict(x)))


class TaskRegressor(TaskPredictor):
    """Predicts the numbers of one task.

    Attributes:
        embedding_: what was inferred of the task; see `ModularFewShot`.
        n_features_in_: the number of columns of `x`.
    """

    def __init__(
        self,
        network: TaskNetwork,
        embedding: Float[np.ndarray, "..."],
        inputs: Standard,
        *,
        targets: Standard,
    ):
        super().__init__(network, embedding, inputs)
        self._targets = targets

    def predict(self, x: Any) -> Float[np.ndarray, "rows ..."]:
        """Returns the number of each row, or several where `y` had several columns."""
        numbers = self._outputs(x) * self._targets.scale + self._targets.mean
        return numbers[:, 0] if numbers.shape[1] == 1 else numbers

    def score(self, x: Any, y: Any) -> float:
        """Returns R², the share of the variance that is explained."""
        return float(r2_score(np.asarray(y), self.predict(x)))


def check_width(
    rows: Float[np.ndarray, "rows features"], where: str, width: int
) -> Float[np.ndarray, "rows features"]:
    """Refuses rows of another width than in training."""
    if rows.shape[1] != width and len(rows):
        raise ValueError(
            f"{where} has {rows.shape[1]} columns, but the training tasks had {width} features"
        )
    return rows
