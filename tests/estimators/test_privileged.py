from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV

import recombine
from recombine import PrivilegedClassifier, PrivilegedRegressor
from recombine.estimators._blocks import apply_in_blocks
from recombine.estimators._privileged_arrays import measure_features, standardize
from recombine.estimators._privileged_learner import OwnPrivilegedLearner
from recombine.estimators._privileged_models import Predictor
from recombine.methods.adaptation import DivergedError
from recombine.methods.distillation import (
    Adam,
    Batches,
    DistillationLearner,
    Given,
    MLPStudentShape,
    NumberLabels,
    PrivilegedExamples,
    PrivilegedSplit,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

SHORT: dict[str, Any] = {
    "hidden_sizes": (4, 6),
    "teacher_width": 5,
    "iterations": 3,
    "inner_steps": 2,
    "batch_size": 4,
    "random_state": 0,
}


def sample(num_rows=24, seed=0):
    """Draws a table, labels, and what is known in training only."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(num_rows, 5))
    later = X[:, :2].sum(axis=1, keepdims=True) + 0.1 * rng.normal(size=(num_rows, 3))
    return X, np.where(later.sum(axis=1) > 0, "ill", "well"), later


def sample_sequences(num_rows=16):
    """Draws sequences, numbers, and later steps."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(num_rows, 4, 2))
    return X, 20 + 5 * X.sum(axis=(1, 2)), rng.normal(size=(num_rows, 3, 2))


@pytest.fixture(scope="module")
def taught(quick_compilation):
    X, y, later = sample()
    return PrivilegedClassifier(**SHORT).fit(X, y, privileged=later)


@pytest.fixture(scope="module")
def of_sequences(quick_compilation):
    X, y, later = sample_sequences()
    return PrivilegedRegressor(method="auxiliary", **SHORT).fit(X, y, privileged=later)


def test_what_fit_leaves_behind(taught):
    X, y, _ = sample()
    assert taught.is_taught_
    assert taught.classes_.tolist() == ["ill", "well"]
    assert taught.input_shape_ == (5,)
    curves = {"step", "accuracy", "loss", "label_loss", "teaching_loss", "meta_loss"}
    assert set(taught.history_) == curves
    assert taught.history_["step"].tolist() == [0, 1, 2, 3]
    assert taught.history_["accuracy"][-1] == pytest.approx(taught.score(X, y))
    np.testing.assert_allclose(taught.predict_proba(X).sum(axis=1), 1)
    is_well = taught.predict(X) == "well"
    np.testing.assert_array_equal(is_well, taught.predict_proba(X)[:, 1] > 0.5)
    np.testing.assert_array_equal(is_well, taught.decision_function(X) > 0)
    with pytest.raises(ValueError, match="nothing was compared"):
        taught.comparison_report()


class Scored(NamedTuple):
    """What a comparison asks of a finished run."""

    final: dict[str, list[float]]


def test_what_is_compared(taught, monkeypatch, tmp_path):
    X, y, later = sample()
    asked: list[Any] = []
    train = PrivilegedClassifier._fit_seeds

    def score(self, learner, *, seeds, **how):
        if len(seeds) == 1:  # the estimator itself
            return train(self, learner, seeds=seeds, **how)
        asked.append((learner, tuple(seeds)))
        return Scored({"held_out_score": [len(asked) / 10, len(asked) / 20]})

    monkeypatch.setattr(PrivilegedClassifier, "_fit_seeds", score)
    model = PrivilegedClassifier(compare_=True, compare_seeds=2, **SHORT)
    model.fit(X, y, privileged=later)
    np.testing.assert_array_equal(model.predict_proba(X), taught.predict_proba(X))

    teacher, none, auxiliary, shuffled = [learner.trained for learner, _ in asked]
    assert len({seeds for _, seeds in asked}) == 1
    assert {learner.num_held_out for learner, _ in asked} == {6}
    assert len({learner.student_steps for learner in (teacher, none, auxiliary, shuffled)}) == 1
    assert teacher.batches.validation == shuffled.batches.validation
    assert none.teacher is none.batches.validation is auxiliary.batches.validation is None
    given, moved = [one.source.data.train.privileged for one in (teacher, shuffled)]
    assert not np.array_equal(given, moved)
    np.testing.assert_array_equal(np.sort(given, axis=0), np.sort(moved, axis=0))

    report = model.comparison_report()
    assert (report.num_rows, report.num_held_out) == (18, 6)
    assert {name: scores.tolist() for name, scores in report.scores.items()} == {
        "teacher": [0.1, 0.05],
        "none": [0.2, 0.1],
        "auxiliary": [0.3, 0.15],
        "shuffled": [0.4, 0.2],
    }
    model.save(tmp_path / "model.zip")
    again: Any = recombine.load(tmp_path / "model.zip")
    assert str(again.comparison_report()) == str(report)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert again.get_params() == model.get_params()


@pytest.mark.slow
def test_a_comparison_scores_rows_that_were_held_out():
    X, y, later = sample()
    model = PrivilegedClassifier(compare_=True, compare_seeds=2, **SHORT)
    report = model.fit(X, y, privileged=later).comparison_report()
    for scores in report.scores.values():
        np.testing.assert_allclose(scores * 6, np.round(scores * 6), atol=1e-5)  # sixths
    assert report.over("none").low <= report.over("none").mean <= report.over("none").high


@pytest.mark.slow
def test_a_teacher_reads_sequences():
    X, y, later = sample_sequences()
    model = PrivilegedRegressor(**SHORT).fit(X, y, privileged=later)
    assert model.is_taught_
    assert set(model.history_) > {"meta_loss", "squared_error"}
    assert model.predict(X).shape == (16,)


def test_sequences_are_learned_from_and_saved(of_sequences, tmp_path):
    X, y, _ = sample_sequences()
    assert not of_sequences.is_taught_
    assert of_sequences.input_shape_ == (4, 2)
    assert of_sequences.n_features_in_ == 2
    error = of_sequences.history_["squared_error"][-1]
    assert 1 - error == pytest.approx(of_sequences.score(X, y), rel=1e-4)
    of_sequences.save(tmp_path / "model.zip")
    again: Any = recombine.load(tmp_path / "model.zip")
    np.testing.assert_array_equal(again.predict(X), of_sequences.predict(X))
    with pytest.raises(ValueError, match="4 steps of 2 features in every row"):
        of_sequences.predict(X[:, :3])
    with pytest.raises(ValueError, match="X contains NaN"):
        of_sequences.predict(np.full((1, 4, 2), np.nan))


@eqx.filter_jit
def two_moments(learner, key):
    """Returns the state after one iteration, and its score."""
    state, _ = learner.step(learner.init(key), key)
    return state, learner.evaluate(state, key)["held_out_score"]


def test_held_out_rows_do_not_influence_what_is_learned():
    """Nor how features are standardized."""
    X, _, _ = sample()
    whole = jnp.asarray(X, jnp.float32).at[:, 4].set(7.0)  # a constant

    def train(inputs, labels):
        known = PrivilegedExamples(inputs, None, labels)
        learner = OwnPrivilegedLearner(
            DistillationLearner(
                source=Given(PrivilegedSplit(known, known)),
                student=MLPStudentShape(5, 1, hidden=(3,)),
                objective=NumberLabels(),
                optimizer=Adam(),
                batches=Batches(4),
                student_steps=2,
            ),
            num_held_out=6,
        )
        return two_moments(learner, jr.key(3))

    before, score = train(whole, whole[:, 0])
    assert sorted([*before.kept.tolist(), *before.held_out.tolist()]) == list(range(24))
    spoilt = whole.at[before.held_out].set(1e3)
    after, _ = train(spoilt, spoilt[:, 0])
    assert eqx.tree_equal(before.training.student, after.training.student)
    # The score is R², of the held-out rows alone.
    kept, rows = np.asarray(before.kept), np.asarray(before.held_out)
    standard = measure_features(np.asarray(whole, np.float64)[kept], "X")
    inputs = standardize(np.asarray(whole), standard)
    predictions = apply_in_blocks(Predictor(before.training.student), inputs)[:, 0]
    expected = r2_score(inputs[rows, 0], predictions[rows])
    assert float(score) == pytest.approx(expected, rel=1e-4)


def test_without_privileged_data_training_is_plain_and_says_so():
    X, y, later = sample()
    model = PrivilegedClassifier(**SHORT)
    with pytest.warns(UserWarning, match="no `privileged` data were given"):
        model.fit(X, y)
    assert not model.is_taught_
    asked_for = PrivilegedClassifier(method="none", **SHORT).fit(X, y, privileged=later)
    assert not asked_for.is_taught_
    np.testing.assert_array_equal(asked_for.predict_proba(X), model.predict_proba(X))


class Linear(eqx.Module):
    """A student that offers what it is told to."""

    layer: eqx.nn.Linear
    offers: bool = eqx.field(static=True, default=True)

    def __call__(self, x):
        prediction = self.layer(x)
        return prediction, (prediction,) if self.offers else ()


def make_student(outputs=2, *, offers=True):
    return lambda key: Linear(eqx.nn.Linear(5, outputs, key=key), offers)


def make_teacher(outputs=2):
    return lambda key: eqx.nn.Linear(3, outputs, key=key)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["teacher", "auxiliary"])
