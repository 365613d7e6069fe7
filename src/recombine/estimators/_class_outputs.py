"""What a classifier says, given one logit for each class."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.utils.multiclass import check_classification_targets


def read_classes(y: Shaped[np.ndarray, " rows"]) -> Shaped[np.ndarray, " classes"]:
    """Returns the labels, sorted; refuses what is not labels, and fewer than two of them."""
    check_classification_targets(y)
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(f"`y` must have at least two classes; got one class only, {classes[0]!r}")
    return classes


class ClassOutputs:
    """Turns an estimator's logits into labels and probabilities."""

    classes_: Shaped[np.ndarray, " classes"]

    _outputs: Callable[[Any], Float[np.ndarray, "rows classes"]]
    """Returns the logits; the estimator beside this class brings it."""

    def decision_function(self, X: Any) -> Float[np.ndarray, " rows *classes"]:
        """Returns the logit of each class; for two classes, that of the second less the first."""
        logits = self._outputs(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any) -> Float[np.ndarray, "rows classes"]:
        """Returns the probability of each class, in the order of `classes_`."""
        logits = self._outputs(X)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Shaped[np.ndarray, " rows"]:
        """Returns the most probable class of each row."""
        best = np.argmax(self._outputs(X), axis=1)
        return self.classes_[best]

    def _num_outputs(self) -> int:
        return len(self.classes_)
