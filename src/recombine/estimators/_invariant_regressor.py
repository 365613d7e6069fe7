"""A regressor that learns only what several environments agree on (Neitz, thesis, ch. 3)."""

from typing import Any, Self

import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import RegressorMixin

from recombine.estimators._invariant import InvariantEstimator
from recombine.estimators._standardizing import as_numbers, measure
from recombine.methods.agreement import REGRESSION


class InvariantRegressor(RegressorMixin, InvariantEstimator):
    r"""A neural network for numbers that follows only gradients on which environments agree.

    It is `InvariantClassifier` with one number to predict in the place of classes: the squared
    error of a standardized target, and $R^2$ as its score. All parameters are those of
    `InvariantClassifier`, with the same defaults, and mean the same.

    The thesis has no regression but a linear toy in its authors' code; networks for squared errors
    are our extension, and a harder case for the mask. In classification the sign of an error is
    that of the label, whatever the weights, so that a disputed weight is disputed in every step.
    The sign of a squared error's gradient also depends on the weights, and near a solution signs
    agree by chance, in a quarter of the components with three environments. Therefore weights
    start at a tenth of the classifier's, which keeps the first predictions, and the first disputes,
    free of chance. And therefore **give the mask seven environments or so, or a linear model**
    (`hidden_sizes=()`): with three environments and a hidden layer it let shortcuts through in our
    trials, with seven it did not.

    Targets are standardized over all environments together. An environment in which the target
    hardly varies has small gradients, but its signs count as much as any other's.

    Attributes:
        environments_: the environments' labels, sorted; None after fitting without them.
        agreement_levels_: the agreements that the environments can reach; None without them.
        history_: training curves: `step`, `squared_error` (mean over environments, in units of the
            variance of `y`), `worst_squared_error` (of the worst environment), and from the second
            entry on, of the last step before, the `loss` and what the method measures: the share
            of gradient components `kept`, the `penalty` before it is weighted, or the
            discriminator's `domain_loss`.
        n_features_in_: the number of columns of `X`.
        feature_names_in_: their names, where `X` had names that are all strings.
        mean_: subtracted from each column.
        scale_: each column is divided by it afterwards.
        target_mean_: subtracted from `y`.
        target_scale_: `y` is divided by it afterwards.
        model_: the network.

    Example:
        >>> import numpy as np
        >>> from recombine import InvariantRegressor
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 2))
        >>> site = np.repeat(["north", "south", "west"], 100)
        >>> y = 20 + 5 * X[:, 0]
        >>> X[:, 1] = np.where(site == "west", -1, 1) * y  # a shortcut
        >>> model = InvariantRegressor(steps=300, hidden_sizes=(), random_state=0)
        >>> model = model.fit(X, y, environments=site)
        >>> model.predict([[1.0, -50.0], [-1.0, 50.0]]).round().tolist()
        [25.0, 15.0]
    """

    target_mean_: float
    target_scale_: float

    _objective = REGRESSION
    _start_scale = 0.1

    def fit(self, X: Any, y: Any, environments: Any = None) -> Self:
        """Trains the network.

        Args:
            X: a table of numbers, one row per example.
            y: the number that belongs to each row.
            environments: of each row, the label of the environment it comes from: strings or
                numbers, at least two distinct ones. Without them this is plain training on the
                pooled data, and a warning says so where another method was asked for.
        """
        self._forget()
        self._check_parameters()
        X, y = self._checked_data(X, y, environments, y_numeric=True)
        mean, scale = measure(as_numbers(y)[:, None], "`y`")
        self.target_mean_, self.target_scale_ = float(mean[0]), float(scale[0])
        members = self._take_environments(environments, len(X))
        self._train_network(X, y, members)
        return self

    def predict(self, X: Any) -> Float[np.ndarray, " rows"]:
        """Returns the number of each row."""
        return self._outputs(X)[:, 0] * self.target_scale_ + self.target_mean_

    def _num_outputs(self) -> int:
        return 1

    def _encode(self, y: Shaped[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
        with np.errstate(over="ignore"):
            encoded = ((as_numbers(y) - self.target_mean_) / self.target_scale_).astype(np.float32)
        if not np.isfinite(encoded).all():
            row = int(np.flatnonzero(~np.isfinite(encoded))[0])
            raise ValueError(f"row {row} of `y` is too far from the training data to be computed")
        return encoded
