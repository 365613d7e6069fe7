from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import recombine
from recombine import SkipForecaster
from recombine.estimators._trajectory_learner import read_to_the_end

pytestmark = pytest.mark.usefixtures("quick_compilation")

SHORT: dict[str, Any] = {"steps": 10, "hidden_sizes": (8,), "batch_size": 4, "random_state": 0}


def sample_turns(count=12, seed=0):
    """Points that go round a circle in uneven steps, one way or the other, which is the outcome."""
    rng = np.random.default_rng(seed)
    trajectories, outcomes = [], []
    for _ in range(count):
        angles = np.cumsum(rng.uniform(0.1, 0.7, size=rng.integers(4, 9)))
        sense = rng.choice([-1, 1])
        circle = [np.cos(angles), sense * np.sin(angles), np.full(len(angles), 100.0 * sense)]
        trajectories.append(np.stack(circle, axis=1))
        outcomes.append("left" if sense > 0 else "right")
    return trajectories, outcomes


def sample_videos(count=4, dtype=np.uint8):
    rng = np.random.default_rng(0)
    videos = [rng.integers(0, 256, size=(length, 5, 4, 1)) for length in (4, 3, 4, 4)[:count]]
    return [v.astype(np.uint8) if dtype == np.uint8 else v / 255 for v in videos]


@pytest.fixture(scope="module")
def turning(quick_compilation):
    return SkipForecaster(3, **SHORT | {"steps": 150}).fit(*sample_turns())


@pytest.fixture(scope="module")
def every_second(quick_compilation):
    return SkipForecaster(fixed_step=2, **SHORT).fit(sample_turns()[0])


def test_what_fit_leaves_behind(turning):
    trajectories, _ = sample_turns()
    frames = np.concatenate(trajectories)
    assert turning.classes_.tolist() == ["left", "right"]
    assert turning.frame_shape_ == (3,)
    assert turning.n_features_in_ == 3
    assert turning.is_bytes_ is False
    np.testing.assert_allclose(turning.mean_, frames.mean(axis=0))
    np.testing.assert_allclose(turning.scale_, frames.std(axis=0))
    names = {"step", "accuracy", "model_evaluations", "loss", "mean_skip", "exploration"}
    assert set(turning.history_) == names
    assert turning.model_evaluations_ == turning.history_["model_evaluations"][-1]
    longest = max(map(len, trajectories))
    assert 150 * 4 * (longest - 1) / 3 / 2 < turning.model_evaluations_ < 150 * 4 * (longest - 1)
    assert 2 <= turning.depth_ <= longest


def test_matches_go_forward_within_the_horizon_and_reach_the_end(turning):
    trajectories, _ = sample_turns()
    assert len(turning.matched_steps_) == len(trajectories)
    for frames, matched in zip(trajectories, turning.matched_steps_, strict=True):
        skips = np.diff(matched, prepend=0)
        assert (skips >= 1).all()
        assert (skips <= 3).all()
        assert matched[-1] == len(frames) - 1


def test_a_match_is_the_best_of_the_frames_that_may_be_matched(turning):
    trajectories, _ = sample_turns()
    for frames, matched in zip(trajectories[:3], turning.matched_steps_, strict=False):
        run = turning.rollout(frames[0], max_steps=len(matched))
        before = 0
        for prediction, at in zip(run, matched, strict=True):
            candidates = frames[before + 1 : before + 4]
            distances = np.mean(((candidates - prediction) / turning.scale_) ** 2, axis=1)
            assert at == before + 1 + np.argmin(distances)
            before = at


def test_a_fixed_step_matches_every_kth_frame(every_second):
    for frames, matched in zip(sample_turns()[0], every_second.matched_steps_, strict=True):
        assert matched.tolist() == list(range(2, len(frames), 2))
    assert set(every_second.history_) >= {"rollout_loss"}
    with pytest.raises(ValueError, match="`fit` was given no outcomes"):
        every_second.predict([1.0, 0.0, 100.0])


def test_a_run_goes_on_from_where_it_is(turning):
    first = np.array([[1.0, 0.0, 100.0], [0.0, 1.0, -100.0], [0.5, 0.5, 100.0]])
    run = turning.rollout(first, max_steps=4)
    assert run.shape == (3, 4, 3)
    np.testing.assert_allclose(turning.rollout(run[:, 1], max_steps=2), run[:, 2:], rtol=1e-3)
    np.testing.assert_allclose(turning.rollout(first[1], max_steps=4), run[1], rtol=1e-4)


