"""What `PrivilegedClassifier` and `PrivilegedRegressor` share: all but what is predicted.

Departures from the thesis, made for data of any origin: inputs and privileged data are
standardized, the teacher's validation part is drawn anew in every iteration unless told otherwise,
as the published toy tasks need it, and one student serves tables and sequences.
"""

import contextlib
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, Shaped
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from recombine.estimators._base import Estimator, draw_seed, make_random_state
from recombine.estimators._blocks import apply_in_blocks
from recombine.estimators._checks import check_count, check_number, check_sizes
from recombine.estimators._privileged_arrays import (
    is_sequences,
    measure_features,
    parse_privileged,
    standardize,
)
from recombine.estimators._privileged_comparison import (
    COMPARED,
    HELD_OUT_SHARE,
    PrivilegedComparison,
)
from recombine.estimators._privileged_learner import (
    OwnPrivilegedLearner,
    PrivilegedMethod,
    PrivilegedTraining,
)
from recombine.estimators._privileged_models import (
    Predictor,
    count_offered,
    make_student_shape,
    make_teacher_shape,
    without_auxiliary,
)
from recombine.estimators._standardizing import Standard
from recombine.methods.adaptation import DivergedError
from recombine.methods.distillation import (
    ClassLabels,
    NumberLabels,
    PrivilegedExamples,
    Validation,
)

REMEDY = (
    "Lower `learning_rate` or `teaching_weight`, and look for extreme values in `X` and "
    "`privileged`."
)


