import json
import zipfile
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pytest
import sklearn
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from sklearn.model_selection import LeaveOneGroupOut, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import recombine
from recombine import InvariantClassifier
from recombine.methods.agreement import MULTICLASS
from recombine.training import History, Interrupted, Seconds

pytestmark = pytest.mark.usefixtures("quick_compilation")

SHORT: dict[str, Any] = {"hidden_sizes": (8,), "steps": 20, "random_state": 0}


def sample(num_rows=60, seed=0):
    """Draws a table, labels that its first column tells, and three environments."""
    X = np.random.default_rng(seed).normal(size=(num_rows, 3))
    return X, np.where(X[:, 0] > 0, "yes", "no"), np.repeat(["a", "b", "c"], num_rows // 3)


def sample_shortcut(habits, sizes, seed=0):
    """Draws environments with a noisy cause and columns that tell the label by habit."""
    rng = np.random.default_rng(seed)
    sites = np.repeat(np.arange(len(sizes)), sizes)
    cause = rng.normal(size=len(sites))
    y = (cause > 0) ^ (rng.random(len(sites)) < 0.1)
    codes = np.where(y, 1, -1)[:, None] * np.asarray(habits)[sites]
    codes = codes + 0.3 * rng.normal(size=codes.shape)
    return np.column_stack([cause, codes]), y, sites


@pytest.fixture(scope="module")
def fitted(quick_compilation):
    X, y, sites = sample()
    return InvariantClassifier(**SHORT).fit(X, y, environments=sites)


def test_the_mask_ignores_a_shortcut_that_plain_training_follows():
    habits = [(1, 1, -1), (1, -1, 1), (-1, 1, 1)]
    X, y, sites = sample_shortcut(habits, sizes=(120, 90, 60))
    new_X, new_y, _ = sample_shortcut([(-1, -1, -1)], sizes=(300,), seed=1)
    settings: dict[str, Any] = {"hidden_sizes": (16,), "steps": 300, "random_state": 0}
    plain = InvariantClassifier(0.0, **settings).fit(X, y, environments=sites)
    masked = InvariantClassifier(1.0, **settings).fit(X, y, environments=sites)
    assert plain.score(X, y) > 0.95
    assert plain.score(new_X, new_y) < 0.3
    assert masked.score(new_X, new_y) > 0.8
    # What is called an environment decides, not the data: with shuffled labels nothing is masked.
    shuffled = np.random.default_rng(2).permutation(sites)
    mixed = InvariantClassifier(1.0, **settings).fit(X, y, environments=shuffled)
    assert mixed.score(new_X, new_y) < 0.3


def test_environments_weigh_the_same_whatever_their_sizes():
    # Nothing but the site tells the label, and the large site says "yes" nine times out of ten.
    y = np.repeat(["yes", "no", "yes", "no"], [270, 30, 3, 27])
    sites = np.repeat(["large", "small"], [300, 30])
    X = np.zeros((330, 1))
    model = InvariantClassifier(
        0.0, hidden_sizes=(), steps=300, learning_rate=0.05, l2=0.0, random_state=0
    )
    model.fit(X, y, environments=sites)
    np.testing.assert_allclose(model.predict_proba(X[:1]), [[0.5, 0.5]], atol=0.03)


def test_what_fit_leaves_behind(fitted):
    assert fitted.classes_.tolist() == ["no", "yes"]
    assert fitted.environments_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(fitted.agreement_levels_, [1 / 3, 1])
    assert fitted.n_features_in_ == 3
    assert not hasattr(fitted, "feature_names_in_")
    assert set(fitted.history_) == {"step", "accuracy", "worst_accuracy", "loss", "kept"}
    assert fitted.history_["step"].tolist() == list(range(21))
    assert np.isfinite(fitted.history_["loss"][1:]).all()
    assert fitted.history_["worst_accuracy"][-1] <= fitted.history_["accuracy"][-1]
    assert 0 < fitted.history_["kept"][1] < 1


def test_the_last_curve_point_is_the_score(fitted):
    X, y, _ = sample()
    assert fitted.history_["accuracy"][-1] == pytest.approx(fitted.score(X, y))


def test_probabilities_logits_and_predictions_belong_together(fitted):
    X, _, _ = sample(90, seed=1)
    chances = fitted.predict_proba(X)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_allclose(
        fitted.decision_function(X), np.log(chances[:, 1] / chances[:, 0]), atol=1e-9
    )
    assert (fitted.predict(X) == fitted.classes_[chances.argmax(axis=1)]).all()


def test_three_classes():
    X, _, sites = sample(90)
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = InvariantClassifier(hidden_sizes=(16,), steps=200, random_state=0)
    model.fit(X, y, environments=sites)
    assert model.score(X, y) > 0.85
    assert model.decision_function(X).shape == (90, 3)


def test_the_scale_of_the_columns_does_not_matter(fitted):
    X, y, sites = sample()
    moved = X * [1e3, 1e-3, 1.0] + [1e4, 0.0, -5.0]
    other = InvariantClassifier(**SHORT).fit(moved, y, environments=sites)
    np.testing.assert_allclose(other.predict_proba(moved), fitted.predict_proba(X), rtol=1e-3)


def test_a_constant_column_is_harmless():
    X, y, sites = sample()
    X[:, 2] = 0.1
    model = InvariantClassifier(**SHORT).fit(X, y, environments=sites)
    assert np.isfinite(model.predict_proba(X)).all()


def test_a_number_fixes_the_result_and_another_changes_it(fitted):
    X, y, sites = sample()
    again = InvariantClassifier(**SHORT).fit(X, y, environments=sites)
    other = InvariantClassifier(**SHORT).set_params(random_state=1).fit(X, y, environments=sites)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert not np.allclose(other.predict_proba(X), fitted.predict_proba(X))


def test_a_generator_moves_on_and_repeats_from_the_same_state():
    X, y, sites = sample()
    model = InvariantClassifier(**SHORT).set_params(random_state=np.random.RandomState(0))
    first = model.fit(X, y, environments=sites).predict_proba(X)
    second = model.fit(X, y, environments=sites).predict_proba(X)
    model.random_state = np.random.RandomState(0)
    np.testing.assert_array_equal(model.fit(X, y, environments=sites).predict_proba(X), first)
    assert not np.allclose(first, second)


def test_batches_are_taken_per_environment_and_may_ask_for_more_than_there_is(fitted):
    X, y, sites = sample()
    whole = InvariantClassifier(batch_size=1000, **SHORT).fit(X, y, environments=sites)
    none = InvariantClassifier(batch_size=None, **SHORT).fit(X, y, environments=sites)
    few = InvariantClassifier(batch_size=5, **SHORT).fit(X, y, environments=sites)
    np.testing.assert_array_equal(whole.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(none.predict_proba(X), fitted.predict_proba(X))
    assert not np.allclose(few.predict_proba(X), fitted.predict_proba(X))


def test_without_environments_it_warns_and_pools():
    X, y, _ = sample()
    with pytest.warns(UserWarning, match="plain training on the pooled data") as caught:
        model = InvariantClassifier(**SHORT).fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert model.environments_ is None
    assert model.agreement_levels_ is None
    assert "kept" not in model.history_


def test_plain_training_that_was_asked_for_is_no_reason_to_warn():
    X, y, _ = sample()
    model = InvariantClassifier(method="plain", **SHORT).fit(X, y)
    assert model.environments_ is None


@pytest.mark.parametrize(
    ("setting", "value", "error"),
    [
        ("threshold", 1.5, ValueError),
        ("threshold", -0.1, ValueError),
        ("threshold", float("nan"), ValueError),
        ("threshold", "all", TypeError),
        ("rescale", "layer", ValueError),
        ("steps", 0, ValueError),
        ("steps", 2.5, TypeError),
        ("batch_size", 0, ValueError),
        ("batch_size", "most", ValueError),
        ("batch_size", 1.5, TypeError),
        ("learning_rate", 0.0, ValueError),
        ("learning_rate", float("inf"), ValueError),
        ("learning_rate", 1e39, ValueError),
        ("l2", -1e-4, ValueError),
        ("hidden_sizes", 64, TypeError),
        ("hidden_sizes", "64", TypeError),
        ("hidden_sizes", (64, 0), ValueError),
        ("penalty_weight", -1.0, ValueError),
        ("penalty_weight", "much", TypeError),
        ("anneal_share", 1.5, ValueError),
        ("anneal_share", -0.1, ValueError),
        ("method", "and_mask", ValueError),
        ("method", None, ValueError),
    ],
)
def test_settings_are_refused_at_fit_by_name(setting, value, error):
    X, y, sites = sample()
    model = InvariantClassifier().set_params(**{setting: value})
    with pytest.raises(error, match=f"`{setting}`"):
        model.fit(X, y, environments=sites)


def test_data_that_cannot_be_learned_from_are_refused():
    X, y, sites = sample()
    model = InvariantClassifier(**SHORT)
    for bad in (np.nan, np.inf):
        broken = X.copy()
        broken[3, 1] = bad
        with pytest.raises(ValueError, match=r"NaN|infinity"):
            model.fit(broken, y, environments=sites)
    with pytest.raises(ValueError, match="at least two classes"):
        model.fit(X, np.zeros(60), environments=sites)
    with pytest.raises(ValueError, match="continuous"):
        model.fit(X, X[:, 0], environments=sites)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, y[:-1], environments=sites)
    with pytest.raises(ValueError, match="which has 60; got 59"):
        model.fit(X, y, environments=sites[:-1])
    with pytest.raises(ValueError, match="only one distinct label, 'a'"):
        model.fit(X, y, environments=np.full(60, "a"))
    with pytest.raises(ValueError, match="column 0 of `X` has values too large"):
        model.fit(X * [1e200, 1, 1], y, environments=sites)


def test_a_loss_that_is_not_finite_is_an_error_and_leaves_no_model(fitted):
    X, y, sites = sample()
    model = InvariantClassifier(**SHORT).fit(X, y, environments=sites)
    model.set_params(learning_rate=1e30)
    with pytest.raises(FloatingPointError, match=r"not finite at step 2 of 20.*`learning_rate`"):
        model.fit(X, y, environments=sites)
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_rows_beyond_all_bounds_are_refused_at_prediction(fitted):
    with pytest.raises(ValueError, match="row 1 of `X` is too far"):
        fitted.predict([[0.0, 0.0, 0.0], [1e300, 0.0, 0.0]])


def test_an_interrupted_fit_is_not_mistaken_for_a_failed_one(monkeypatch):
    def interrupted(*_, **__):
        raise Interrupted(step=7, checkpoint=None, history=History((0,)), seconds=Seconds())

    monkeypatch.setattr("recombine.estimators._base.fit", interrupted)
    X, y, sites = sample()
    with pytest.raises(KeyboardInterrupt, match="stopped at step 7 of 20"):
        InvariantClassifier(**SHORT).fit(X, y, environments=sites)


def test_progress_is_shown_when_asked_for(capsys):
    X, y, sites = sample()
    InvariantClassifier(**SHORT).fit(X, y, environments=sites)
    assert capsys.readouterr().err == ""
    InvariantClassifier(verbose=True, **SHORT).fit(X, y, environments=sites)
    shown = capsys.readouterr().err
    assert "InvariantClassifier: 1 seed, 20 steps" in shown
    assert "step 20/20  accuracy" in shown


def test_environments_are_routed_through_pipelines_and_cross_validation():
    X, y, sites = sample()
    with sklearn.config_context(enable_metadata_routing=True):
        model = InvariantClassifier(**SHORT).set_fit_request(environments=True)
        outcome = cross_validate(
            make_pipeline(MinMaxScaler(), model),
            X,
            y,
            cv=LeaveOneGroupOut(),
            params={"environments": sites, "groups": sites},
            return_estimator=True,
            error_score="raise",  # pyright: ignore[reportArgumentType]
        )
    seen = [pipeline[-1].environments_.tolist() for pipeline in outcome["estimator"]]
    assert seen == [["b", "c"], ["a", "c"], ["a", "b"]]
    assert len(outcome["test_score"]) == 3


def test_names_of_columns_are_kept_and_compared():
    pandas = pytest.importorskip("pandas")
    X, y, sites = sample()
    table = pandas.DataFrame(X, columns=["one", "two", "three"])
    model: Any = InvariantClassifier(**SHORT).fit(table, y, environments=pandas.Series(sites))
    assert model.feature_names_in_.tolist() == ["one", "two", "three"]
    assert model.environments_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table[["two", "one", "three"]])