def test_outcomes_are_predicted_from_first_frames(turning):
    trajectories, outcomes = sample_turns(20, seed=1)
    first = [frames[0] for frames in trajectories]
    assert turning.score(first, outcomes) > 0.9
    probabilities = turning.predict_proba(first)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    expected = turning.classes_[probabilities.argmax(axis=1)]
    assert turning.predict(first).tolist() == expected.tolist()
    assert turning.predict(first[0]) == expected[0]
    assert turning.history_["accuracy"][-1] == turning.score(*_starts(*sample_turns()))


def _starts(trajectories, outcomes):
    return [frames[0] for frames in trajectories], outcomes


class Hints:
    """A reader whose frames say themselves how much they speak for each of two outcomes."""

    num_classes = 2

    def evidence(self, memory, frame):
        return jnp.array([[0.0, 0.0], [0.5, 0.25], [0.0, 0.8], [1.0, 0.0]])[frame[0].astype(int)]

    def probabilities(self, evidence):
        return evidence / jnp.sum(evidence)


def test_the_first_end_counts():
    def run(depth):
        reader: Any = Hints()
        return read_to_the_end(lambda x: x + 1, reader, jnp.zeros((1, 1)), depth)[0]

    np.testing.assert_allclose(run(1), [0.5 / 0.75, 0.25 / 0.75])
    np.testing.assert_allclose(run(2), [0.5 / 0.95, (0.25 + 0.25 * 0.8) / 0.95], rtol=1e-6)
    np.testing.assert_allclose(run(3), [0.5 + 0.25 * 0.2, 0.25 + 0.25 * 0.8], rtol=1e-6)


def test_a_loaded_model_is_the_saved_one(turning, tmp_path):
    turning.save(tmp_path / "model.recombine")
    loaded: Any = recombine.load(tmp_path / "model.recombine")
    assert type(loaded) is SkipForecaster
    assert loaded.get_params() == turning.get_params()
    assert vars(loaded).keys() == vars(turning).keys()
    assert loaded.frame_shape_ == (3,)
    first = [frames[0] for frames in sample_turns(5, seed=2)[0]]
    np.testing.assert_array_equal(loaded.predict_proba(first), turning.predict_proba(first))
    np.testing.assert_array_equal(loaded.rollout(first, 2), turning.rollout(first, 2))
    for before, after in zip(turning.matched_steps_, loaded.matched_steps_, strict=True):
        np.testing.assert_array_equal(before, after)


def test_the_same_seed_gives_the_same_model_and_clones_are_unfitted(every_second):
    again = clone(every_second)
    with pytest.raises(NotFittedError):
        again.rollout([1.0, 0.0, 0.0], 1)
    again.fit(sample_turns()[0])
    first = sample_turns()[0][0][0]
    np.testing.assert_array_equal(again.rollout(first, 3), every_second.rollout(first, 3))


@pytest.fixture(scope="module")
def filmed(quick_compilation):
    return SkipForecaster(2, kernels=6, steps=2, batch_size=2, random_state=0).fit(
        sample_videos(), ["a", "b", "b", "a"]
    )


def test_images_are_predicted_in_their_own_units(filmed, tmp_path):
    assert filmed.frame_shape_ == (5, 4, 1)
    assert filmed.is_bytes_ is True
    assert filmed.mean_ is None
    assert not hasattr(filmed, "n_features_in_")
    videos = sample_videos()
    run = filmed.rollout(videos[0][0], max_steps=2)
    assert run.shape == (2, 5, 4, 1)
    assert run.dtype == np.uint8
    assert filmed.predict(np.stack([video[0] for video in videos])).shape == (4,)
    # The same image in numbers from 0 to 1 is the same image.
    np.testing.assert_array_equal(filmed.rollout(videos[0][0] / 255, max_steps=2), run)
    filmed.save(tmp_path / "film.recombine")
    loaded: Any = recombine.load(tmp_path / "film.recombine")
    np.testing.assert_array_equal(loaded.rollout(videos[0][0], max_steps=2), run)


def test_a_model_of_images_starts_as_a_copy_of_its_input(filmed):
    image = sample_videos()[0][0]
    predicted = filmed.rollout(image, max_steps=1)[0]
    # Two steps of training have hardly changed it.
    np.testing.assert_allclose(predicted, image, atol=20)


@pytest.mark.slow
def test_images_in_numbers_stay_numbers():
    model = SkipForecaster(2, kernels=2, steps=2, batch_size=2, random_state=0)
    model.fit(sample_videos(dtype=float))
    run = model.rollout(sample_videos(dtype=float)[0][0], max_steps=2)
    assert run.dtype == np.float32
    assert ((run > 0) & (run < 1)).all()


TURNS, SENSES = sample_turns(4)
BROKEN = TURNS[1].copy()
BROKEN[2, 1] = np.nan


