"""What `InvariantClassifier` and `InvariantRegressor` share: all but what is predicted.

Departures from the thesis, made for tables of any origin: inputs are standardized, environments
may differ in size, and the learning rate falls tenfold once, after three quarters of the steps.
"""

import functools
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Shaped
from sklearn.utils.validation import check_is_fitted, validate_data

from recombine.estimators._base import Estimator, draw_seed, make_random_state
from recombine.estimators._blocks import apply_in_blocks
from recombine.estimators._checks import check_count, check_number, check_sizes
from recombine.estimators._environments import (
    agreement_levels,
    environments_of,
    equalize,
    group_rows,
)
from recombine.estimators._invariant_methods import InvariantMethod, MethodSettings, used_network
from recombine.estimators._own_data import make_learner
from recombine.estimators._standardizing import Standard, measure
from recombine.methods import consistency
from recombine.methods.agreement import (
    MLP,
    Descent,
    Epochs,
    LabelledEnvironments,
    MLPShape,
    Objective,
    Rescale,
)

AUTO_BATCH = 1024
"""With `batch_size="auto"`, environments of up to so many rows are used whole in every step."""

REPORTED_ROWS = 512
"""Of every environment, at most so many rows are looked at for a consistency report."""


class InvariantEstimator(Estimator):
    """A network on a table with environments, trained by one of the methods.

    A subclass says what is predicted: `_objective`, `_num_outputs` and `_encode`; and, with
    `_start_scale`, how large the initial weights are beside those of `MLP`.
    """

    model_: MLP
    environments_: Shaped[np.ndarray, " envs"] | None
    agreement_levels_: Float[np.ndarray, " levels"] | None
    n_features_in_: int
    feature_names_in_: Shaped[np.ndarray, " features"]  # where `X` has them
    mean_: Float[np.ndarray, " features"]
    scale_: Float[np.ndarray, " features"]

    _objective: Objective
    _start_scale = 1.0  # of the initial weights

    def __init__(
        self,
        threshold: float = 1.0,
        *,
        method: InvariantMethod = "and-mask",
        hidden_sizes: Sequence[int] = (64,),
        steps: int = 1000,
        batch_size: int | Literal["auto"] | None = "auto",
        learning_rate: float = 1e-2,
        l2: float = 1e-4,
        rescale: Rescale | None = "tensor",
        penalty_weight: float | None = None,
        anneal_share: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ):
        self.threshold = threshold
        self.method = method
        self.hidden_sizes = hidden_sizes
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.l2 = l2
        self.rescale = rescale
        self.penalty_weight = penalty_weight
        self.anneal_share = anneal_share
        self.random_state = random_state
        self.verbose = verbose

    def consistency_report(
        self,
        X: Any,
        y: Any,
        environments: Any,
        *,
        epsilon: float = 0.01,
        radius: float | None = 1.0,
        steps: int = 50,
        restarts: int = 1,
    ) -> consistency.ConsistencyReport:
        """Measures how hard to vary the fitted network is, and where environments agree on it.

        **The score**: parameters near the network's are tried which one environment cannot tell
        from it, since its loss changes by at most `epsilon`. The score is the largest difference
        that this makes to another environment: epsilon is the best there is, and a solution made
        of patches, one for each environment, scores high. **The profile** says for every layer
        how many environments want to move the parameters the same way.

        **What it does not say.** The score is a lower bound: a longer search may find more. It
        depends on `epsilon` and `radius`, so compare models only under the same. Environments
        whose losses differ at the network itself score at least that difference. And a shortcut
        that works in the same way in all the environments is consistent.

        The losses are those of training: cross-entropy for classes, squared error in units of the
        variance of `y` for numbers, without the regularizer. At most 512 rows of each environment
        are used, drawn once and for all; smaller environments are repeated as in `fit`. The same
        call gives the same report.

        Args:
            X: a table as in `fit`, of the training data or of others.
            y: what is to be predicted.
            environments: of each row, where it comes from; at least two, known from training or
                not. The time grows with the square of their number.
            epsilon: by how much a loss may change before its environment notices.
            radius: how far the parameters may be moved, in Euclidean distance; None for any. Most
                networks have directions that leave a loss as it is, and the score then grows
                without end.
            steps: of every walk.
            restarts: walks for every pair of environments, upwards and downwards each.
        """
        check_is_fitted(self)
        for name, value in (("steps", steps), ("restarts", restarts)):
            check_count(name, value)
        check_number("epsilon", epsilon, above=0.0)
        if radius is not None:
            check_number("radius", radius, above=0.0)
        X, y = self._checked_data(X, y, environments, reset=False)
        labels, members = group_rows(environments, len(X))
        rows = equalize(members, np.random.RandomState(0))[:, :REPORTED_ROWS]
        targets = self._encode(y)
        inputs = self._standard().apply(X)[rows]
        return consistency.consistency_report(
            _mean_loss(self._objective),
            jax.tree.map(jnp.asarray, self.model_),
            (jnp.asarray(inputs), jnp.asarray(targets[rows])),
            float(epsilon),
            key=jr.key(0),
            environments=[str(label) for label in labels.tolist()],
            radius=None if radius is None else float(radius),
            steps=int(steps),
            restarts=int(restarts),
        )

    @abstractmethod
    def _num_outputs(self) -> int:
        """Returns how many outputs the network has."""

    @abstractmethod
    def _encode(self, y: Shaped[np.ndarray, " rows"]) -> Shaped[np.ndarray, " rows"]:
        """Returns what the network is to predict, as the objective takes it."""

    def _checked_data(
        self, X: Any, y: Any, environments: Any, *, reset: bool = True, **how: Any
    ) -> tuple[Float[np.ndarray, "rows features"], Shaped[np.ndarray, " rows"]]:
        """Reads a table and its labels, and says which environments hold what cannot be used."""
        try:
            checked: Any = validate_data(self, X, y, dtype=np.float64, reset=reset, **how)
            return checked
        except ValueError as error:
            _raise_with_environments(error, X, environments)

    def _take_environments(self, environments: Any, num_rows: int) -> list[np.ndarray]:
        if environments is None:
            if self.method != "plain":
                warnings.warn(
                    f"no `environments` were given: this is plain training on the pooled data, "
                    f"without {self.method!r}. Call `fit(X, y, environments=...)`.",
                    UserWarning,
                    stacklevel=3,
                )
            self.environments_ = self.agreement_levels_ = None
            return [np.arange(num_rows)]
        self.environments_, members = group_rows(environments, num_rows)
        self.agreement_levels_ = agreement_levels(len(members))
        return members

    def _train_network(
        self,
        X: Float[np.ndarray, "rows features"],
        y: Shaped[np.ndarray, " rows"],
        members: list[np.ndarray],
    ) -> None:
        self.mean_, self.scale_ = measure(X, "column {} of `X`")
        random_state = make_random_state(self.random_state)
        seed = draw_seed(random_state)
        rows = equalize(members, random_state)
        targets = self._encode(y)
        method = self._method() if len(members) > 1 else MethodSettings("plain")
        steps = int(self.steps)
        learner = make_learner(
            LabelledEnvironments(
                jnp.asarray(self._standard().apply(X)[rows]), jnp.asarray(targets[rows])
            ),
            network=method.network(self._sizes(), len(members), self._start_scale),
            objective=self._objective,
            method=method.make(steps),
            batches=Epochs(self._rows_per_step(rows.shape[1])),
            optimizer=Descent(
                learning_rate=float(self.learning_rate),  # pyright: ignore[reportArgumentType]
                l2=float(self.l2),  # pyright: ignore[reportArgumentType]
                decay_steps=(steps * 3 // 4,),
            ),
        )
        self.model_ = used_network(self._train(learner, steps=steps, seed=seed).model)

    def _outputs(self, X: Any) -> Float[np.ndarray, "rows outputs"]:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        outputs = apply_in_blocks(self.model_, self._standard().apply(X)).astype(np.float64)
        if not np.isfinite(outputs).all():
            row = int(np.flatnonzero(~np.isfinite(outputs).all(axis=1))[0])
            raise ValueError(f"row {row} of `X` is too far from the training data to be computed")
        return outputs

    def _model_template(self) -> Any:
        return eqx.filter_eval_shape(MLPShape(self._sizes()), jr.key(0))

    def _sizes(self) -> tuple[int, ...]:
        hidden = tuple(int(size) for size in self.hidden_sizes)
        return (self.n_features_in_, *hidden, self._num_outputs())

    def _standard(self) -> Standard:
        return Standard(self.mean_, self.scale_)

    def _rows_per_step(self, num_rows: int) -> int:
        limit = AUTO_BATCH if self.batch_size == "auto" else self.batch_size
        return num_rows if limit is None else min(int(limit), num_rows)

    def _method(self) -> MethodSettings:
        return MethodSettings(
            self.method, self.threshold, self.rescale, self.penalty_weight, self.anneal_share
        )

    def _check_parameters(self) -> None:
        self._method().check()
        check_number("learning_rate", self.learning_rate, above=0.0)
        check_number("l2", self.l2, least=0.0)
        check_count("steps", self.steps)
        check_sizes("hidden_sizes", self.hidden_sizes, example="(64, 64)")
        if isinstance(self.batch_size, str):
            if self.batch_size != "auto":
                raise ValueError(
                    f'`batch_size` must be a whole number, "auto" or None; got {self.batch_size!r}'
                )
        elif self.batch_size is not None:
            check_count("batch_size", self.batch_size)


@functools.cache  # one function per objective, so that a second report is not compiled anew
def _mean_loss(objective: Objective) -> Callable[[Any, Any], Float[Array, ""]]:
    def loss(model: Any, batch: tuple[Array, Array]) -> Float[Array, ""]:
        inputs, labels = batch
        return jnp.mean(jax.vmap(objective.loss)(jax.vmap(model)(inputs), labels))

    return loss


def _raise_with_environments(error: ValueError, X: Any, environments: Any) -> NoReturn:
    """Raises what was refused, with the environments of rows that are not finite, if that is it."""
    if environments is None:
        raise error
    try:
        is_broken = np.any(~np.isfinite(np.asarray(X, np.float64)), axis=1)
        broken = environments_of(is_broken, environments) if is_broken.any() else []
    except (ValueError, TypeError):  # something else is the matter, and `error` says what
        broken = []
    if not broken:
        raise error
    named = ", ".join(map(repr, broken))
    raise ValueError(f"{error}\nThe rows are of environment {named}.") from error