METHODS = {
    "and-mask": "kept",
    "geometric": "kept",
    "irm": "penalty",
    "vrex": "penalty",
    "fishr": "penalty",
    "dann": "domain_loss",
    "plain": None,
}


@pytest.mark.parametrize(("method", "measured"), METHODS.items())
def test_every_method_learns_and_tells_what_it_measured(method, measured, tmp_path):
    X, y, sites = sample()
    model = InvariantClassifier(method=method, learning_rate=0.1, **SHORT)
    model.fit(X, y, environments=sites)
    assert model.score(X, y) > 0.8
    extra = set(model.history_) - {"step", "accuracy", "worst_accuracy", "loss"}
    assert extra == ({measured} if measured else set())
    assert [weight.shape for weight in model.model_.weights] == [(3, 8), (8, 2)]
    model.save(tmp_path / "model.zip")
    again = recombine.load(tmp_path / "model.zip")
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(
        again.predict_proba(X),  # pyright: ignore[reportAttributeAccessIssue]
        model.predict_proba(X),
    )


@pytest.mark.parametrize(
    "same",
    [
        {"method": "and-mask", "threshold": 0.0},
        {"method": "irm", "penalty_weight": 0.0, "anneal_share": 0.0},
        {"method": "vrex", "penalty_weight": 0.0, "anneal_share": 0.0},
        {"method": "fishr", "anneal_share": 1.0},
    ],
)
def test_methods_that_are_switched_off_are_plain_training(same):
    X, y, sites = sample()
    plain = InvariantClassifier(method="plain", **SHORT).fit(X, y, environments=sites)
    other = InvariantClassifier(**same, **SHORT).fit(X, y, environments=sites)
    np.testing.assert_allclose(other.predict_proba(X), plain.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("method", ["irm", "vrex", "fishr", "dann"])
def test_the_weight_of_a_penalty_changes_what_is_learned(method):
    X, y, sites = sample()
    off, on = (
        InvariantClassifier(method=method, penalty_weight=weight, **SHORT)
        .fit(X, y, environments=sites)
        .predict_proba(X)
        for weight in (0.0, 1e4)
    )
    assert not np.allclose(off, on, atol=1e-3)


def test_an_unknown_method_is_answered_with_the_known_ones():
    X, y, sites = sample()
    with pytest.raises(ValueError, match=r"'and-mask', 'geometric', 'irm'.*got 'erm'"):
        InvariantClassifier(method="erm").fit(X, y, environments=sites)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("setting", "value", "method", "users"),
    [
        ("threshold", 0.5, "irm", '"and-mask", "geometric"'),
        ("rescale", None, "plain", '"and-mask", "geometric"'),
        ("penalty_weight", 10.0, "and-mask", '"irm", "vrex", "fishr", "dann"'),
        ("anneal_share", 0.5, "dann", '"irm", "vrex", "fishr"'),
    ],
)
def test_a_setting_that_would_do_nothing_is_refused(setting, value, method, users):
    X, y, sites = sample()
    model = InvariantClassifier(method=method).set_params(**{setting: value})
    with pytest.raises(ValueError, match=f"`{setting}` is .* '{method}'.* for {users}"):
        model.fit(X, y, environments=sites)


