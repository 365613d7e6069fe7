import numpy as np
import pytest

from recombine.estimators import PrivilegedComparison


def compare(teacher, none, auxiliary, shuffled):
    scores = {"teacher": teacher, "none": none, "auxiliary": auxiliary, "shuffled": shuffled}
    arrays = {name: np.array(values) for name, values in scores.items()}
    return PrivilegedComparison(arrays, "accuracy", num_rows=75, num_held_out=25)


def test_the_interval_allows_for_training_sets_that_overlap():
    found = compare([0.8, 0.9, 0.7], [0.6, 0.6, 0.6], [0.6, 0.6, 0.6], [0.6, 0.6, 0.6])
    ahead = found.over("none")
    # The deviation is 0.1; 4.30265 is Student's t for 2 degrees of freedom.
    reach = 4.30265 * 0.1 * np.sqrt(1 / 3 + 25 / 75)
    assert ahead.mean == pytest.approx(0.2)
    np.testing.assert_allclose([ahead.low, ahead.high], [0.2 - reach, 0.2 + reach], rtol=1e-5)


FLAT, HIGH, LOW = [0.60, 0.61, 0.60], [0.80, 0.81, 0.81], [0.40, 0.41, 0.40]
NOISY = [0.5, 0.9, 0.7]


@pytest.mark.parametrize(
    ("scores", "verdict", "said"),
    [
        ((HIGH, FLAT, FLAT, FLAT), "helped", "The teacher helped"),
        ((HIGH, FLAT, NOISY, FLAT), "helped", "An auxiliary task may do as well"),
        ((LOW, FLAT, FLAT, FLAT), "hurt", "predict without one"),
        ((HIGH, FLAT, FLAT, HIGH), "unclear", "need not come from the data"),
        ((FLAT, FLAT, HIGH, FLAT), "unclear", "An auxiliary task did better"),
        ((NOISY, FLAT, FLAT, FLAT), "unclear", "No clear difference"),
    ],
)
def test_verdicts_say_no_more_than_the_scores(scores, verdict, said):
    found = compare(*scores)
    assert found.verdict == verdict
    assert said in str(found)


def test_the_report_names_every_method_and_how_it_was_measured():
    text = str(compare(HIGH, FLAT, LOW, FLAT))
    assert "the mean of 3 splits, with 75 rows to learn from and 25 to judge by" in text
    for name in ("no teacher", "auxiliary task", "shuffled teacher"):
        assert name in text
    assert "+0.203 (+0." in text
