"""scikit-learn's own checks of what it expects of an estimator."""

from typing import Any

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from recombine import (
    InvariantClassifier,
    InvariantRegressor,
    PrivilegedClassifier,
    PrivilegedRegressor,
)

# The checks call `fit(X, y)`, hence plain training, which warns.
pytestmark = [
    pytest.mark.filterwarnings("ignore:no `environments` were given:UserWarning"),
    pytest.mark.filterwarnings("ignore:no `privileged` data were given:UserWarning"),
    pytest.mark.usefixtures("quick_compilation"),
]

EXPECTED_TO_FAIL: dict[str, dict[str, str]] = {
    "InvariantClassifier": {},
    "InvariantRegressor": {},
    "PrivilegedClassifier": {},
    "PrivilegedRegressor": {},
}
"""For each estimator, the checks that fail, each with its reason."""


def expected_to_fail(estimator: Any) -> dict[str, str]:
    return EXPECTED_TO_FAIL[type(estimator).__name__]


@parametrize_with_checks(
    [
        InvariantClassifier(hidden_sizes=(8,), steps=60, learning_rate=0.03, random_state=0),
        InvariantRegressor(hidden_sizes=(8,), steps=60, learning_rate=0.03, random_state=0),
    ],
    expected_failed_checks=expected_to_fail,
    xfail_strict=True,
)
def test_estimator_passes_the_check(estimator, check):
    check(estimator)


PRIVILEGED: dict[str, Any] = {
    "hidden_sizes": (8, 8),
    "iterations": 20,
    "learning_rate": 0.02,
    "random_state": 0,
}

# Every size of a table is compiled: all checks of the two take two minutes.
SOME_CHECKS = (
    "check_estimator_cloneable",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_estimators_unfitted",
    "check_fit2d_1sample",
    "check_estimators_nan_inf",
    "check_estimators_pickle",
)


@pytest.mark.parametrize("check", SOME_CHECKS)
def test_a_privileged_estimator_passes_the_check(check):
    getattr(estimator_checks, check)("PrivilegedClassifier", PrivilegedClassifier(**PRIVILEGED))


@pytest.mark.slow
@parametrize_with_checks(
    [PrivilegedClassifier(**PRIVILEGED), PrivilegedRegressor(**PRIVILEGED)],
    expected_failed_checks=expected_to_fail,
    xfail_strict=True,
)
def test_privileged_estimators_pass_all_checks(estimator, check):
    check(estimator)
