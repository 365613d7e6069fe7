"""scikit-learn's own checks of what it expects of an estimator."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from recombine import InvariantClassifier, InvariantRegressor

# The checks call `fit(X, y)`, hence plain training, which warns.
pytestmark = [
    pytest.mark.filterwarnings("ignore:no `environments` were given:UserWarning"),
    pytest.mark.usefixtures("quick_compilation"),
]

EXPECTED_TO_FAIL: dict[str, dict[str, str]] = {"InvariantClassifier": {}, "InvariantRegressor": {}}
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
