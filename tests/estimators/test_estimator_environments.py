import itertools

import numpy as np
import pytest

from recombine.estimators import agreement_levels
from recombine.estimators._environments import equalize, group_rows
from recombine.methods.agreement import min_agreement


def test_three_environments_agree_all_or_two_against_one():
    np.testing.assert_allclose(agreement_levels(3), [1 / 3, 1])


@pytest.mark.parametrize("num_envs", range(1, 12))
def test_levels_are_what_signs_can_reach(num_envs):
    plus = np.arange(num_envs + 1)
    reached = np.unique(np.abs(2 * plus - num_envs)) / num_envs
    np.testing.assert_allclose(agreement_levels(num_envs), reached)


@pytest.mark.parametrize("num_envs", [2, 3, 4, 5, 16])
def test_thresholds_between_two_levels_keep_the_same(num_envs):
    levels = agreement_levels(num_envs)
    leads = np.round(levels * num_envs)
    for lower, upper in itertools.pairwise(levels):
        between = [lower + share * (upper - lower) for share in (0.1, 0.5, 1.0)]
        kept = [set(leads[leads >= min_agreement(tau, num_envs)]) for tau in between]
        assert kept[0] == kept[1] == kept[2]


def test_rows_are_grouped_by_label_in_sorted_order():
    labels, members = group_rows(["b", "a", "b", "c"], 4)
    assert labels.tolist() == ["a", "b", "c"]
    assert [rows.tolist() for rows in members] == [[1], [0, 2], [3]]


@pytest.mark.parametrize(
    ("environments", "message"),
    [
        ([1, 2, 1], "one label per row of `X`, which has 4; got 3"),
        (7, "one label per row"),
        ([[1, 2], [1, 2], [1, 2], [1, 2]], "1d array"),
        ([3, 3, 3, 3], "only one distinct label, 3"),
        (["a", None, "b", "b"], "missing labels"),
        ([1.0, float("nan"), 2.0, 2.0], "missing labels"),
        (np.ma.masked_equal([1, 2, 2, 9], 9), "missing labels"),
        (["a", float("nan"), "b", "b"], "missing labels"),  # for NumPy this is the text "nan"
        (np.array(["a", 1, "b", 2], dtype=object), "labels of one kind"),
        ([1, "1", "b", 2], "labels of one kind"),
    ],
)
def test_labels_that_make_no_environments_are_refused(environments, message):
    with pytest.raises(ValueError, match=message):
        group_rows(environments, 4)


def test_pandas_missing_label_is_refused_and_a_category_without_rows_is_none():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="missing labels"):
        group_rows(pandas.array(["a", pandas.NA, "b", "b"], dtype="string"), 4)
    labels, members = group_rows(pandas.Categorical(list("abab"), categories=list("abc")), 4)
    assert labels.tolist() == ["a", "b"]
    assert len(members) == 2


@pytest.mark.parametrize("sizes", [(5, 5), (1, 7), (3, 8, 20), (6, 7, 13)])
def test_smaller_environments_are_repeated_evenly(sizes):
    starts = np.cumsum((0, *sizes))
    members = [np.arange(*pair) for pair in itertools.pairwise(starts)]
    rows = equalize(members, np.random.RandomState(0))
    assert rows.shape == (len(sizes), max(sizes))
    for own, drawn in zip(members, rows, strict=True):
        used, counts = np.unique(drawn, return_counts=True)
        assert used.tolist() == own.tolist()
        assert counts.max() - counts.min() <= 1
