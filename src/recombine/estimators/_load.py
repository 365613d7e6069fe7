"""Reading saved estimators back."""

import difflib
from pathlib import Path

from recombine.estimators._base import Estimator
from recombine.estimators._invariant_classifier import InvariantClassifier
from recombine.estimators._invariant_regressor import InvariantRegressor
from recombine.estimators._meta_seq2seq import MetaSeq2Seq
from recombine.estimators._modular_few_shot import ModularFewShot
from recombine.estimators._privileged_classifier import PrivilegedClassifier
from recombine.estimators._privileged_regressor import PrivilegedRegressor
from recombine.estimators._saving import EstimatorFileError, read_estimator
from recombine.estimators._skip_forecaster import SkipForecaster

ESTIMATORS: dict[str, type[Estimator]] = {
    "InvariantClassifier": InvariantClassifier,
    "InvariantRegressor": InvariantRegressor,
    "MetaSeq2Seq": MetaSeq2Seq,
    "ModularFewShot": ModularFewShot,
    "PrivilegedClassifier": PrivilegedClassifier,
    "PrivilegedRegressor": PrivilegedRegressor,
    "SkipForecaster": SkipForecaster,
}
"""The classes that a file may name."""


def load(path: str | Path) -> Estimator:
    """Reads an estimator that `save` wrote; it predicts as it did before, bit for bit.

    Nothing in the file is run: a file from an untrusted source can give wrong predictions, but
    cannot execute code.

    Raises:
        EstimatorFileError: the file is foreign, damaged, of a newer format or an unknown class.
        FileNotFoundError: there is no such file.
    """
    path = Path(path)
    stored = read_estimator(path)
    if stored.class_name not in ESTIMATORS:
        nearest = difflib.get_close_matches(stored.class_name, ESTIMATORS) or sorted(ESTIMATORS)
        raise EstimatorFileError(
            f"{path} holds a {stored.class_name!r} (written by recombine {stored.version}), which "
            f"this version does not know; it knows {', '.join(nearest)}. Upgrade recombine."
        )
    try:
        estimator = ESTIMATORS[stored.class_name](**stored.params)
        estimator._restore(stored)
    except (TypeError, ValueError, AttributeError, LookupError, AssertionError) as error:
        raise EstimatorFileError(
            f"{path} does not fit this version's {stored.class_name} (it was written by "
            f"recombine {stored.version}): {error}"
        ) from error
    return estimator
