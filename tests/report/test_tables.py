"""Numbers as texts: enough digits to tell what a reader asks about."""

import pytest

from recombine.experiments import Metric
from recombine.report import Summary, summary_text
from recombine.report._tables import signed_text

SHARE, NUMBER = Metric("a", "accuracy"), Metric("e", "error", percent=False)


@pytest.mark.parametrize(
    ("mean", "sd", "text"),
    [
        (0.25, 0.0707, "0.2500 ± 0.0707"),
        (0.0015, 4.3e-5, "0.001500 ± 0.000043"),
        (7.7e-7, 1.24e-7, "7.70e-07 ± 1.2e-07"),
        (0.00132, None, "0.00132"),
        (0.0427, None, "0.0427"),
        (0.0, 0.0, "0.0000 ± 0.0000"),
        (1.0, 1e-9, "1.0000 ± 0.0000"),  # rounding, not spread
        (-12.5, 3.0, "-12.5000 ± 3.0000"),
    ],
)
def test_small_numbers_keep_their_digits(mean, sd, text):
    assert summary_text(Summary(mean, sd, 3), NUMBER) == text


def test_shares_have_two_decimals_and_nothing_is_a_dash():
    assert summary_text(Summary(0.9995, 0.0008, 5), SHARE) == "99.95 ± 0.08 %"
    assert summary_text(None, SHARE) == "–"


@pytest.mark.parametrize(
    ("value", "text"),
    [(3.2e-5, "+3.2e-05"), (-3.2e-5, "−3.2e-05"), (-0.0229, "−0.0229"), (0.0, "0"), (1.5, "+1.5")],
)
def test_a_difference_is_zero_only_if_it_is(value, text):
    assert signed_text(value, NUMBER) == text


def test_differences_of_shares_are_points():
    assert signed_text(-0.007, SHARE) == "−0.70"
