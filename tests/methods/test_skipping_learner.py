import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.skipping import (
    LearnedReaderShape,
    Phase,
    Schedule,
    SkipLearner,
    Skips,
    SquaredError,
    VectorModelShape,
    VideoModelShape,
    as_trajectories,
    pad_trajectories,
)
from recombine.training import fit


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """This module compiles much and computes little."""


class SideReader(eqx.Module):
    """Tells on which side a falling point ends."""

    num_classes: int = eqx.field(static=True, default=2)

    def look(self, first, context):
        return None

    def evidence(self, memory, frame):
        is_low = frame[1] < 0.2
        return jnp.stack([frame[0] < 0, frame[0] >= 0]).astype(jnp.float32) * is_low

    def probabilities(self, evidence):
        return (evidence + 1e-3) / (jnp.sum(evidence) + 2e-3)

    def is_present(self, frame):
        return jnp.all(jnp.abs(frame) < 2)


def points(seed, count=8, speed=0.12):
    """Points that fall at uneven speeds and drift to the side they lean to."""
    rng = np.random.default_rng(seed)
    trajectories, labels = [], []
    for _ in range(count):
        side = rng.choice([-1.0, 1.0])
        steps = rng.uniform(0.5 * speed, 1.5 * speed, 30)
        height = 1.0 - np.concatenate([[0.0], np.cumsum(steps)])
        height = height[: np.argmax(height < 0.05) + 1]
        drift = side * (0.2 + 0.5 * (1 - height))
        trajectories.append(np.stack([drift, height], axis=-1))
        labels.append(int(side > 0))
    return as_trajectories(pad_trajectories(trajectories, labels), time=20)


def make_learner(**changes):
    settings = {
        "phases": (Phase(points(0), points(1)),),
        "reader": SideReader(),
        "model": VectorModelShape(2, (16,)),
        "skips": Skips(1, 4),
        "frame_loss": SquaredError(),
        "schedule": Schedule(learning_rate=1e-2, exploration_steps=20.0, sampling_steps=100.0),
        "num_watched": 5,
        "at_once": 2,
    }
    return SkipLearner(**{**settings, **changes})


def run(learner, steps):
    """Makes steps as `fit` does, and returns the state with the metrics of every step."""

    def one(state, number):
        return learner.step(state, jr.fold_in(jr.key(1), number))

    init = eqx.filter_jit(learner.init)(jr.key(0))
    return jax.jit(lambda s: jax.lax.scan(one, s, jnp.arange(steps)))(init)


@pytest.fixture(scope="module")
def trained():
    learner = make_learner()
    return learner, *run(learner, 120)


def test_it_learns_where_points_land(trained):
    learner, state, metrics = trained
    measure = eqx.filter_jit(learner.evaluate)
    before, after = measure(learner.init(jr.key(0)), jr.key(3)), measure(state, jr.key(3))
    assert float(before["accuracy_hard"]) == 0.0  # it copies, so no point ever lands
    assert float(after["accuracy_hard"]) == 1.0
    assert float(after["accuracy_soft"]) > 0.99
    assert metrics["loss"][-1] < 0.1 * metrics["loss"][0]
    assert all(np.isfinite(values).all() for values in metrics.values())


def test_model_evaluations_are_counted(trained):
    learner, state, metrics = trained
    total = 2 * float(jnp.sum(metrics["predictions"]))
    assert int(state.model_evaluations) == pytest.approx(total)
    assert int(state.padded_evaluations) > int(state.model_evaluations)
    counted = eqx.filter_jit(learner.evaluate)(state, jr.key(3))
    assert float(counted["model_evaluations"]) == int(state.model_evaluations)
    assert float(counted["epoch"]) == 30.0
    last = np.asarray(metrics["predictions"][-4:])
    assert int(counted["depth"]) == round(np.percentile(last, 99)) + 1


def test_every_trajectory_is_visited_once_an_epoch_in_a_fresh_order(trained):
    learner, state, _ = trained
    assert learner.steps_per_epoch == 4
    assert sorted(state.order.tolist()) == list(range(8)) != state.order.tolist()


def test_the_end_measures_all_and_follows_the_truth(trained):
    learner, state, _ = trained
    final = eqx.filter_jit(learner.final)(state, jr.key(3))
    assert float(final["accuracy_hard"]) == 1.0
    assert float(final["accuracy_matched"]) > 0.95
    assert 1.0 <= float(final["mean_skip"]) <= float(final["longest_skip"]) <= 4.0


def test_what_is_worth_drawing(trained):
    learner, state, _ = trained
    shown = eqx.filter_jit(learner.inspect)(state, jr.key(3))
    assert shown["frames"].shape == (2, 20, 2)
    assert shown["predictions"].shape == shown["rollout"].shape == (2, 19, 2)
    assert shown["costs"].shape == (2, 19, 4)
    matched, lengths = np.asarray(shown["matched"]), np.asarray(shown["lengths"])
    assert (matched.max(axis=1) == lengths - 1).all()


