"""A classifier that learns only what several environments agree on (Neitz, thesis, ch. 3)."""

from typing import Any, Self

import numpy as np
from jaxtyping import Int, Shaped
from sklearn.base import ClassifierMixin

from recombine.estimators._class_outputs import ClassOutputs, read_classes
from recombine.estimators._invariant import InvariantEstimator
from recombine.methods.agreement import MULTICLASS


class InvariantClassifier(ClassifierMixin, ClassOutputs, InvariantEstimator):
    r"""A neural network that follows only the gradients on which environments agree.

    In every step each environment (a hospital, a sensor, a year) computes its own gradient.
    Components whose signs differ too much between environments are set to zero (the AND-mask).
    What predicts the label in the same way everywhere is learned; a shortcut that works in a
    different way in each environment is not, even if it is more accurate on all the data together.
    Six other methods stand beside the mask, to compare with; `InvariantRegressor` is for numbers
    in the place of classes.

    **Environments** have equal weight, whatever their sizes: the rows of smaller ones are repeated
    in whole shuffled passes until all are as long as the longest, the last pass cut. They should
    differ in what is accidental and share what is essential, and each needs rows of two classes
    or more. With d environments the agreement
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
            For "and-mask" and "geometric"; with other methods leave it at 1.
        method: "and-mask"; "geometric", the geometric mean of the gradients' sizes where the mask
            keeps them; "irm", "vrex" or "fishr", which add a penalty on what differs between
            environments to the mean loss; "dann", where the last hidden layer learns to hide the
            environment from a discriminator; "plain", the mean loss alone.
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
            For "and-mask" and "geometric".
        penalty_weight: how much the penalty counts; with "dann", how much of the discriminator's
            gradient comes back reversed. None for DomainBed's: 100 for "irm", 10 for "vrex", 1,000
            for "fishr", 1 for "dann". What is good differs much from data to data.
        anneal_share: the share of the steps before the penalty of "irm", "vrex" or "fishr" counts
            in full. Until then its weight is 1, and 0 for "fishr". None for DomainBed's: 0.1, and
            0.3 for "fishr".
        random_state: a whole number for the same result every time, on the same kind of device.
        verbose: whether to show progress.

    Attributes:
        classes_: the labels, sorted.
        environments_: the environments' labels, sorted; None after fitting without them.
        agreement_levels_: the agreements that the environments can reach; None without them.
        history_: training curves: `step`, `accuracy` (mean over environments), `worst_accuracy`
            (of the worst environment), and from the second entry on, of the last step before, the
            `loss` and what the method measures: the share of gradient components `kept`, the
            `penalty` before it is weighted, or the discriminator's `domain_loss`.
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

    _objective = MULTICLASS

    def fit(self, X: Any, y: Any, environments: Any = None) -> Self:
        """Trains the network.

        Args:
            X: a table of numbers, one row per example.
            y: the label of each row.
            environments: of each row, the label of the environment it comes from: strings or
                numbers, at least two distinct ones. Without them this is plain training on the
                pooled data, and a warning says so where another method was asked for.
        """
        self._forget()
        self._check_parameters()
        X, y = self._checked_data(X, y, environments)
        self.classes_ = read_classes(y)
        members = self._take_environments(environments, len(X))
        self._check_classes(y, members)
        self._train_network(X, y, members)
        return self

    def _encode(self, y: Shaped[np.ndarray, " rows"]) -> Int[np.ndarray, " rows"]:
        is_known = np.isin(y, self.classes_)
        if not is_known.all():
            raise ValueError(
                f"`y` has the class {y[~is_known].tolist()[0]!r}, which the model was not trained "
                f"with; it knows {self.classes_.tolist()}"
            )
        return np.searchsorted(self.classes_, y).astype(np.int32)

    def _check_classes(self, y: Shaped[np.ndarray, " rows"], members: list[np.ndarray]) -> None:
        """Refuses environments that have nothing to tell apart."""
        if self.environments_ is None or self.method == "plain":
            return
        for label, rows in zip(self.environments_.tolist(), members, strict=True):
            if (y[rows] == y[rows[0]]).all():
                [only] = y[rows[:1]].tolist()
                raise ValueError(
                    f"environment {label!r} has one class only, {only!r}: nothing there tells "
                    f"classes apart, and its gradient asks for that class whatever the row. Join "
                    f"it with another environment, or leave its rows out."
                )
