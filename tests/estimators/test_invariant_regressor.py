from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import r2_score

import recombine
from recombine import InvariantRegressor
from recombine.methods.consistency import quadratic_inconsistency

pytestmark = pytest.mark.usefixtures("quick_compilation")

SHORT: dict[str, Any] = {"hidden_sizes": (8,), "steps": 20, "random_state": 0}


def sample(num_rows=60, seed=0):
    """Draws a table, numbers that its first column tells, and three environments."""
    X = np.random.default_rng(seed).normal(size=(num_rows, 3))
    return X, 20 + 5 * X[:, 0], np.repeat(["a", "b", "c"], num_rows // 3)


def sample_shortcut(num_envs, num_rows, seed=0, *, flipped=False):
    """Draws environments with a noisy cause, and columns that repeat the target by habit.

    A habit is a sign for each column, with one more plus than minus: the sum tells the target in
    every environment, and on each column the environments disagree. Flipped, all are minus.
    """
    rng = np.random.default_rng(seed)
    shifts = np.arange(num_envs)[:, None] + np.arange(num_envs)
    habits = np.where(shifts % num_envs < num_envs // 2, -1, 1)
    sites = np.repeat(np.arange(num_envs), num_rows)
    cause = rng.normal(size=len(sites))
    y = cause + 0.3 * rng.normal(size=len(sites))
    signs = -np.ones((1, num_envs)) if flipped else habits[sites]
    codes = y[:, None] * signs + 0.1 * rng.normal(size=(len(sites), num_envs))
    return np.column_stack([cause, codes]), y, sites


@pytest.fixture(scope="module")
def fitted(quick_compilation):
    X, y, sites = sample()
    return InvariantRegressor(**SHORT).fit(X, y, environments=sites)


@pytest.mark.slow
def test_the_mask_ignores_a_shortcut_that_plain_training_follows():
    X, y, sites = sample_shortcut(7, 60)
    new_X, new_y, _ = sample_shortcut(7, 60, seed=1, flipped=True)
    settings: dict[str, Any] = {"hidden_sizes": (16,), "steps": 300, "random_state": 0}
    plain = InvariantRegressor(method="plain", **settings).fit(X, y, environments=sites)
    masked = InvariantRegressor(**settings).fit(X, y, environments=sites)
    assert plain.score(X, y) > 0.95
    assert plain.score(new_X, new_y) < 0
    assert masked.score(new_X, new_y) > 0.8


def test_what_fit_leaves_behind(fitted):
    X, y, _ = sample()
    assert fitted.environments_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(fitted.agreement_levels_, [1 / 3, 1])
    assert fitted.target_mean_ == pytest.approx(y.mean())
    assert fitted.target_scale_ == pytest.approx(y.std())
    names = {"step", "squared_error", "worst_squared_error", "loss", "kept"}
    assert set(fitted.history_) == names
    # Environments are of one size, so that the mean error is what the score is made of.
    assert 1 - fitted.history_["squared_error"][-1] == pytest.approx(fitted.score(X, y), rel=1e-4)
    assert fitted.score(X, y) == pytest.approx(r2_score(y, fitted.predict(X)))
    assert fitted.history_["worst_squared_error"][-1] > fitted.history_["squared_error"][-1]


def test_units_of_the_target_do_not_matter(fitted):
    X, y, sites = sample()
    other = InvariantRegressor(**SHORT).fit(X, 1e6 * y - 3.0, environments=sites)
    np.testing.assert_allclose(other.predict(X), 1e6 * fitted.predict(X) - 3.0, rtol=1e-4)


@pytest.mark.parametrize("settings", [{"method": "irm", "penalty_weight": 1.0}, {"method": "dann"}])
def test_other_methods_learn_numbers_and_are_saved(settings, tmp_path):
    X, y, sites = sample()
    model = InvariantRegressor(learning_rate=0.1, **settings, **SHORT)
    model.fit(X, y, environments=sites)
    assert model.score(X, y) > 0.5
    model.save(tmp_path / "model.zip")
    again: Any = recombine.load(tmp_path / "model.zip")
    assert type(again) is InvariantRegressor
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_target_that_never_changes_is_predicted_as_it_is():
    X, _, sites = sample()
    model = InvariantRegressor(**SHORT).fit(X, np.full(60, 7.0), environments=sites)
    np.testing.assert_allclose(model.predict(X), 7.0, atol=0.2)


def test_numbers_that_were_read_as_text_are_numbers(fitted):
    X, y, sites = sample()
    text = [str(number) for number in y]
    again = clone(fitted).fit(X, text, environments=sites)
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


def test_targets_that_cannot_be_learned_are_refused():
    X, y, sites = sample()
    model = InvariantRegressor(**SHORT)
    for bad, message in ((np.nan, "NaN"), (np.inf, "infinity")):
        broken = y.copy()
        broken[3] = bad
        with pytest.raises(ValueError, match=message):
            model.fit(X, broken, environments=sites)
    with pytest.raises(ValueError, match="`y` has values too large to be standardized"):
        model.fit(X, 1e200 * y, environments=sites)
    with pytest.raises(ValueError, match=r"`y` must be numbers .*could not convert string"):
        model.fit(X, np.full(60, "warm"), environments=sites)
    with pytest.raises(ValueError, match="1d array"):
        model.fit(X, np.stack([y, y], axis=1), environments=sites)
    with pytest.raises(ValueError, match="which has 60; got 61"):
        model.fit(X, y, environments=[*sites, "a"])
    with pytest.raises(ValueError, match="`threshold`"):
        InvariantRegressor(1.5).fit(X, y, environments=sites)


@pytest.mark.slow
def test_consistency_of_a_linear_model_is_that_of_its_hessians():
    # Three environments with one exact solution: squared errors are quadratic around it.
    rng = np.random.default_rng(0)
    spreads = np.repeat([[1.0, 0.3], [0.3, 1.0], [1.0, 1.0]], 80, axis=0)
    X = rng.normal(size=(240, 2)) * spreads
    y, sites = X @ [1.0, -2.0] + 3.0, np.repeat(["a", "b", "c"], 80)
    model = InvariantRegressor(
        method="plain", hidden_sizes=(), steps=600, learning_rate=0.05, l2=0.0, random_state=0
    )
    model.fit(X, y, environments=sites)
    report = model.consistency_report(X, y, sites, radius=None, steps=100, restarts=2)
    inputs = np.column_stack([(X - model.mean_) / model.scale_, np.ones(240)]).reshape(3, 80, 3)
    exact = quadratic_inconsistency(2 * np.swapaxes(inputs, 1, 2) @ inputs / 80, 0.01)
    np.testing.assert_allclose(report.losses, 0, atol=1e-6)
    assert report.quadratic_score == pytest.approx(exact, rel=1e-3)
    assert 0.9 * exact < report.score < 1.01 * exact
    assert report.environments == ("a", "b", "c")


def test_the_report_refuses_targets_beyond_all_bounds(fitted):
    X, y, sites = sample()
    with pytest.raises(ValueError, match="row 0 of `y` is too far"):
        fitted.consistency_report(X, np.where(np.arange(60) == 0, 1e300, y), sites)