def test_dann_needs_a_layer_to_hide_the_environment_in():
    X, y, sites = sample()
    with pytest.raises(ValueError, match="`hidden_sizes` must have at least one"):
        InvariantClassifier(method="dann", hidden_sizes=()).fit(X, y, environments=sites)


def test_an_environment_with_one_class_is_refused_by_name_except_in_plain_training():
    X, y, sites = sample()
    y[sites == "b"] = "yes"
    for method in ("and-mask", "irm"):
        with pytest.raises(ValueError, match="environment 'b' has one class only, 'yes'"):
            InvariantClassifier(method=method, **SHORT).fit(X, y, environments=sites)
    with pytest.raises(ValueError, match="environment 'b' has one class only, 'yes'"):
        InvariantClassifier(**SHORT).fit(X, y.astype(object), environments=sites)  # as pandas has
    InvariantClassifier(method="plain", **SHORT).fit(X, y, environments=sites)


def test_values_that_are_not_finite_are_refused_with_their_environment():
    X, y, sites = sample()
    X[25, 1] = np.inf
    with pytest.raises(ValueError, match=r"(?s)contains infinity.*environment 'b'"):
        InvariantClassifier(**SHORT).fit(X, y, environments=sites)
    X[45, 0] = np.nan
    with pytest.raises(ValueError, match=r"(?s)contains NaN.*environment 'b', 'c'"):
        InvariantClassifier(**SHORT).fit(X, y, environments=sites)
    mixed = np.column_stack([X.astype(object), X[:, 0] > 0])  # a table with a column of booleans
    with pytest.raises(ValueError, match=r"(?s)contains NaN.*environment 'b', 'c'"):
        InvariantClassifier(**SHORT).fit(mixed, y, environments=sites)
    with pytest.raises(ValueError, match="contains NaN") as refused:
        InvariantClassifier(**SHORT).fit(X, y)
    assert "environment" not in str(refused.value)