@pytest.mark.parametrize(
    ("trajectories", "outcomes", "settings", "error", "message"),
    [
        ([TURNS[0], TURNS[1][:1]], None, {}, ValueError, "trajectory 1 has 1 frame"),
        ([TURNS[0], BROKEN], None, {}, ValueError, "trajectory 1 has values that are not finite"),
        ([TURNS[0], TURNS[1][:, :2]], None, {}, ValueError, "all frames must have one shape"),
        (
            [TURNS[0], np.zeros((4, 3, 3, 1))],
            None,
            {},
            ValueError,
            "all frames must have one shape",
        ),
        ([TURNS[0][:, 0]], None, {}, ValueError, r"must have shape \(time, features\) or"),
        ([np.full((4, 3, 3, 1), 200.0)], None, {}, ValueError, "images must be bytes"),
        (
            [np.zeros((4, 3, 3, 5), np.uint8)],
            None,
            {"kernels": 4},
            ValueError,
            r"`kernels` must be at least the number of channels.* got 4 kernels",
        ),
        ([["a", "b"]], None, {}, ValueError, "trajectory 0 must be an array of numbers"),
        ([], None, {}, ValueError, "`trajectories` is empty"),
        ({"a": 1}, None, {}, TypeError, "`trajectories` must be a list of arrays"),
        (TURNS, None, {"horizon": 0}, ValueError, "`horizon` must be at least 1"),
        (TURNS, None, {"horizon": 50}, ValueError, "a horizon of 50 frames needs a trajectory of"),
        (TURNS, None, {"fixed_step": 0}, ValueError, "`fixed_step` must be at least 1"),
        ([TURNS[0][:3]], None, {"fixed_step": 3}, ValueError, "a `fixed_step` of 3 predicts none"),
        (TURNS, ["a", None, "b", None], {}, ValueError, "trajectories 1, 3 are missing"),
        (TURNS, [1.0, np.nan, 0.0, 1.0], {}, ValueError, "trajectories 1 are missing"),
        (TURNS, ["a", np.nan, "b", "a"], {}, ValueError, "trajectories 1 are missing"),
        (TURNS, ["1", 1, "b", "a"], {}, ValueError, "labels of one kind"),
        (TURNS, ["a", "b"], {}, ValueError, "one label for each of the 4 trajectories; got 2"),
        (TURNS, ["a"] * 4, {}, ValueError, "at least two classes; all are 'a'"),
        (TURNS, ["a", 1, 2, 3], {}, ValueError, "all text or all numbers"),
        (TURNS, "abab", {}, TypeError, "`outcomes` must be a list of labels"),
        (TURNS, None, {"exploration_share": 2}, ValueError, "`exploration_share` is a share"),
        (TURNS, None, {"longest_gradient": 0}, ValueError, "`longest_gradient` must be above 0"),
        (TURNS, None, {"hidden_sizes": 8}, TypeError, "`hidden_sizes` must list"),
    ],
)
def test_bad_input_is_refused(trajectories, outcomes, settings, error, message):
    with pytest.raises(error, match=message):
        SkipForecaster(**{"horizon": 3} | SHORT | settings).fit(trajectories, outcomes)


def test_bad_first_frames_are_refused(turning):
    with pytest.raises(ValueError, match=r"must be a frame of shape \(3,\)"):
        turning.rollout([1.0, 0.0], 2)
    with pytest.raises(ValueError, match="frame 0 of `x0` has values that are not finite"):
        turning.predict([1.0, 0.0, np.nan])
    with pytest.raises(ValueError, match="`max_steps` must be at least 1"):
        turning.rollout([1.0, 0.0, 100.0], 0)
    with pytest.raises(ValueError, match="too far from the training data"):
        turning.rollout([1e300, 0.0, 100.0], 1)


def test_a_loss_that_is_not_finite_says_what_to_do(turning):
    wild = clone(turning).set_params(learning_rate=1e30)
    with pytest.raises(FloatingPointError, match="Lower `learning_rate`"):
        wild.fit(*sample_turns())


@pytest.mark.parametrize("longest", [None, 4.0])
def test_the_learner_is_told_how_long_gradients_may_be(longest, monkeypatch):
    def make(data, **settings):
        seen.append(settings["longest_gradient"])
        raise KeyboardInterrupt

    seen = []
    monkeypatch.setattr("recombine.estimators._skip_forecaster.make_trajectory_learner", make)
    with pytest.raises(KeyboardInterrupt):
        SkipForecaster(3, **SHORT, longest_gradient=longest).fit(*sample_turns())
    assert seen == [longest]


def test_a_fit_that_is_stopped_while_it_matches_leaves_no_model(monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("recombine.estimators._skip_forecaster.follow", stop)
    model = SkipForecaster(3, **SHORT)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*sample_turns())
    with pytest.raises(NotFittedError):
        model.rollout(sample_turns()[0][0][0], 2)