class PrivilegedEstimator(Estimator):
    """A student on tables or sequences, with a teacher that saw more in training.

    A subclass says what is predicted: `_objective`, `_score_name`, `_num_outputs` and `_encode`.
    """

    model_: Any
    is_taught_: bool
    comparison_: dict[str, Any] | None
    input_shape_: tuple[int, ...]
    n_features_in_: int
    feature_names_in_: Shaped[np.ndarray, " features"]  # where `X` has them
    mean_: Float[np.ndarray, " features"]
    scale_: Float[np.ndarray, " features"]

    _score_name: str

    def __init__(
        self,
        *,
        method: PrivilegedMethod = "teacher",
        student: Callable[[Any], Any] | None = None,
        teacher: Callable[[Any], Any] | None = None,
        hidden_sizes: Sequence[int] = (32, 128),
        teacher_width: int = 128,
        iterations: int = 120,
        batch_size: int = 16,
        learning_rate: float = 1e-3,
        teacher_learning_rate: float = 1e-3,
        teaching_weight: float = 1000.0,
        inner_steps: int = 32,
        student_steps: int | None = None,
        validation_share: float = 0.5,
        resample: bool = True,
        compare_: bool = False,
        compare_seeds: int = 5,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ):
        self.method = method
        self.student = student
        self.teacher = teacher
        self.hidden_sizes = hidden_sizes
        self.teacher_width = teacher_width
        self.iterations = iterations
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.teacher_learning_rate = teacher_learning_rate
        self.teaching_weight = teaching_weight
        self.inner_steps = inner_steps
        self.student_steps = student_steps
        self.validation_share = validation_share
        self.resample = resample
        self.compare_ = compare_
        self.compare_seeds = compare_seeds
        self.random_state = random_state
        self.verbose = verbose

    def comparison_report(self) -> PrivilegedComparison:
        """Returns what `compare_=True` found, to be printed or looked into."""
        check_is_fitted(self)
        if self.comparison_ is None:
            raise ValueError(
                "nothing was compared: call `fit` with `privileged`, after setting `compare_=True`"
            )
        return PrivilegedComparison(**self.comparison_)

    def save(self, path: str | Path) -> None:
        """Writes the fitted estimator to one file, without pickle; `recombine.load` reads it.

        A student or teacher of your own is code, which such a file cannot hold: write the trained
        student, `model_`, with `equinox.tree_serialise_leaves`.
        """
        if self.student is not None or self.teacher is not None:
            raise TypeError(
                f"a {type(self).__name__} with a `student` or `teacher` of your own cannot be "
                f"saved: a file holds numbers, no code. Write the trained student with "
                f"`equinox.tree_serialise_leaves(path, model.model_)`."
            )
        super().save(path)

    @abstractmethod
    def _objective(self) -> ClassLabels | NumberLabels:
        """Returns what the student is trained for."""

    @abstractmethod
    def _num_outputs(self) -> int:
        """Returns how many outputs the student has."""

    @abstractmethod
    def _encode(self, y: Shaped[np.ndarray, " rows"]) -> Shaped[np.ndarray, " rows"]:
        """Returns what the student is to predict, as the objective takes it."""

    def _read(
        self, X: Any, y: Any, **how: Any
    ) -> tuple[Float[np.ndarray, "rows ..."], Shaped[np.ndarray, " rows"]]:
        """Reads what is trained on, and remembers what it looks like."""
        found: Any
        if is_sequences(X):
            found = check_X_y(X, y, dtype="float64", allow_nd=True, **how)
            vars(self).pop("feature_names_in_", None)
            self.n_features_in_ = found[0].shape[-1]
        else:
            found = validate_data(self, X, y, dtype=np.float64, **how)
        inputs, labels = found
        if 0 in inputs.shape:
            raise ValueError(f"`X` has nothing in it: its shape is {inputs.shape}")
        self.input_shape_ = inputs.shape[1:]
        self.mean_, self.scale_ = measure_features(inputs, "X")
        return inputs, labels

    def _learn(
        self, X: Float[np.ndarray, "rows ..."], y: Shaped[np.ndarray, " rows"], privileged: Any
    ) -> None:
        given = None if privileged is None else parse_privileged(privileged, len(X))
        if given is None and self.method != "none":
            warnings.warn(
                f"no `privileged` data were given: this is plain training from `X` alone, without "
                f"{self.method!r}. Call `fit(X, y, privileged=...)`.",
                UserWarning,
                stacklevel=3,
            )
        method = "none" if given is None else self.method
        self.is_taught_ = method == "teacher"
        known = None
        if given is not None:
            known = jnp.asarray(standardize(given, measure_features(given, "privileged")))
        examples = PrivilegedExamples(
            jnp.asarray(standardize(X, self._standard())), known, jnp.asarray(self._encode(y))
        )
        training = self._training(given)
        random_state = make_random_state(self.random_state)
        seed = draw_seed(random_state)
        self.comparison_ = None
        learner = training.make(method, examples)
        if self.compare_ and given is not None:
            self.comparison_ = self._compare(training, examples, random_state)
        with _naming_divergence(learner, seed):
            state = self._train(learner, steps=int(self.iterations), seed=seed, remedy=REMEDY)
        self.model_ = without_auxiliary(state.training.student)

    def _compare(
        self,
        training: PrivilegedTraining,
        examples: PrivilegedExamples,
        random_state: np.random.RandomState,
    ) -> dict[str, Any]:
        """Trains everything on parts of the rows, and returns the scores on the other rows."""
        num_rows = len(examples.labels)
        num_held_out = round(HELD_OUT_SHARE * num_rows)
        if num_held_out < 2:
            raise ValueError(
                f"`compare_` holds out a quarter of the rows, which is not enough of {num_rows} "
                f"rows to judge by"
            )
        first = draw_seed(random_state) // 2
        seeds = range(first, first + int(self.compare_seeds))
        shuffled = examples._replace(
            privileged=examples.privileged[random_state.permutation(num_rows)]  # pyright: ignore[reportOptionalSubscript]
        )
        scores = {}
        for name in COMPARED:
            is_shuffled = name == "shuffled"
            learner = training.make(
                "teacher" if is_shuffled else name,
                shuffled if is_shuffled else examples,
                num_held_out,
            )
            with _naming_divergence(learner, first):
                fitted = self._fit_seeds(
                    learner, steps=int(self.iterations), seeds=seeds, remedy=REMEDY
                )
            scores[name] = np.asarray(fitted.final["held_out_score"], np.float64)
            if not np.isfinite(scores[name]).all():
                raise ValueError(
                    f"`compare_` cannot judge by {self._score_name}: in one of its splits all "
                    f"{num_held_out} held-out rows have the same `y`. Give more rows, or leave "
                    f"`compare_` out."
                )
        return {
            "scores": scores,
            "score_name": self._score_name,
            "num_rows": num_rows - num_held_out,
            "num_held_out": num_held_out,
        }

    def _training(self, privileged: np.ndarray | None) -> PrivilegedTraining:
        num_offered = count_offered(self._student(), self.input_shape_, self._num_outputs())
        if privileged is not None and not num_offered and (self.compare_ or self.method != "none"):
            raise ValueError(
                "the student offers no activations, so there is nothing for a teacher to teach: "
                'return them beside the prediction, or set `method="none"`'
            )
        teacher = self.teacher
        if privileged is not None and teacher is None:
            teacher = make_teacher_shape(privileged.shape[1:], num_offered, int(self.teacher_width))
        return PrivilegedTraining(
            student=self._student(),
            objective=self._objective(),
            num_offered=num_offered,
            teacher=teacher,
            learning_rate=float(self.learning_rate),
            teacher_learning_rate=float(self.teacher_learning_rate),
            teaching_weight=float(self.teaching_weight),
            inner_steps=int(self.inner_steps),
            student_steps=None if self.student_steps is None else int(self.student_steps),
            batch_size=int(self.batch_size),
            validation=Validation(float(self.validation_share), resample=bool(self.resample)),
        )

    def _outputs(self, X: Any) -> Float[np.ndarray, "rows outputs"]:
        check_is_fitted(self)
        rows: Any
        if len(self.input_shape_) == 1:
            rows = validate_data(self, X, dtype=np.float64, reset=False)
        else:
            rows = check_array(X, dtype="float64", allow_nd=True, input_name="X")
            if rows.shape[1:] != self.input_shape_:
                steps, features = self.input_shape_
                raise ValueError(
                    f"`X` must have {steps} steps of {features} features in every row, as in "
                    f"`fit`; got the shape {rows.shape}"
                )
        inputs = standardize(rows, self._standard())
        outputs = apply_in_blocks(Predictor(self.model_), inputs).astype(np.float64)
        if not np.isfinite(outputs).all():
            row = int(np.flatnonzero(~np.isfinite(outputs).all(axis=1))[0])
            raise ValueError(f"row {row} of `X` is too far from the training data to be computed")
        return outputs

    def _student(self) -> Callable[[Any], Any]:
        if self.student is not None:
            return self.student
        hidden = tuple(int(size) for size in self.hidden_sizes)
        return make_student_shape(self.input_shape_, self._num_outputs(), hidden)

    def _model_template(self) -> Any:
        return eqx.filter_eval_shape(self._student(), jr.key(0))

    def _standard(self) -> Standard:
        return Standard(self.mean_, self.scale_)

    def _check_parameters(self) -> None:
        if self.method not in get_args(PrivilegedMethod):
            known = ", ".join(map(repr, get_args(PrivilegedMethod)))
            raise ValueError(f"`method` must be one of {known}; got {self.method!r}")
        for name in ("student", "teacher"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise TypeError(
                    f"`{name}` must make a {name} from a key, or be None; got "
                    f"{getattr(self, name)!r}"
                )
        for name in ("learning_rate", "teacher_learning_rate"):
            check_number(name, getattr(self, name), above=0.0)
        check_number("teaching_weight", self.teaching_weight, least=0.0)
        check_number("validation_share", self.validation_share)
        for name in ("teacher_width", "iterations", "batch_size", "inner_steps"):
            check_count(name, getattr(self, name))
        if self.student_steps is not None:
            check_count("student_steps", self.student_steps)
        if not 0 < self.validation_share < 1:
            raise ValueError(
                f"`validation_share` is the part of the rows that judges the teacher, between 0 "
                f"and 1; got {self.validation_share!r}"
            )
        check_count("compare_seeds", self.compare_seeds)
        if self.compare_ and self.compare_seeds < 2:
            raise ValueError("`compare_seeds` must be at least 2, to say how sure a difference is")
        check_sizes("hidden_sizes", self.hidden_sizes, example="(32, 128)", least=1)


@contextlib.contextmanager
def _naming_divergence(learner: OwnPrivilegedLearner, seed: int) -> Iterator[None]:
    """Says of a loss that was not finite whether a teacher's look ahead is to blame."""
    try:
        yield
    except FloatingPointError:
        if learner.trained.teacher_training is None:
            raise
        key = jr.key(seed)
        try:
            learner.trained.check_inner_loop(learner.trained.init(key), key)
        except DivergedError as found:
            raise DivergedError(
                f"{found} Here the inner learning rate is `learning_rate`, and `teaching_weight` "
                f"scales a part of the loss."
            ) from found
        raise