def test_a_category_without_rows_is_no_environment():
    pandas = pytest.importorskip("pandas")
    X, y, sites = sample()
    declared = pandas.Categorical(sites, categories=["a", "b", "c", "nowhere"])
    model = InvariantClassifier(**SHORT).fit(X, y, environments=declared)
    assert model.environments_ is not None
    assert model.environments_.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize("method", ["and-mask", pytest.param("geometric", marks=pytest.mark.slow)])
def test_a_gradient_that_is_not_finite_in_one_environment_is_not_masked(method, monkeypatch):
    def broken_loss(logits, label):
        # Its value is that of the usual loss, and its gradient is not a number for class 2.
        hidden = jnp.where(label == 2, 0.0 * logits[0], 1.0)
        return MULTICLASS.loss(logits, label) + jnp.sqrt(hidden) - (label != 2)

    monkeypatch.setattr(InvariantClassifier, "_objective", MULTICLASS._replace(loss=broken_loss))
    X, _, sites = sample()
    y = (X[:, 0] > 0).astype(int)
    y[(sites == "c") & (X[:, 1] > 0)] = 2  # one environment of three: a mask would drop it
    with pytest.raises(FloatingPointError, match=r"not finite at step 2 of 20.*`learning_rate`"):
        InvariantClassifier(method=method, **SHORT).fit(X, y, environments=sites)