@pytest.mark.slow  # compiles everything twice
def test_fit_takes_it_and_seeds_keep_their_numbers():
    schedule = Schedule(exploration_steps=0.0)
    settings = {"steps": 4, "eval_every": 2, "seeds": [0, 1], "progress": False}
    turns = fit(make_learner(schedule=schedule), vectorize=False, **settings)
    together = fit(make_learner(schedule=schedule), vectorize=True, **settings)
    assert turns.final.keys() == together.final.keys()
    for name, values in turns.final.items():
        np.testing.assert_allclose(values, together.final[name], rtol=1e-3, atol=1e-4)


def test_data_can_be_exchanged_during_a_run():
    slow, fast = (Phase(points(s, speed=v), points(s + 1, speed=v), n)
                  for s, v, n in ((0, 0.08, "slow"), (4, 0.3, "fast")))  # fmt: skip
    learner = make_learner(
        phases=(slow, fast), switch_steps=(3,), skips=Skips(1, 1), shuffle=False, batch_size=8
    )
    state, metrics = run(learner, 5)
    assert state.order.tolist() == list(range(8))  # not shuffled
    means = [float(np.mean(np.asarray(p.train.lengths) - 1)) for p in (slow, fast)]
    np.testing.assert_allclose(metrics["predictions"], means[:1] * 3 + means[1:] * 2, rtol=1e-5)
    measured = eqx.filter_jit(learner.evaluate)(state, jr.key(0))
    assert {"accuracy_soft", "accuracy_soft/slow", "accuracy_soft/fast"} <= measured.keys()
    assert float(measured["object_steps"]) == float(measured["object_steps/fast"])


@pytest.mark.parametrize("matching", ["global", "soft"])
def test_global_alignment_makes_the_same_kind_of_state(matching):
    learner = make_learner(matching=matching, aligned_steps=9)
    state = eqx.filter_eval_shape(learner.init, jr.key(0))
    after, metrics = eqx.filter_eval_shape(learner.step, state, jr.key(0))
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert all(value.shape == () for value in metrics.values())


@pytest.mark.slow
@pytest.mark.parametrize("matching", ["global", "soft"])
def test_global_alignment_trains_too(matching):
    learner = make_learner(matching=matching, phases=(Phase(points(0), points(1)),))
    state, metrics = run(learner, 60)
    assert metrics["loss"][-1] < 0.3 * metrics["loss"][0]
    free_runs = 60 * 2 * 19  # they count
    counted = 2 * float(jnp.sum(metrics["predictions"])) if matching == "global" else 0
    assert int(state.model_evaluations) == pytest.approx(free_runs + counted)


@pytest.mark.slow
def test_a_reader_can_be_trained_beside_the_model(trained):
    learner = make_learner(reader=None, learned_reader=LearnedReaderShape(2, 2, (16,)))
    state, _ = run(learner, 120)
    assert float(eqx.filter_jit(learner.evaluate)(state, jr.key(0))["accuracy_hard"]) >= 0.8
    alone = trained[1]
    for ours, other in zip(jax.tree.leaves(state.model), jax.tree.leaves(alone.model), strict=True):
        np.testing.assert_allclose(ours, other, atol=1e-4)  # the reader does not disturb it


def test_without_a_reader_the_loss_is_measured():
    learner = make_learner(reader=None)
    measured = eqx.filter_jit(learner.evaluate)(learner.init(jr.key(0)), jr.key(0))
    assert float(measured["validation_loss"]) > 0
    assert "accuracy_soft" not in measured
    assert set(learner.final(learner.init(jr.key(0)), jr.key(0))) == {"validation_loss"}


def image_learner():
    frames = [np.random.default_rng(i).integers(0, 255, (4 + i, 6, 6, 3), np.uint8) for i in (0, 1)]
    data = pad_trajectories(frames)
    return SkipLearner(
        phases=(Phase(data, data),), model=VideoModelShape("strided", 2), skips=Skips(1, 2)
    )


def test_images_come_back_as_bytes():
    learner = image_learner()
    state = eqx.filter_eval_shape(learner.init, jr.key(0))
    after, metrics = eqx.filter_eval_shape(learner.step, state, jr.key(0))
    assert jax.tree.structure(after) == jax.tree.structure(state)
    assert all(value.shape == () for value in metrics.values())
    shown = eqx.filter_eval_shape(learner.inspect, state, jr.key(0))
    assert shown["predictions"].dtype == shown["rollout"].dtype == jnp.uint8


@pytest.mark.slow  # convolutions in a loop compile slowly
def test_images_are_learned():
    _, metrics = run(image_learner(), 60)
    assert metrics["loss"][-10:].mean() < metrics["loss"][:10].mean()


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="horizon of 30"):
        make_learner(skips=Skips(1, 30))
    with pytest.raises(ValueError, match="`batch_size` must be between 1 and the 8"):
        make_learner(batch_size=9)
    with pytest.raises(ValueError, match="one step for each change of phase"):
        make_learner(switch_steps=(3,))
    phases = (Phase(points(0), points(1)), Phase(points(0, count=5), points(1)))
    with pytest.raises(ValueError, match="must have one shape"):
        make_learner(phases=phases, switch_steps=(3,))
    with pytest.raises(ValueError, match="`matching` must be"):
        make_learner(matching="best")
    with pytest.raises(ValueError, match="shortest skip of 1"):
        make_learner(matching="global", skips=Skips(2, 2))
    with pytest.raises(ValueError, match="not both"):
        make_learner(learned_reader=LearnedReaderShape(2, 2))
