"""The search over optimizers on levels: what is drawn, how it is trained, what is reported."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from matplotlib.figure import Figure

from recombine.experiments import find_row
from recombine.experiments.agreement._best_runs import mean_of_best
from recombine.experiments.agreement._cloning_config import CloningConfig
from recombine.experiments.agreement._cloning_learner import (
    Trial,
    draw_trials,
    kl_on,
    make_cloning_learner,
)
from recombine.methods.agreement import cycle_environments, temporal_and_mask_adam

pytestmark = pytest.mark.usefixtures("quick_compilation")

TINY = find_row("ilc/cloning/temporal-and-mask").tiny.config
EPOCHS = 4

best_ten = jax.jit(partial(mean_of_best, num_best=10))


# What is reported.


def test_the_mean_is_that_of_the_lowest_and_the_interval_is_a_bootstrap():
    losses = np.random.default_rng(0).exponential(size=40).astype(np.float32)
    found = best_ten(losses)
    best = np.sort(losses)[:10]
    assert float(found.mean) == pytest.approx(best.mean(), rel=1e-5)
    means = np.random.default_rng(1).choice(best, (20_000, 10)).mean(axis=1)
    spread = np.quantile(means, [0.025, 0.975])
    np.testing.assert_allclose([found.low, found.high], spread, atol=0.1 * np.ptp(spread))
    again = best_ten(losses[::-1].copy())
    assert (float(again.low), float(again.high)) == (float(found.low), float(found.high))


def test_runs_that_are_all_alike_leave_no_doubt():
    found = best_ten(np.full(40, 0.25, np.float32))
    assert (float(found.mean), float(found.low), float(found.high)) == (0.25, 0.25, 0.25)


def test_the_rows_keep_what_the_thesis_prints_and_treat_both_methods_alike():
    mask, adam = find_row("ilc/cloning/temporal-and-mask"), find_row("ilc/cloning/adam")
    for ours, theirs in ((mask.full, adam.full), (mask.quick, adam.quick)):
        assert ours.config == dataclasses.replace(theirs.config, method="temporal-and-mask")
        assert ours.steps == theirs.steps
        config = ours.config
        assert (config.num_levels, config.num_states, config.num_test) == (64, 1000, 2000)
        assert config.num_best == 10
        assert config.decay_at == (0.5, 0.75)
    assert mask.full.config.num_trials >= 100
    assert mask.paper.mean is None  # CoinRun's numbers are not this game's
    finals = {"top_test_kl": np.array([0.1])}
    rule = mask.full.rule
    for other, holds in ((0.11, True), (0.09, False)):
        judged = rule.judge("top_test_kl", finals, lambda _, o=other: {"top_test_kl": [o]})
        assert judged.holds is holds


# What is drawn.


def test_trials_are_drawn_inside_their_ranges_the_same_for_both_methods():
    config = CloningConfig(method="adam", num_trials=600)
    trials = jax.tree.map(np.asarray, draw_trials(config, jr.key(0)))
    for name, (low, high) in {
        "learning_rate": config.learning_rates,
        "b1": config.b1,
        "weight_decay": config.weight_decays,
        "b3": config.b3,
        "threshold": config.thresholds,
    }.items():
        values = getattr(trials, name)
        assert low <= values.min() < low + 0.05 * (high - low)
        assert 0.8 * high < values.max() <= high
    # Half of the learning rates lie below the middle of the logarithms.
    assert (trials.learning_rate < 10**-2.5).mean() == pytest.approx(0.5, abs=0.07)
    assert trials.decays_after.mean() == pytest.approx(0.5, abs=0.07)
    masked = draw_trials(dataclasses.replace(config, method="temporal-and-mask"), jr.key(0))
    for one, other in zip(trials, masked, strict=True):
        assert (one == np.asarray(other)).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_best": 4, "num_trials": 3}, "`num_best` trials are taken of `num_trials`"),
        ({"b3": (0.3, 1.0)}, "less than 1"),
        ({"learning_rates": (1e-1, 1e-4)}, "the lower end of a range must come first"),
        ({"weight_decays": (0.0, 1.0)}, "greater than 0"),
    ],
)
def test_configs_refuse_what_makes_no_sense(change, words):
    with pytest.raises(ValueError, match=words):
        CloningConfig(method="adam", **change)


# How it is trained.

SETTINGS = Trial(
    learning_rate=jnp.array([0.01, 0.05, 1e38]),
    b1=jnp.array([0.5, 0.9, 0.0]),
    weight_decay=jnp.array([0.1, 0.5, 1.0]),
    decays_after=jnp.array([True, False, True]),
    b3=jnp.array([0.3, 0.6, 0.3]),
    threshold=jnp.array([0.5, 0.3, 0.0]),
)


@pytest.fixture(scope="module")
def searched(quick_compilation):
    """Two epochs of three trials, of which the last diverges."""
    learner = make_cloning_learner(TINY, EPOCHS)
    states = [jax.jit(learner.init)(jr.key(0))._replace(trials=SETTINGS)]
    step = jax.jit(learner.step)
    for epoch in range(2):
        states.append(step(states[-1], jr.key(epoch))[0])
    return learner, states


def test_a_trial_in_a_search_is_trained_as_it_would_be_alone(searched):
    _, (start, after, _) = searched
    optimizer = temporal_and_mask_adam(0.01, 0.5, b3=0.3, threshold=0.5, weight_decay=0.1)

    @jax.jit
    def begin(order_key, key, models):
        levels = jax.vmap(cycle_environments(order_key, TINY.num_levels))(jnp.arange(3))
        chosen = jr.randint(key, (TINY.num_levels, TINY.batch_size), 0, TINY.num_states)
        model = jax.tree.map(lambda leaf: leaf[0], models)
        return levels, chosen, model, optimizer.init(model)

    levels, chosen, model, state = begin(start.order_key, jr.key(0), start.models)
    levels, chosen = levels.tolist(), np.asarray(chosen)
    data = jax.tree.map(np.asarray, start.train)  # indexed without compiling anything

    @jax.jit
    def update(model, state, batch):
        updates, state = optimizer.update(jax.grad(kl_on)(model, batch), state, model)
        return optax.apply_updates(model, updates), state

    assert sorted(levels) == list(range(TINY.num_levels))  # all of them once
    for level, examples in zip(levels, chosen, strict=True):
        batch = jax.tree.map(lambda leaf, at=(level, examples): leaf[at], data)
        model, state = update(model, state, batch)
    ours = jax.tree.map(lambda leaf: np.asarray(leaf)[0], after.models)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(model), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    assert float(after.test_kl[0]) == pytest.approx(
        float(jax.jit(kl_on)(model, start.test)), rel=1e-4
    )


def test_the_lowest_loss_is_remembered_and_what_diverges_is_held(searched):
    learner, states = searched
    losses = np.stack([np.asarray(state.test_kl) for state in states])
    np.testing.assert_allclose(states[-1].lowest, losses.min(axis=0))
    epochs = states[-1].lowest_epoch.tolist()
    assert epochs == losses.argmin(axis=0).tolist()
    assert states[-1].diverged.tolist() == [False, False, True]
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(states[-1].models))
    shown = {
        name: np.asarray(value)
        for name, value in jax.jit(learner.inspect)(states[-1], jr.key(0)).items()
    }
    assert all(value.shape == (3,) for value in shown.values())
    assert {"trial_b3", "trial_threshold"} <= set(shown)
    assert "trial_decays_after" not in shown  # the mask's decay is always after its step
    [picture] = find_row("ilc/cloning/adam").pictures
    assert set(picture.needs) <= set(shown)
    axes = Figure().add_subplot()
    picture.draw(axes, shown)
    lowest = np.sort(states[-1].lowest)[: TINY.num_best]
    measured = jax.jit(learner.evaluate)(states[-1], jr.key(0))
    assert float(measured["top_test_kl"]) == pytest.approx(lowest.mean(), rel=1e-5)
    assert float(measured["share_diverged"]) == pytest.approx(1 / 3)
    assert "learning_rate 0.0" in axes.texts[0].get_text()
    assert len(axes.lines[2].get_xdata()) == 1  # a cross for the one that diverged


def test_the_loss_is_the_divergence_from_the_expert_to_the_student(searched):
    _, (start, *_) = searched
    model = jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[0]), start.models)
    expert = np.asarray(start.test.policies)
    inputs = np.asarray(start.test.images).reshape(len(expert), -1) / 64.0 - 2.0
    logits = np.asarray(jax.jit(jax.vmap(model))(jnp.asarray(inputs, jnp.float32)))
    student = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    expected = (expert * np.log(expert / student)).sum(axis=-1).mean()
    assert float(start.test_kl[0]) == pytest.approx(expected, rel=1e-4)


def test_adam_decays_before_or_after_by_trial():
    learner = make_cloning_learner(dataclasses.replace(TINY, method="adam"), EPOCHS)

    @jax.jit
    def first_step(is_after):
        weight, grad = jnp.array([2.0]), jnp.array([3.0])
        numbers = (0.1, 0.9, 0.5, is_after, 0.0, 0.0)
        optimizer = learner._optimizer(Trial(*map(jnp.asarray, numbers)))
        return optimizer.update(grad, optimizer.init(weight), weight)[0][0]

    moved = [float(first_step(is_after)) for is_after in (True, False)]
    # Adam's first step is its rate; after it, 5 % of the 1.9 that are left decay.
    assert moved == pytest.approx([-0.1 - 0.05 * 1.9, -0.1], abs=1e-4)


@pytest.mark.slow
def test_both_methods_clone_the_expert_better_than_a_guess():
    for method in ("adam", "temporal-and-mask"):
        config = CloningConfig(
            method=method, hidden_units=32, batch_size=64, num_trials=6, num_best=3
        )
        learner = make_cloning_learner(config, steps=10)
        state = jax.jit(learner.init)(jr.key(0))
        step = jax.jit(learner.step)
        for epoch in range(10):
            state, _ = step(state, jr.key(epoch))
        assert float(learner.evaluate(state, jr.key(0))["top_test_kl"]) < 0.35