def test_a_file_of_the_version_before_the_methods_is_read_as_the_mask(fitted, tmp_path):
    path, older = tmp_path / "model.zip", tmp_path / "older.zip"
    fitted.save(path)
    with zipfile.ZipFile(path) as new, zipfile.ZipFile(older, "w") as old:
        for name in new.namelist():
            content = new.read(name)
            if name == "estimator.json":
                data = json.loads(content)
                for added in ("method", "penalty_weight", "anneal_share"):
                    del data["params"][added]
                content = json.dumps(data).encode()
            old.writestr(name, content)
    again: Any = recombine.load(older)
    assert again.method == "and-mask"
    X, _, _ = sample()
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))


class TestConsistencyReport:
    """The defaults measure within seconds; the tests walk a few steps."""

    BRIEF: ClassVar[dict[str, int]] = {"steps": 3, "restarts": 1}

    def test_it_names_the_environments_and_their_losses(self, fitted):
        X, y, sites = sample()
        report = fitted.consistency_report(X, y, sites, **self.BRIEF)
        assert report.environments == ("a", "b", "c")
        expected = [
            log_loss(y[sites == site], fitted.predict_proba(X[sites == site]), labels=["no", "yes"])
            for site in "abc"
        ]
        np.testing.assert_allclose(report.losses, expected, rtol=1e-4)
        assert report.score >= np.ptp(expected) - 1e-5
        assert report.agreement.num_envs == 3
        assert "weights[0]" in report.to_text()

    def test_it_is_the_same_every_time_and_finds_more_when_it_may(self, fitted):
        X, y, sites = sample()
        first, second = (fitted.consistency_report(X, y, sites, **self.BRIEF) for _ in range(2))
        assert first.score == second.score
        wide = fitted.consistency_report(X, y, sites, epsilon=0.5, radius=5.0, **self.BRIEF)
        assert wide.score > first.score

    def test_environments_need_not_be_those_of_training(self, fitted):
        X, y, _ = sample(seed=3)
        others = np.repeat([30, 10, 20], 20)
        report = fitted.consistency_report(X, y, others, **self.BRIEF)
        assert report.environments == ("10", "20", "30")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"epsilon": 0.0}, "`epsilon` must be above 0"),
            ({"radius": -1.0}, "`radius` must be above 0"),
            ({"steps": 0}, "`steps` must be at least 1"),
            ({"restarts": 0}, "`restarts` must be at least 1"),
            ({"environments": np.zeros(60)}, "only one distinct label"),
            ({"environments": np.arange(59)}, "which has 60; got 59"),
            ({"y": np.full(60, "maybe")}, "class 'maybe', which the model was not trained"),
            ({"X": np.zeros((60, 2))}, "2 features"),
        ],
    )
    def test_what_cannot_be_measured_is_refused(self, fitted, change, message):
        X, y, sites = sample()
        given = {"X": X, "y": y, "environments": sites, **change}
        with pytest.raises(ValueError, match=message):
            fitted.consistency_report(**given)

    def test_there_must_be_a_model(self):
        with pytest.raises(NotFittedError):
            InvariantClassifier().consistency_report(*sample())