def test_modules_of_ones_own(method, tmp_path):
    X, y, later = sample()
    model = PrivilegedClassifier(
        method=method, student=make_student(), teacher=make_teacher(), **SHORT
    )
    model.fit(X, y, privileged=later)
    assert isinstance(model.model_, Linear)
    standard = (X[:1] - model.mean_) / model.scale_
    logits = model.model_(jnp.asarray(standard[0], jnp.float32))[0]
    assert model.decision_function(X[:1])[0] == pytest.approx(float(logits[1] - logits[0]))
    with pytest.raises(TypeError, match="tree_serialise_leaves"):
        model.save(tmp_path / "model.zip")


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"student": make_student(offers=False)}, ValueError, "offers no activations"),
        ({"student": make_student(3)}, ValueError, "a vector of 2 numbers.*got the shape \\(3,\\)"),
        ({"student": lambda key: lambda x: x[:2]}, TypeError, "must return a pair"),
        ({"student": Linear(eqx.nn.Linear(5, 2, key=jr.key(0)))}, TypeError, "from a key"),
        ({"student": 3}, TypeError, "`student` must make a student from a key"),
        ({"teacher": make_teacher(3)}, ValueError, "teacher's output does not fit.*expected"),
        ({"batch_size": 13}, ValueError, "share of 0.5 leaves 12 of 24.*a batch has 13"),
        ({"validation_share": 0.01}, ValueError, "splits off none of the 24"),
        ({"validation_share": 1.0}, ValueError, "`validation_share` is the part"),
        ({"method": "distill"}, ValueError, "must be one of 'teacher'.*got 'distill'"),
        ({"hidden_sizes": ()}, TypeError, "at least one"),
        ({"teaching_weight": -1}, ValueError, "`teaching_weight`"),
        ({"iterations": 0}, ValueError, "`iterations` must be at least 1"),
        ({"compare_": True, "compare_seeds": 1}, ValueError, "`compare_seeds` must be at least 2"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings, error, message):
    X, y, later = sample()
    model = PrivilegedClassifier(**SHORT | settings)
    with pytest.raises(error, match=message):
        model.fit(X, y, privileged=later)
    assert not model.__sklearn_is_fitted__()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda later: later[:-1], "one row for each of the 24 rows of `X`.*got 23"),
        (lambda later: np.where(later > 1, np.nan, later), "privileged contains NaN"),
        (lambda later: np.where(later > 1, np.inf, later), "privileged contains infinity"),
        (lambda later: later[:, 0], "2D array"),
        (lambda later: later[:, None, None], "\\(rows, steps, features\\); got \\(24, 1, 1, 3\\)"),
        (lambda later: later[:, :0], "0 feature"),
        (lambda later: 1e200 * later, "feature 0 of `privileged` has values too large"),
    ],
)
def test_privileged_data_that_cannot_be_used_are_refused(spoil, message):
    X, y, later = sample()
    with pytest.raises(ValueError, match=message):
        PrivilegedClassifier(**SHORT).fit(X, y, privileged=spoil(later))


