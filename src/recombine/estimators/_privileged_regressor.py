"""A regressor with a teacher that knew more in training (Neitz, thesis, ch. 4)."""

from typing import Any, Self

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import RegressorMixin

from recombine.estimators._privileged import PrivilegedEstimator
from recombine.estimators._standardizing import as_numbers, measure
from recombine.methods.distillation import NumberLabels


class PrivilegedRegressor(RegressorMixin, PrivilegedEstimator):
    """A neural network for numbers, taught by one that is shown what is known in training only.

    It is `PrivilegedClassifier` with one number to predict in the place of classes: the squared
    error of a standardized target, and R² as its score. All parameters are those of
    `PrivilegedClassifier`, with the same defaults, and mean the same; a student of your own
    predicts a vector of one number. The thesis predicts numbers as classes, by sorting them into
    buckets; a squared error is our extension.

    Attributes:
        is_taught_: whether there was a teacher: not without privileged data, nor with another
            `method`.
        comparison_: what `comparison_report` tells, or None; its `scores` are those of each method
            for every split.
        history_: training curves: `step`, `squared_error` on training rows in units of the variance
            of `y`, and from the second entry on, of the last iteration before, the student's
            `loss`, its parts `label_loss` and `teaching_loss`, and the teacher's `meta_loss`.
        input_shape_: of one row: (features,), or (steps, features).
        n_features_in_: the number of features.
        feature_names_in_: their names, where `X` had names that are all strings.
        mean_: subtracted from each feature.
        scale_: each feature is divided by it afterwards.
        target_mean_: subtracted from `y`.
        target_scale_: `y` is divided by it afterwards.
        model_: the student.

    Example:
        >>> import numpy as np
        >>> from recombine import PrivilegedRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(60, 20))
        >>> later = X[:, :5].sum(axis=1, keepdims=True)  # measured later, in training only
        >>> y = 20 + later[:, 0] + rng.normal(size=60)
        >>> model = PrivilegedRegressor(method="auxiliary", iterations=5, random_state=0)
        >>> model = model.fit(X, y, privileged=later)  # so few iterations only show the calls
        >>> model.is_taught_, model.predict(X[:3]).shape
        (False, (3,))
    """

    target_mean_: float
    target_scale_: float

    _score_name = "R²"

    def fit(self, X: Any, y: Any, privileged: Any = None) -> Self:
        """Trains student and teacher.

        Args:
            X: numbers, one row per example: (rows, features) or (rows, steps, features).
            y: the number that belongs to each row.
            privileged: what else is known of each row: (rows, features) or (rows, steps, features).
                Without them this is plain training, and a warning says so unless `method="none"`.
        """
        self._forget()
        self._check_parameters()
        X, y = self._read(X, y, y_numeric=True)
        mean, scale = measure(as_numbers(y)[:, None], "`y`")
        self.target_mean_, self.target_scale_ = float(mean[0]), float(scale[0])
        self._learn(X, y, privileged)
        return self

    def predict(self, X: Any) -> Float[np.ndarray, " rows"]:
        """Returns the number of each row."""
        return self._outputs(X)[:, 0] * self.target_scale_ + self.target_mean_

    def _objective(self) -> NumberLabels:
        return NumberLabels()

    def _num_outputs(self) -> int:
        return 1

    def _encode(self, y: Shaped[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
        return ((as_numbers(y) - self.target_mean_) / self.target_scale_).astype(np.float32)
