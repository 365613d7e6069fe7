import numpy as np
import pytest

from recombine.report import Difference, difference_of_means


def seeds(values, first=0):
    return {first + number: float(value) for number, value in enumerate(values)}


def test_a_constant_difference_is_certain():
    found = difference_of_means(seeds([3.0, 5.0, 9.0]), seeds([1.0, 3.0, 7.0]))
    assert found == Difference(2.0, 2.0, 2.0, pairs=3)


def test_two_pairs_span_their_differences():
    found = difference_of_means(seeds([1.0, 3.0]), seeds([1.0, 2.0]))
    assert found == Difference(0.5, 0.0, 1.0, pairs=2)
    assert found.reachable == 0.5


def test_many_pairs_give_the_textbook_interval():
    apart = np.random.default_rng(0).normal(0.3, 1.0, 400)
    found = difference_of_means(seeds(apart + 5.0), seeds(np.full(400, 5.0)))
    error = apart.std(ddof=1) / 20
    assert found.mean == pytest.approx(apart.mean())
    assert found.low == pytest.approx(apart.mean() - 1.966 * error, abs=0.1 * error)
    assert found.high == pytest.approx(apart.mean() + 1.966 * error, abs=0.1 * error)


def test_many_unpaired_runs_give_welch_s_interval():
    rng = np.random.default_rng(1)
    ours, theirs = rng.normal(1.0, 1.0, 300), rng.normal(0.0, 3.0, 200)
    found = difference_of_means(seeds(ours), seeds(theirs, first=1000))
    error = np.sqrt(ours.var(ddof=1) / 300 + theirs.var(ddof=1) / 200)
    assert found.pairs is None
    assert found.mean == pytest.approx(ours.mean() - theirs.mean())
    assert found.high - found.low == pytest.approx(2 * 1.97 * error, rel=0.06)


def test_what_a_seed_does_to_both_cancels_in_pairs():
    rng = np.random.default_rng(2)
    shared = rng.normal(0.0, 10.0, 12)
    ours, theirs = shared + 1.0 + rng.normal(0, 0.1, 12), shared + rng.normal(0, 0.1, 12)
    paired = difference_of_means(seeds(ours), seeds(theirs))
    apart = difference_of_means(seeds(ours), seeds(theirs, first=100))
    assert paired.is_paired
    assert not apart.is_paired
    assert paired.mean == pytest.approx(apart.mean)
    assert 0.8 < paired.low < 1.0 < paired.high < 1.2
    assert apart.low < -3.0 < 5.0 < apart.high


def test_only_seeds_that_both_have_count_in_pairs():
    found = difference_of_means({0: 1.0, 7: 2.0, 8: 100.0}, {7: 1.0, 0: 0.0, 9: -50.0})
    assert found == Difference(1.0, 1.0, 1.0, pairs=2)


@pytest.mark.parametrize(
    ("ours", "theirs", "pairs"),
    [({0: 1.0}, {0: 0.5}, 1), ({0: 1.0}, {1: 0.5, 2: 0.5}, None), ({0: 1.0, 1: 2.0}, {1: 1.5}, 1)],
)
def test_one_run_says_nothing_on_spread(ours, theirs, pairs):
    found = difference_of_means(ours, theirs)
    assert found[1:4] == (None, None, pairs)
    assert found.mean == 0.5


def test_the_answer_is_the_same_every_time_and_turns_round_with_the_sides():
    rng = np.random.default_rng(3)
    ours, theirs = seeds(rng.normal(size=8)), seeds(rng.normal(size=8))
    there, back = difference_of_means(ours, theirs), difference_of_means(theirs, ours)
    assert there == difference_of_means(ours, theirs)
    assert there.mean == -back.mean
    assert there.low == pytest.approx(-back.high, abs=0.05)


def coverage(draw, *, trials=400):
    """Returns how often the interval holds a true difference of zero."""
    rng = np.random.default_rng(4)
    held = 0
    for trial in range(trials):
        found = difference_of_means(*draw(rng), resamples=1000, random_state=trial)
        held += found.low <= 0.0 <= found.high
    return held / trials


@pytest.mark.parametrize(("pairs", "least"), [(5, 0.90), (10, 0.925), (30, 0.925)])
def test_intervals_of_pairs_hold_the_truth_as_often_as_they_say(pairs, least):
    """Plain percentiles hold it in 83 of 100 cases with 5 pairs, and in 90 with 10."""

    def draw(rng):
        shared = rng.normal(0, 3, pairs)
        return seeds(shared + rng.normal(size=pairs)), seeds(shared + rng.normal(size=pairs))

    assert least <= coverage(draw) <= 0.98


def test_unpaired_intervals_of_unequal_sides_hold_the_truth_as_often_as_they_say():
    def draw(rng):
        return seeds(rng.normal(0, 1, 12)), seeds(rng.normal(0, 4, 6), first=50)

    assert 0.90 <= coverage(draw) <= 0.98


def test_few_pairs_reach_what_they_can_and_no_more():
    def draw(rng):
        return seeds(rng.normal(size=3)), seeds(np.zeros(3))

    assert coverage(draw) == pytest.approx(0.75, abs=0.06)
    assert difference_of_means(*draw(np.random.default_rng(5))).reachable == 0.75


def test_a_lower_level_is_narrower():
    values = np.random.default_rng(6).normal(size=20)
    wide = difference_of_means(seeds(values), seeds(np.zeros(20)))
    narrow = difference_of_means(seeds(values), seeds(np.zeros(20)), level=0.5)
    assert wide.low < narrow.low < narrow.high < wide.high


@pytest.mark.parametrize(
    ("ours", "settings", "word"),
    [
        ({}, {}, "`ours`"),
        ({0: float("nan")}, {}, "`ours`"),
        ({0: 1.0}, {"level": 1.0}, "`level`"),
        ({0: 1.0}, {"resamples": 0}, "`resamples`"),
    ],
)
def test_bad_input_is_named(ours, settings, word):
    with pytest.raises(ValueError, match=word):
        difference_of_means(ours, {0: 1.0}, **settings)
