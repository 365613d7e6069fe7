"""The synthetic rows, the searches and the correlations, and what they draw."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from matplotlib.figure import Figure

from recombine.engines import RunRequest
from recombine.experiments import find_row, match_rows
from recombine.experiments.agreement import _pictures
from recombine.experiments.agreement._config import (
    CorrelationConfig,
    SearchConfig,
    UnevenSearchConfig,
)
from recombine.experiments.agreement._correlation_learner import (
    correlation as of_kept,
    make_correlation_learner,
)
from recombine.experiments.agreement._learners import make_synthetic_learner
from recombine.experiments.agreement._search_learner import (
    Searching,
    draw_trial,
    make_search_learner,
)
from recombine.methods.agreement import (
    DANN,
    IRM,
    AdversarialShape,
    AndMask,
    Epochs,
    Fishr,
    Groups,
    JoinGradients,
    MLPShape,
    Pooled,
    VREx,
    arithmetic_mean,
    geometric_mean,
)


def learner_of(name):
    row = find_row(f"ilc/synthetic/{name}")
    return make_synthetic_learner(row.full.config, row.full.steps)


def test_the_records_of_the_first_rows_are_still_theirs():
    """The names of committed records: a setting that is added must not change them."""
    names = {
        "and-mask": "full-040df6f86528",
        "and-mask-printed": "full-d61ebf62d9c9",
        "baseline": "full-c292c5653f20",
    }
    for name, folder in names.items():
        request = RunRequest.of(find_row(f"ilc/synthetic/{name}"), "full")
        assert request.folder("runs").path.name == folder


def test_the_synthetic_rows_run_the_protocol_of_the_thesis():
    rows = [row for row in match_rows("ilc/synthetic") if row.full.steps == 930]
    rows = [row for row in rows if "envs" not in row.id]
    assert len(rows) == 18
    for row in rows:
        config = row.full.config
        assert (config.num_envs, config.num_examples, config.num_shortcuts) == (32, 1280, 32)
        assert (config.hidden_units, config.hidden_layers, config.batch_size) == (256, 3, 128)
        assert config.decay_at == (0.5, 0.75)
        assert row.full.num_seeds >= 10
    assert find_row("ilc/synthetic/irm").full.num_seeds == 50


@pytest.mark.parametrize(
    ("name", "method", "l2", "l1", "dropout"),
    [
        ("and-mask", JoinGradients(AndMask(0.8, 1.0)), 1e-4, None, None),
        ("and-mask-l1", JoinGradients(AndMask(0.8, 1.0)), 0.0, 1e-5, None),
        ("geometric", JoinGradients(geometric_mean(0.8, rescale="tensor")), 1e-4, None, None),
        ("baseline", JoinGradients(arithmetic_mean()), 1e-4, None, None),
        ("dropout", JoinGradients(arithmetic_mean()), 0.0, None, 0.5),
        ("l1", JoinGradients(arithmetic_mean()), 0.0, 1e-5, None),
        ("l2", JoinGradients(arithmetic_mean()), 1e-3, None, None),
        ("batchnorm", Pooled(), 0.0, None, None),
        ("dann", DANN(1.0), 0.0, None, None),
        ("irm", IRM(100.0, 40), 0.0, None, None),
        ("vrex", VREx(10.0, 40), 0.0, None, None),
        ("fishr", Fishr(1000.0, 40, 0.95), 0.0, None, None),
        ("ablate/no-reg", JoinGradients(AndMask(0.8, 1.0)), 0.0, None, None),
        ("ablate/no-rescale", JoinGradients(AndMask(0.8, 0.0)), 1e-4, None, None),
        ("ablate/tau-0.5", JoinGradients(AndMask(0.5, 1.0)), 1e-4, None, None),
        ("ablate/tau-0", JoinGradients(arithmetic_mean()), 1e-4, None, None),
    ],
)
def test_every_row_trains_what_it_says(name, method, l2, l1, dropout):
    learner = learner_of(name)
    assert eqx.tree_equal(learner.method, method)
    assert float(learner.optimizer.l2) == pytest.approx(l2)
    for found, expected in ((learner.optimizer.l1, l1), (learner.dropout, dropout)):
        assert (found is None) == (expected is None)
        assert expected is None or float(found) == pytest.approx(expected)
    assert learner.batches == Epochs(128)
    assert learner.optimizer.decay_steps == (465, 697)


def test_switches_reach_the_network_and_the_optimizer():
    assert learner_of("batchnorm").network == MLPShape((34, 256, 256, 256, 1), batch_norm=True)
    assert learner_of("dann").network == AdversarialShape(34, 256, 1, 32)
    decoupled = learner_of("ablate/decoupled").optimizer
    assert decoupled.decoupled
    assert float(decoupled.l2) == pytest.approx(1e-2)
    row = find_row("ilc/synthetic/irm")
    changed = RunRequest.of(row, "full", changes=["optimizer=sgd", "batch_norm=true"]).variant
    learner = make_synthetic_learner(changed.config, changed.steps)
    assert learner.optimizer.kind == "sgd"
    assert learner.network.batch_norm


def test_a_learner_that_is_made_again_is_the_same():
    for name in ("and-mask", "dann", "fishr", "envs/64/baseline"):
        assert eqx.tree_equal(learner_of(name), learner_of(name))


def test_the_environments_rows_pool_or_group():
    baseline, masked = (
        learner_of("envs/1024/baseline"),
        learner_of("envs/1024/and-mask"),
    )
    assert baseline.batches == Groups(128, num_envs=1)
    assert isinstance(baseline.method, Pooled)
    shapes = jax.eval_shape(baseline.source.draw, jr.key(0))
    assert shapes.train.inputs.shape == (1, 1024 * 1280, 34)
    assert float(baseline.optimizer.learning_rate) == pytest.approx(1e-3)
    assert float(baseline.optimizer.l2) == pytest.approx(1e-3)
    assert masked.batches == Groups(128, num_envs=32)
    assert jax.eval_shape(masked.source.draw, jr.key(0)).train.labels.shape == (1024, 1280)
    few = find_row("ilc/synthetic/envs/16/and-mask").full
    assert (few.config.group_size, few.steps) == (16, 1860)


# The search.

TINY_SEARCH = {
    "num_envs": 3,
    "num_examples": 16,
    "num_shortcuts": 4,
    "num_test": 20,
    "hidden_units": (6,),
    "hidden_layers": (1, 2),
    "batch_sizes": (8,),
    "batch_norm": (False,),
    "rounds": 3,
}


def test_a_search_has_a_hundred_trials_and_the_ranges_of_the_tables():
    for row in match_rows("ilc/synthetic/search"):
        assert row.full.config.num_trials >= 100
        assert row.full.steps == 93
    irm = find_row("ilc/synthetic/search/irm").full.config
    assert irm.learning_rates == (1e-3, 1e-2, 1e-1, 1.0)
    assert (irm.l1, irm.l2, irm.dropouts) == ((), (), (0.0,))


def test_trials_are_drawn_inside_their_ranges_and_regularizers_exclude_each_other():
    config = SearchConfig(method="and-mask")
    draw = eqx.filter_jit(lambda config, keys: jax.vmap(lambda k: draw_trial(config, k))(keys))
    trials = draw(config, jr.split(jr.key(0), 600))
    l1, l2 = np.asarray(trials.l1), np.asarray(trials.l2)
    assert not ((l1 > 0) & (l2 > 0)).any()
    for share in ((l1 > 0).mean(), (l2 > 0).mean(), ((l1 == 0) & (l2 == 0)).mean()):
        assert share == pytest.approx(1 / 3, abs=0.07)
    for values, choices in (
        (l1, (0.0, *config.l1)),
        (l2, (0.0, *config.l2)),
        (trials.learning_rate, config.learning_rates),
        (trials.dropout, config.dropouts),
        (trials.threshold, config.thresholds),
        (trials.anneal_epochs, config.anneal_epochs),
    ):
        found = np.unique(np.asarray(values))
        np.testing.assert_allclose(found, np.asarray(sorted(choices), np.float32))
    assert float(trials.reversal.min()) > 1e-2
    assert float(trials.reversal.max()) < 1e2
    assert np.asarray(trials.is_adam).mean() == pytest.approx(0.5, abs=0.1)
    none = draw(find_row("ilc/synthetic/search/irm").full.config, jr.split(jr.key(0), 50))
    assert float(none.l1.max()) == float(none.l2.max()) == float(none.dropout.max()) == 0.0


@pytest.fixture(scope="module")
def searched():
    config = SearchConfig(method="and-mask", **TINY_SEARCH)
    learner = make_search_learner(config, 4)
    state = jax.jit(learner.init)(jr.key(0))
    step = jax.jit(learner.step)
    after, _ = step(state, jr.key(1))
    return learner, state, after, step


def test_a_trial_in_a_search_is_trained_as_it_would_be_alone(searched):
    learner, state, after, _ = searched
    size, number, of_round = learner.sizes[1], 1, 2
    pick = lambda tree: jax.tree.map(lambda leaf: leaf[of_round], tree)  # noqa: E731
    alone = learner._learner(size, pick(state.trials[number]), pick(state.split))
    training = pick(state.training[number])
    round_key = jr.split(jr.key(1), 3)[of_round]
    step = eqx.filter_jit(alone.step)
    for key in jr.split(jr.fold_in(round_key, number), 2):  # 16 examples, batches of 8
        training, _ = step(training, key)
    ours = pick(after.training[number]).model
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(training.model), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_trial_that_diverges_is_held_and_counted(searched):
    learner, state, _, step = searched
    rates = tuple(
        trial._replace(learning_rate=jnp.array([1e-3, 1e38, 1e-3]), is_adam=jnp.zeros(3, bool))
        for trial in state.trials
    )
    state = state._replace(trials=rates)
    for number in range(3):
        state, metrics = step(state, jr.key(number))
    assert isinstance(state, Searching)
    assert state.diverged.tolist() == [[False, False], [True, True], [False, False]]
    assert float(metrics["diverged"]) == pytest.approx(1 / 3)
    leaves = jax.tree.leaves([training.model for training in state.training])
    assert all(np.isfinite(leaf).all() for leaf in leaves)
    measured = jax.jit(learner.evaluate)(state, jr.key(0))
    assert all(np.isfinite(float(value)) for value in measured.values())


def test_a_search_shows_every_trial(searched):
    learner, _, after, _ = searched
    inspected = jax.jit(learner.inspect)(after, jr.key(0))
    shown = {name: np.asarray(value) for name, value in inspected.items()}
    assert all(value.shape == (6,) for value in shown.values())
    assert shown["trial_hidden_layers"].tolist() == [1, 2] * 3
    measured = jax.jit(learner.evaluate)(after, jr.key(0))
    assert float(measured["best_test_accuracy"]) == pytest.approx(
        shown["trial_test_accuracy"].max()
    )
    figure = Figure()
    _pictures.draw_search(figure.add_subplot(), shown)
    assert "best: 6×" in figure.axes[0].texts[0].get_text()


def test_a_search_may_have_fewer_trials_with_batch_normalisation(quick_compilation):
    tiny = {**TINY_SEARCH, "hidden_layers": (1,), "batch_norm": (False, True), "rounds": 2}
    config = UnevenSearchConfig(method="and-mask", **tiny, norm_rounds=1, norm_hidden_layers=(1,))
    assert config.num_trials == 3
    learner = make_search_learner(config, 4)
    state, metrics = jax.jit(learner.step)(jax.jit(learner.init)(jr.key(0)), jr.key(1))
    assert float(metrics["diverged"]) == 0.0
    shown = jax.jit(learner.inspect)(state, jr.key(0))
    assert shown["trial_batch_norm"].tolist() == [False, False, True]
    measured = jax.jit(learner.evaluate)(state, jr.key(0))
    assert float(measured["best_test_accuracy"]) == float(shown["trial_test_accuracy"].max())


# Correlations.


def test_correlation_is_pearsons_over_the_kept_components():
    correlation = jax.jit(of_kept)
    x, y = jr.normal(jr.key(0), (2, 50))
    keep = jnp.arange(50) % 3 == 0
    expected = np.corrcoef(np.asarray(x)[::3], np.asarray(y)[::3])[0, 1]
    assert float(correlation(x, y, keep)) == pytest.approx(expected, rel=1e-4)
    assert float(correlation(x, -3e-6 * x, keep)) == pytest.approx(-1.0, rel=1e-4)
    assert np.isnan(float(correlation(x, y, jnp.arange(50) < 2)))


@pytest.fixture(scope="module")
def correlated():
    config = CorrelationConfig(num_envs=8, num_examples=64, num_shortcuts=8, hidden_units=16)
    learner = make_correlation_learner(config, 3)
    state = jax.jit(learner.init)(jr.key(0))
    step = jax.jit(learner.step)
    for number in range(3):
        state, _ = step(state, jr.key(number))
    return learner, state


def test_masks_keep_less_the_stricter_they_are(correlated):
    learner, state = correlated
    kept = np.asarray(state.curves.kept)
    levels = np.asarray(learner.levels)
    assert (np.diff(kept[:, levels >= 0], axis=1) <= 0).all()
    assert (np.diff(kept[:, levels <= 0], axis=1) >= 0).all()
    assert (kept[:, levels == 0] > 0.99).all()
    # Half of eight: AND keeps leads of 4 and more, XOR leads of 4 and less.
    overlap = kept[:, levels == 0.5] + kept[:, levels == -0.5]
    assert (overlap > 1.0).all()


def test_the_measures_are_means_over_networks(correlated):
    learner, state = correlated
    evaluate = jax.jit(learner.evaluate)
    measured = evaluate(state, jr.key(0))
    column = np.asarray(state.curves.mechanism)[:, learner.levels.index(0.75)]
    assert float(measured["rho_mechanism_and"]) == pytest.approx(np.nanmean(column), rel=1e-5)
    change = measured["rho_mechanism_xor"] - measured["rho_mechanism"]
    assert float(measured["change_mechanism_xor"]) == pytest.approx(float(change), abs=1e-6)
    start = evaluate(jax.jit(learner.init)(jr.key(0)), jr.key(0))
    assert all(float(value) == 0.0 for value in start.values())


@pytest.mark.slow
def test_agreement_shows_the_mechanism_and_dispute_hides_it():
    """Acceptance 24 on one data set: ten networks, orderings of the means."""
    row = find_row("ilc/gradcorr/and")
    learner = make_correlation_learner(row.full.config, 10)
    state = jax.jit(learner.init)(jr.key(0))
    step = jax.jit(learner.step)
    for number in range(10):
        state, _ = step(state, jr.key(number))
    found = {name: float(value) for name, value in learner.evaluate(state, jr.key(0)).items()}
    assert found["rho_mechanism_and"] > found["rho_mechanism"] > found["rho_mechanism_xor"]


# Pictures.


def test_the_boundary_is_drawn_as_wide_as_it_was_probed():
    logits = np.random.default_rng(0).normal(size=(12, 12, 1))
    for arrays, reach in (({}, 1.1), ({"probe_reach": np.float32(2.6)}, 2.6)):
        axes = Figure().add_subplot()
        _pictures.draw_boundary(axes, {"probe_logits": logits, **arrays})
        np.testing.assert_allclose(axes.images[0].get_extent(), [-reach, reach] * 2)
        spiral = np.abs(np.concatenate([line.get_xydata() for line in axes.lines]))
        assert 0.8 * reach < spiral.max() < reach


def test_every_layer_and_every_network_has_its_line():
    axes = Figure().add_subplot()
    kept = {"kept_by_layer": np.ones((5, 4)) * 0.3, "kept_steps": np.arange(5)}
    _pictures.draw_kept(axes, kept)
    assert len(axes.lines) == 4
    np.testing.assert_allclose(axes.lines[0].get_ydata(), 30.0)
    axes = Figure().add_subplot()
    curves = np.full((3, 5), np.nan)
    curves[:2] = 0.5
    levels = np.linspace(-1, 1, 5)
    _pictures.draw_correlations(axes, {"levels": levels, "mechanism": curves, "shortcut": curves})
    assert len(axes.lines) == 2 * (3 + 1) + 1  # and the line at zero
    np.testing.assert_allclose(axes.lines[3].get_ydata(), 0.5)


def test_configs_refuse_what_makes_no_sense():
    with pytest.raises(ValueError, match="dropout"):
        dataclasses.replace(find_row("ilc/synthetic/dropout").full.config, dropout=1.0)
    with pytest.raises(ValueError, match="threshold"):  # IRM reads no threshold
        type(find_row("ilc/synthetic/irm").full.config)(threshold=0.5)
