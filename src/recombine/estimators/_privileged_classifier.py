"""A classifier with a teacher that knew more in training (Neitz, thesis, ch. 4)."""

from typing import Any, Self

import numpy as np
from jaxtyping import Int, Shaped
from sklearn.base import ClassifierMixin

from recombine.estimators._class_outputs import ClassOutputs, read_classes
from recombine.estimators._privileged import PrivilegedEstimator
from recombine.methods.distillation import ClassLabels


class PrivilegedClassifier(ClassifierMixin, ClassOutputs, PrivilegedEstimator):
    r"""A neural network, taught by one that is shown what is known in training only.

    **Privileged data** are what a training row comes with and a new row does not: later
    measurements, a better sensor, an expert's notes. A *student* learns to predict from `X` alone.
    A *teacher* reads the privileged data of the same row, and says what a layer of the student
    should compute for it. Nobody tells the teacher what to teach: it learns to, by the gradient of
    the student's errors on rows that the student has not learned from, through some of the
    student's own steps (Neitz, thesis, ch. 4). The teacher is needed in training only, and the
    student costs what it would without one.

    **When it helps.** Where the privileged data explain the label with less noise, or in simpler
    terms, than `X` does, and labelled rows are few. It need not help, and `compare_=True` says
    whether it did.

    **X** is a table of numbers, or sequences of equal length, (rows, steps, features); so are the
    privileged data. `PrivilegedRegressor` is for numbers in the place of classes.

    **Modules of your own.** `student` and `teacher` are functions that make an `equinox.Module`
    from a key: `lambda key: MyStudent(..., key=key)`. A student is called with one example,
    standardized, and returns a pair: the logits, one for each class, and the activations that it
    offers to be taught, an array or any tuple of arrays. A teacher is called with the privileged
    data of one example, standardized, and returns targets: arrays of the activations' shapes, or
    one vector for all of them in order. What exists already is given as
    `recombine.methods.distillation.Ready(module)`.

    Args:
        method: "teacher"; "auxiliary", where the privileged data are predicted by a linear head
            beside the label; "none", which leaves them alone.
        student: makes a student of your own; None for a network with `hidden_sizes`.
        teacher: makes a teacher of your own; None for a network with `teacher_width`.
        hidden_sizes: units of each hidden layer of the student. The first is linear, and it is the
            one that is taught. Sequences are read as one long row.
        teacher_width: units of the teacher's hidden layers; it reads sequences by convolutions over
            time first.
        iterations: of each a step of the teacher and some steps of the student. With too many, a
            student can learn noisy labels by heart, taught or not.
        batch_size: rows in every step of a student.
        learning_rate: of the student's Adam, in its real steps and in those that the teacher looks
            ahead.
        teacher_learning_rate: of the teacher's Adam.
        teaching_weight: how much the teacher's targets count beside the labels.
        inner_steps: how many steps the teacher looks ahead; time and memory grow with them.
        student_steps: real steps in an iteration; None for one pass over the rows that the student
            learns from.
        validation_share: of the rows, those that judge the teacher, and which the student does not
            learn from.
        resample: whether these rows are drawn anew in every iteration, so that every label is
            learned from in the course of time; False draws them once. The thesis's toy tasks need
            it; on its control tasks, with 4,000 rows, it harmed.
        compare_: whether to train a student without a teacher, one with an auxiliary task and one
            with a teacher of shuffled privileged data beside it, on parts of the rows, and to
            compare them on the others. It takes the time of two fits or so for each of the
            `compare_seeds`. The estimator itself is trained on all rows as usual.
        compare_seeds: how many splits of the rows are compared on.
        random_state: a whole number for the same result every time, on the same kind of device.
        verbose: whether to show progress.

    Attributes:
        classes_: the labels, sorted.
        is_taught_: whether there was a teacher: not without privileged data, nor with another
            `method`.
        comparison_: what `comparison_report` tells, or None; its `scores` are those of each method
            for every split.
        history_: training curves: `step`, `accuracy` on training rows, and from the second entry
            on, of the last iteration before, the student's `loss`, its parts `label_loss` and
            `teaching_loss`, and the teacher's `meta_loss`: the label loss after looking ahead, on
            the rows that judge it.
        input_shape_: of one row: (features,), or (steps, features).
        n_features_in_: the number of features.
        feature_names_in_: their names, where `X` had names that are all strings.
        mean_: subtracted from each feature.
        scale_: each feature is divided by it afterwards.
        model_: the student.

    Example:
        >>> import numpy as np
        >>> from recombine import PrivilegedClassifier
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(60, 20))
        >>> later = X[:, :5].sum(axis=1, keepdims=True)  # measured later, in training only
        >>> y = np.where(later[:, 0] > 0, "ill", "well")
        >>> model = PrivilegedClassifier(iterations=5, inner_steps=8, random_state=0)
        >>> model = model.fit(X, y, privileged=later)  # so few iterations only show the calls
        >>> model.is_taught_, model.predict(X[:3]).shape
        (True, (3,))
    """

    _score_name = "accuracy"

    def fit(self, X: Any, y: Any, privileged: Any = None) -> Self:
        """Trains student and teacher.

        Args:
            X: numbers, one row per example: (rows, features) or (rows, steps, features).
            y: the label of each row.
            privileged: what else is known of each row: (rows, features) or (rows, steps, features).
                Without them this is plain training, and a warning says so unless `method="none"`.
        """
        self._forget()
        self._check_parameters()
        X, y = self._read(X, y)
        self.classes_ = read_classes(y)
        self._learn(X, y, privileged)
        return self

    def _objective(self) -> ClassLabels:
        return ClassLabels()

    def _encode(self, y: Shaped[np.ndarray, " rows"]) -> Int[np.ndarray, " rows"]:
        return np.searchsorted(self.classes_, y).astype(np.int32)
