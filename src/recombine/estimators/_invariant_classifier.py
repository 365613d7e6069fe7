"""A classifier that learns only what several environments agree on (Neitz, thesis, ch. 3).

Departures from the thesis, made for tables of any origin: inputs are standardized, environments
may differ in size, and the learning rate falls tenfold once, after three quarters of the steps.
"""

import warnings
from collections.abc import Sequence
from typing import Any, Literal, Self

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jaxtyping import Float, Shaped
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from recombine.estimators._base import Estimator, draw_seed, make_random_state
from recombine.estimators._blocks import apply_in_blocks
from recombine.estimators._checks import check_count, check_number
from recombine.estimators._environments import agreement_levels, equalize, group_rows
from recombine.estimators._own_data import make_learner
from recombine.methods.agreement import (
    MLP,
    MULTICLASS,
    LabelledEnvironments,
    MLPShape,
    Rescale,
    and_mask,
    arithmetic_mean,
)

AUTO_BATCH = 1024
"""With `batch_size="auto"`, environments of up to so many rows are used whole in every step."""


class InvariantClassifier(ClassifierMixin, Estimator):
    r"""A neural network that follows only the gradients on which environments agree.

    In every step each environment (a hospital, a sensor, a year) computes its own gradient.
    Components whose signs differ too much between environments are set to zero (the AND-mask).
    What predicts the label in the same way everywhere is learned; a shortcut that works in a
    different way in each environment is not, even if it is more accurate on all the data together.

    **Environments** have equal weight, whatever their sizes: the rows of smaller ones are repeated
    in whole shuffled passes until all are as long as the longest, the last pass cut. They should
    differ in what is accidental and share what is essential. With d environments the agreement
    |number of + minus number of −| / d takes few values, and all thresholds between two of them
    mean the same: for d = 2 they are 0, 1; for d = 3: 1/3, 1; for d = 4: 0, 1/2, 1; for d = 5:
    1/5, 3/5, 1. So with three environments every threshold above 1/3 asks for unanimity, and
    every other one keeps everything. After `fit`, `agreement_levels_` lists them.

    **The regularizer** `l2` is added to the masked gradient before Adam, not decoupled as in
    AdamW: where the mask leaves no gradient, Adam turns even a tiny pull into steps of the size of
    `learning_rate` towards zero, which erases the random initial weights on disputed features.
    With `l2=0`, and with decoupled decay, they would stay. So its being above zero matters more
    than its size.

    Args:
        threshold: the agreement that a component of the gradient needs, in [0, 1]: 0 keeps
            everything (plain training with equal weight per environment), 1 asks for unanimity.
        hidden_sizes: units of each hidden layer; none for a linear model. Begin with one layer:
            with three environments and two layers the mask let shortcuts through that it stops
            with one (those of `examples/own_environments.py`).
        steps: updates of the network.
        batch_size: rows per environment and step; None for all; "auto" for all up to 1,024. A
            small batch makes signs noisy, and honest components are then masked too. More than
            the longest environment has means all.
        learning_rate: of Adam; it falls tenfold after three quarters of the steps.
        l2: the strength of the regularizer.
        rescale: scales what is left of each parameter tensor ("tensor"), or of the whole gradient
            ("global"), up by the number of components over the number of survivors; None does not.
        random_state: a whole number for the same result every time, on the same kind of device.
        verbose: whether to show progress.

    Attributes:
        classes_: the labels, sorted.
        environments_: the environments' labels, sorted; None after fitting without them.
        agreement_levels_: the agreements that the environments can reach; None without them.
        history_: training curves: `step`, `accuracy` (mean over environments), `worst_accuracy`
            (of the worst environment), and from the second entry on the `loss` and the share of
            gradient components `kept` in the last step before.
        n_features_in_: the number of columns of `X`.
        feature_names_in_: their names, where `X` had names that are all strings.
        mean_: subtracted from each column.
        scale_: each column is divided by it afterwards.
        model_: the network.

    Example:
        >>> import numpy as np
        >>> from recombine import InvariantClassifier
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(300, 2))
        >>> site = np.repeat(["north", "south", "west"], 100)
        >>> y = np.where(X[:, 0] > 0, "ill", "well")
        >>> X[:, 1] = np.where(site == "west", -1, 1) * np.where(y == "ill", 3, -3)  # a shortcut
        >>> model = InvariantClassifier(steps=200, hidden_sizes=(16,), random_state=0)
        >>> model.fit(X, y, environments=site).predict([[2.0, -3.0], [-2.0, 3.0]]).tolist()
        ['ill', 'well']
    """

    model_: MLP
    classes_: Shaped[np.ndarray, " classes"]
    environments_: Shaped[np.ndarray, " envs"] | None
    agreement_levels_: Float[np.ndarray, " levels"] | None
    n_features_in_: int
    feature_names_in_: Shaped[np.ndarray, " features"]  # where `X` has them
    mean_: Float[np.ndarray, " features"]
    scale_: Float[np.ndarray, " features"]

    def __init__(
        self,
        threshold: float = 1.0,
        *,
        hidden_sizes: Sequence[int] = (64,),
        steps: int = 1000,
        batch_size: int | Literal["auto"] | None = "auto",
        learning_rate: float = 1e-2,
        l2: float = 1e-4,
        rescale: Rescale | None = "tensor",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ):
        self.threshold = threshold
        self.hidden_sizes = hidden_sizes
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.l2 = l2
        self.rescale = rescale
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, environments: Any = None) -> Self:
        """Trains the network.

        Args:
            X: a table of numbers, one row per example.
            y: the label of each row.
            environments: of each row, the label of the environment it comes from: strings or
                numbers, at least two distinct ones. Without them this is plain training on the
                pooled data, and a warning says so.
        """
        self._forget()
        self._check_parameters()
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, targets = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"`y` must have at least two classes; got one class only, {self.classes_[0]!r}"
            )
        members = self._take_environments(environments, len(X))
        self._take_scale(X)
        random_state = make_random_state(self.random_state)
        seed = draw_seed(random_state)
        rows = equalize(members, random_state)
        train = LabelledEnvironments(
            jax.numpy.asarray(self._standardize(X)[rows]),
            jax.numpy.asarray(targets[rows].astype(np.int32)),
        )
        learner = make_learner(
            train,
            network=self._network(),
            objective=MULTICLASS,
            aggregator=self._aggregator(),
            batch_size=self._batch_size(rows.shape[1]),
            decay_steps=(int(self.steps) * 3 // 4,),
            learning_rate=float(self.learning_rate),
            l2=float(self.l2),
        )
        self.model_ = self._train(learner, steps=int(self.steps), seed=seed).model
        return self

    def decision_function(self, X: Any) -> Float[np.ndarray, " rows *classes"]:
        """Returns the logit of each class; for two classes, that of the second less the first."""
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any) -> Float[np.ndarray, "rows classes"]:
        """Returns the probability of each class, in the order of `classes_`."""
        logits = self._logits(X)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Shaped[np.ndarray, " rows"]:
        """Returns the most probable class of each row."""
        best = np.argmax(self._logits(X), axis=1)
        return self.classes_[best]

    def _logits(self, X: Any) -> Float[np.ndarray, "rows classes"]:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        logits = apply_in_blocks(self.model_, self._standardize(X)).astype(np.float64)
        if not np.isfinite(logits).all():
            row = int(np.flatnonzero(~np.isfinite(logits).all(axis=1))[0])
            raise ValueError(f"row {row} of `X` is too far from the training data to be computed")
        return logits

    def _model_template(self) -> Any:
        return eqx.filter_eval_shape(self._network(), jr.key(0))

    def _network(self) -> MLPShape:
        hidden = tuple(int(size) for size in self.hidden_sizes)
        return MLPShape((self.n_features_in_, *hidden, len(self.classes_)))

    def _aggregator(self) -> Any:
        if self.environments_ is None:
            return arithmetic_mean()
        return and_mask(float(self.threshold), rescale=self.rescale)

    def _batch_size(self, num_rows: int) -> int:
        limit = AUTO_BATCH if self.batch_size == "auto" else self.batch_size
        return num_rows if limit is None else min(int(limit), num_rows)

    def _take_environments(self, environments: Any, num_rows: int) -> list[np.ndarray]:
        if environments is None:
            warnings.warn(
                "no `environments` were given: this is plain training on the pooled data, without "
                "the mask. Call `fit(X, y, environments=...)`.",
                UserWarning,
                stacklevel=3,
            )
            self.environments_ = self.agreement_levels_ = None
            return [np.arange(num_rows)]
        self.environments_, members = group_rows(environments, num_rows)
        self.agreement_levels_ = agreement_levels(len(members))
        return members

    def _take_scale(self, X: Float[np.ndarray, "rows features"]) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            self.mean_ = X.mean(axis=0)
            scale = X.std(axis=0)
        if not (np.isfinite(self.mean_) & np.isfinite(scale)).all():
            column = int(np.flatnonzero(~(np.isfinite(self.mean_) & np.isfinite(scale)))[0])
            raise ValueError(
                f"column {column} of `X` has values too large to be standardized; rescale it"
            )
        # A constant column's deviation is 0, or the rounding of its mean.
        constant = scale <= 10 * np.finfo(np.float64).eps * np.abs(self.mean_)
        self.scale_ = np.where(constant, 1.0, scale)

    def _standardize(
        self, X: Float[np.ndarray, "rows features"]
    ) -> Float[np.ndarray, "rows features"]:
        with np.errstate(over="ignore"):  # seen in the logits
            return ((X - self.mean_) / self.scale_).astype(np.float32)

    def _check_parameters(self) -> None:
        check_number("threshold", self.threshold)
        and_mask(float(self.threshold), rescale=self.rescale)  # refuses what it cannot use
        check_number("learning_rate", self.learning_rate, above=0.0)
        check_number("l2", self.l2, least=0.0)
        check_count("steps", self.steps)
        if isinstance(self.hidden_sizes, str) or not isinstance(
            self.hidden_sizes, Sequence | np.ndarray
        ):
            raise TypeError(
                f"`hidden_sizes` must list the units of each hidden layer, such as (64, 64); "
                f"got {self.hidden_sizes!r}"
            )
        for size in self.hidden_sizes:
            check_count("hidden_sizes", size)
        if isinstance(self.batch_size, str):
            if self.batch_size != "auto":
                raise ValueError(
                    f'`batch_size` must be a whole number, "auto" or None; got {self.batch_size!r}'
                )
        elif self.batch_size is not None:
            check_count("batch_size", self.batch_size)
