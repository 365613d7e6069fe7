"""What the estimators share: scikit-learn's conventions around our training loop, and saving."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PyTree
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from recombine.estimators._saving import Stored, describe, write_estimator
from recombine.training import (
    Fit,
    Interrupted,
    Learner,
    NonFiniteError,
    StopRequest,
    fit,
    make_progress,
)

EVALUATIONS = 50
"""How many points a training curve has, beside its start."""


class Estimator(BaseEstimator):
    """The base of all estimators: training, curves, saving.

    A subclass trains with `_train`, keeps what it learned in `model_` (a pytree with arrays) and
    in other attributes that end in an underscore, and says in `_model_template` what `model_`
    looks like, given those attributes.
    """

    random_state: int | np.random.RandomState | None
    verbose: bool
    model_: PyTree[Any]
    history_: dict[str, Float[np.ndarray, " evaluations"]]

    @abstractmethod
    def _model_template(self) -> PyTree[Any]:
        """Returns a pytree with the structure and shapes of `model_`; the values do not matter."""

    def save(self, path: str | Path) -> None:
        """Writes the fitted estimator to one file, without pickle; `recombine.load` reads it.

        The file is replaced as a whole: when writing fails, an older one stays as it was.
        """
        from recombine.estimators._load import ESTIMATORS

        name = type(self).__name__
        if ESTIMATORS.get(name) is not type(self):
            raise TypeError(
                f"{name} is not one of recombine's own estimators ({', '.join(ESTIMATORS)}), so "
                f"`recombine.load` could not read it back; save it with joblib instead"
            )
        check_is_fitted(self)
        if _shapes(self._model_template()) != _shapes(self.model_):
            raise ValueError(
                f"parameters of {name} were changed after `fit`, and no longer describe what was "
                f"learned; the file could not be read back. Set them back, or fit again."
            )
        write_estimator(Path(path), self)

    def __sklearn_is_fitted__(self) -> bool:
        """Says whether there is a model; a fit that failed leaves none."""
        return hasattr(self, "model_")

    def _forget(self) -> None:
        """Drops an earlier model, so that a fit that fails cannot leave half of each."""
        vars(self).pop("model_", None)

    def _train(
        self,
        learner: Learner,
        *,
        steps: int,
        seed: int,
        vectorize: bool | None = None,
        remedy: str = "Lower `learning_rate`, and look for extreme values in `X`.",
    ) -> Any:
        """Trains one seed, fills `history_` and returns the final state on the host.

        `remedy` is what a user can do about a loss that is not finite.
        """
        fitted = self._fit_seeds(
            learner, steps=steps, seeds=(seed,), vectorize=vectorize, remedy=remedy
        )
        state = jax.device_get(fitted.state_of(seed))
        if not _is_finite(state):
            raise FloatingPointError(
                f"{type(self).__name__} stopped: the last of {steps} steps led to numbers that are "
                f"not finite. Lower `learning_rate`."
            )
        curves = {
            metric.removeprefix("step/"): values[:, 0]
            for metric, values in fitted.history.curves().items()
        }
        self.history_ = {"step": np.asarray(fitted.history.steps), **curves}
        return state

    def _fit_seeds(
        self,
        learner: Learner,
        *,
        steps: int,
        seeds: Sequence[int],
        vectorize: bool | None = None,
        remedy: str,
    ) -> Fit:
        """Calls `fit`, and raises what users of estimators expect."""
        name = type(self).__name__
        try:
            with StopRequest() as stop:
                fitted = fit(
                    learner,
                    steps=steps,
                    eval_every=math.ceil(steps / EVALUATIONS),
                    seeds=seeds,
                    progress=make_progress(name) if self.verbose else False,
                    vectorize=vectorize,
                )
            if stop.asked:  # in the last steps: `fit` ended by itself
                raise KeyboardInterrupt(f"{name} stopped at step {steps} of {steps}")
            return fitted
        except NonFiniteError as error:
            raise FloatingPointError(
                f"{name} stopped: the training loss was not finite at step {error.step} of "
                f"{steps}. {remedy}"
            ) from error
        except Interrupted as error:
            # An ordinary exception would be taken for one failed fit by a grid search.
            raise KeyboardInterrupt(f"{name} stopped at step {error.step} of {steps}") from error

    def _restore(self, stored: Stored) -> None:
        """Takes over what a file holds."""
        for name, value in stored.fitted.items():
            if name.startswith("_") or not name.endswith("_"):
                raise ValueError(f"`{name}` is not the name of a fitted attribute")
            setattr(self, name, value)
        leaves, structure = jax.tree.flatten(self._model_template())
        expected, found = _shapes(leaves), _shapes(stored.model)
        if expected != found:
            raise ValueError(f"its model has the arrays {found}; {expected} were expected")
        self.model_ = jax.tree.unflatten(structure, stored.model)


def _shapes(model: PyTree[Any]) -> list[Any]:
    """Returns what is known of each array of a model without its values."""
    return [describe(leaf) for leaf in jax.tree.leaves(model)]


def draw_seed(random_state: np.random.RandomState) -> int:
    """Returns a seed for `recombine.training.fit`."""
    return int(random_state.randint(np.iinfo(np.int32).max))


def make_random_state(random_state: Any) -> np.random.RandomState:
    """Reads `random_state` as scikit-learn does: a number, a generator, or None for the global."""
    return check_random_state(random_state)


def _is_finite(state: Any) -> bool:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
    return all(np.isfinite(leaf).all() for leaf in leaves if leaf.dtype.kind == "f")