def test_inputs_that_cannot_be_used_are_refused():
    X, y, later = sample()
    model = PrivilegedClassifier(**SHORT)
    with pytest.raises(ValueError, match="X contains NaN"):
        model.fit(np.where(X > 1, np.nan, X), y, privileged=later)
    sequences, numbers, later_steps = sample_sequences()
    with pytest.raises(ValueError, match="contains NaN"):
        PrivilegedRegressor(**SHORT).fit(
            np.where(sequences > 1, np.nan, sequences), numbers, privileged=later_steps
        )
    with pytest.raises(ValueError, match="one class only"):
        model.fit(X, np.zeros(24), privileged=later)


def test_an_inner_loop_that_runs_away_is_named():
    X, y, later = sample()
    settings: dict[str, Any] = SHORT | {"learning_rate": 1e30}
    model = PrivilegedClassifier(**settings)
    with pytest.raises(DivergedError, match=r"inner loop diverged.*now 1e\+30.*is `learning_rate`"):
        model.fit(X, y, privileged=later)
    assert not model.__sklearn_is_fitted__()


@pytest.mark.slow
def test_cross_validation_splits_the_privileged_rows_too():
    X, y, later = sample(48)
    search = GridSearchCV(PrivilegedClassifier(**SHORT), {"teaching_weight": [1.0, 100.0]}, cv=2)
    search.fit(X, y, privileged=later)
    assert search.best_estimator_.is_taught_


def test_a_comparison_that_would_divide_by_no_spread_is_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(16, 2)), np.zeros(16)
    y[:2] = 5.0
    model = PrivilegedRegressor(compare_=True, compare_seeds=4, **SHORT | {"batch_size": 2})
    with pytest.raises(ValueError, match=r"held-out rows have the same `y`\. Give more rows"):
        model.fit(X, y, privileged=X)
