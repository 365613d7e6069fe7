import dataclasses
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

from recombine.tasks import mujoco_returns
from recombine.tasks.mujoco_returns import (
    CONTROL_TASKS,
    GENERATOR_VERSION,
    NUM_STEPS,
    WARM_UP,
    Rollouts,
    SimulatorMissingError,
    _processes,
    _simulate,
    class_values,
    control_task,
    fit_binning,
    fit_preparation,
    load_returns,
    load_rollouts,
    normalized_mse,
    reward_parts,
)

HAS_SIMULATOR = all(importlib.util.find_spec(name) for name in ("gymnasium", "mujoco"))
SCORE = jax.jit(normalized_mse)
needs_simulator = pytest.mark.skipif(not HAS_SIMULATOR, reason="needs the extra `mujoco`")


def made_up_arrays(task: str, num_items: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Arrays of the right form, with rewards that follow from them."""
    about, generator = control_task(task), np.random.default_rng(seed)
    actions = generator.integers(-1, 2, (num_items, NUM_STEPS, about.num_actions)).astype(np.int8)
    moved = generator.normal(0.1, 0.02, (num_items, NUM_STEPS)).astype(np.float32)
    cost = about.action_cost * (actions.astype(float) ** 2).sum(axis=-1)
    width = about.num_observations
    offset, scale = np.arange(width), 1 + np.arange(width)
    return {
        "start": (offset + scale * generator.normal(size=(num_items, width))).astype(np.float32),
        "actions": actions,
        "observations": (
            offset + scale * generator.normal(size=(num_items, NUM_STEPS, width))
        ).astype(np.float32),
        "rewards": moved.astype(float) / about.step_seconds + about.bonus - cost,
        "displacements": moved,
        "has_fallen": np.zeros((num_items, NUM_STEPS), bool),
        "num_before": generator.integers(10, 31, num_items).astype(np.int32),
        "versions": np.array(["gymnasium 0", "mujoco 0", "numpy 0"]),
    }


def made_up_rollouts(task: str, num_items: int, seed: int = 0) -> Rollouts:
    arrays = made_up_arrays(task, num_items, seed)
    return Rollouts(**arrays | {"versions": tuple(arrays["versions"].tolist())})


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("RECOMBINE_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def made_up_simulator(monkeypatch):
    """A simulator that makes arrays up, and counts how often it is asked."""
    calls = []

    def simulate(task, *, num_items, seed, split, num_processes):
        calls.append((task.name, num_items, seed, split))
        return made_up_arrays(task.name, num_items, seed + len(split))

    monkeypatch.setattr(mujoco_returns._rollouts, "simulate_in_processes", simulate)
    return calls


# Tasks


def test_the_sizes_are_those_of_the_spec():
    sizes = {name: (t.num_inputs, t.frame_size) for name, t in CONTROL_TASKS.items()}
    expected = {"swimmer": (40, 9), "walker2d": (113, 18), "hopper": (59, 12)}
    assert sizes == expected | {"halfcheetah": (113, 18)}
    assert all(task.environment.endswith("-v4") for task in CONTROL_TASKS.values())


def test_an_unknown_task_is_answered_with_the_nearest():
    with pytest.raises(LookupError, match="no control task is called 'Hoper'; try hopper"):
        control_task("Hoper")
    with pytest.raises(LookupError, match="try swimmer, walker2d, hopper, halfcheetah"):
        load_rollouts("zzz")


# Classes


def test_four_thousand_distinct_returns_fill_every_class_with_125():
    returns = np.random.default_rng(0).normal(size=4000) ** 3
    binning = fit_binning(returns)
    classes = binning.class_of(returns)
    assert np.bincount(classes, minlength=32).tolist() == [125] * 32
    assert np.all(np.diff(classes[np.argsort(returns)]) >= 0)
    assert classes.dtype == np.int32


def test_the_levels_are_the_empirical_distribution_between_the_values():
    binning = fit_binning(np.array([3.0, 1.0, 2.0, 10.0, 4.0]), num_classes=4)
    np.testing.assert_allclose(
        binning.level_of(np.array([1.0, 1.5, 4.0, 7.0, 10.0])), [0, 0.125, 0.75, 0.875, 1]
    )


def test_what_lies_outside_gets_the_first_and_the_last_class():
    binning = fit_binning(np.linspace(-1, 1, 100))
    assert binning.class_of(np.array([-1e9, -1.0001, 1.0, 1e9])).tolist() == [0, 0, 31, 31]


def test_equal_returns_get_the_mean_of_their_places():
    binning = fit_binning(np.array([0.0, 0.0, 0.0, 1.0, 2.0]), num_classes=2)
    np.testing.assert_allclose(binning.level_of(np.array([0.0, 1.0, 2.0])), [0.25, 0.75, 1.0])
    assert binning.class_of(np.array([-1.0, 0.0, 1.0])).tolist() == [0, 0, 1]


def test_fresh_returns_fill_the_classes_about_evenly():
    generator = np.random.default_rng(1)
    binning = fit_binning(generator.normal(size=4000))
    shares = np.bincount(binning.class_of(generator.normal(size=10_000)), minlength=32) / 10_000
    assert 0.02 < shares.min() < shares.max() < 0.045


def test_bad_returns_are_refused():
    with pytest.raises(ValueError, match=r"at least as many different values.*32; got 1"):
        fit_binning(np.ones(4000))
    with pytest.raises(ValueError, match="must be finite numbers along one axis"):
        fit_binning(np.array([0.0, np.nan] * 40))
    with pytest.raises(ValueError, match="`num_classes` must be at least 2"):
        fit_binning(np.arange(9.0), num_classes=1)


def test_predicting_all_classes_alike_scores_the_known_error():
    score = float(SCORE(np.zeros((320, 32), np.float32), np.repeat(np.arange(32), 10)))
    assert score == pytest.approx(0.0887, abs=5e-4)
    assert score == pytest.approx((32**2 - 1) / 12 / 31**2, rel=1e-5)


def test_the_error_is_that_of_the_expected_value():
    probabilities = np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
    logits = np.log(probabilities + 1e-30).astype(np.float32)
    # Expected values 0.375 and 1, true ones 1 and 0.5.
    score = float(SCORE(logits, np.array([2, 1])))
    assert score == pytest.approx((0.625**2 + 0.5**2) / 2, rel=1e-5)
    assert float(SCORE(1e3 * np.eye(3, dtype=np.float32)[:2], np.arange(2))) == 0
    np.testing.assert_allclose(class_values(), np.arange(32) / 31, rtol=1e-6)


# Preparation


def test_training_inputs_are_standardised_and_laid_out_step_by_step():
    rollouts = made_up_rollouts("hopper", 400)
    preparation = fit_preparation(rollouts)
    examples = preparation.apply(rollouts)
    assert examples.inputs.shape == (400, 59)
    assert examples.inputs.dtype == examples.privileged.dtype == np.float32
    np.testing.assert_allclose(examples.inputs.mean(axis=0), np.zeros(59), atol=1e-5)
    np.testing.assert_allclose(examples.inputs.std(axis=0), np.ones(59), rtol=1e-4)
    back = examples.inputs * preparation.input_std + preparation.input_mean
    np.testing.assert_allclose(back[:, :11], rollouts.start, atol=1e-4)
    np.testing.assert_allclose(back[:, 11 + 3 : 11 + 6], rollouts.actions[:, 1], atol=1e-5)


def test_frames_share_the_numbers_of_the_first_observation_and_rewards_their_own():
    rollouts = made_up_rollouts("hopper", 400)
    preparation = fit_preparation(rollouts)
    frames = preparation.apply(rollouts).privileged
    assert frames.shape == (400, 16, 12)
    np.testing.assert_allclose(
        frames[..., :11],
        (rollouts.observations - rollouts.start.mean(axis=0)) / rollouts.start.std(axis=0),
        atol=1e-3,
    )
    assert abs(frames[..., 11].mean()) < 1e-5  # over examples and time together
    assert abs(frames[..., 11].std() - 1) < 1e-4
    order = np.argsort(rollouts.rewards.ravel())
    assert np.all(np.diff(frames[..., 11].ravel()[order]) >= 0)


def test_the_test_set_is_prepared_by_the_training_set():
    train, test = made_up_rollouts("swimmer", 400), made_up_rollouts("swimmer", 300, seed=1)
    test = test._replace(start=test.start + 5, rewards=test.rewards + 1e6)
    preparation = fit_preparation(train)
    examples = preparation.apply(test)
    assert examples.inputs[:, 0].mean() > 4
    assert set(examples.labels.tolist()) == {31}
    np.testing.assert_array_equal(fit_preparation(train).input_mean, preparation.input_mean)


def test_what_never_changes_becomes_zero():
    rollouts = made_up_rollouts("swimmer", 50)
    rollouts.start[:, 3] = 7
    inputs = fit_preparation(rollouts).apply(rollouts).inputs
    assert np.all(inputs[:, 3] == 0)
    assert np.isfinite(inputs).all()


def test_a_preparation_of_another_task_is_refused():
    preparation = fit_preparation(made_up_rollouts("swimmer", 50))
    with pytest.raises(ValueError, match=r"of the task that this was learned from.*got \(59, 12\)"):
        preparation.apply(made_up_rollouts("hopper", 5))


def test_the_return_is_the_sum_of_all_rewards_also_after_a_fall():
    rollouts = made_up_rollouts("walker2d", 20)
    rollouts.has_fallen[:, 3:] = True
    np.testing.assert_array_equal(rollouts.returns, rollouts.rewards.sum(axis=1))
    parts = reward_parts(control_task("walker2d"), rollouts)
    np.testing.assert_allclose(parts.total, rollouts.rewards, rtol=1e-9)
    assert np.all(parts.bonus == 1)
    np.testing.assert_allclose(
        parts.cost[0, 0], 1e-3 * np.abs(rollouts.actions[0, 0]).sum(), rtol=1e-9
    )


# Cache and errors


def test_what_was_made_is_kept_with_a_manifest(empty_cache, made_up_simulator):
    first = load_rollouts("hopper", 40, seed=3, split="test")
    second = load_rollouts("hopper", 40, seed=3, split="test")
    assert made_up_simulator == [("hopper", 40, 3, "test")]
    np.testing.assert_array_equal(first.rewards, second.rewards)
    assert second.versions == ("gymnasium 0", "mujoco 0", "numpy 0")
    (path,) = (empty_cache / "mujoco_returns").glob("*.json")
    manifest = json.loads(path.read_text())
    asked = {"task": "hopper", "num_items": 40, "seed": 3, "split": "test"}
    assert manifest["request"]["parameters"] == asked | {"environment": "Hopper-v4"}
    assert manifest["request"]["code_version"] == GENERATOR_VERSION
    assert manifest["words"]["versions"] == ["gymnasium 0", "mujoco 0", "numpy 0"]
    assert len(manifest["sha256"]) == 64


def test_other_requests_are_made_anew_and_nothing_is_kept_on_demand(empty_cache, made_up_simulator):
    load_rollouts("hopper", 40)
    load_rollouts("hopper", 40, split="test")
    load_rollouts("swimmer", 40)
    load_rollouts("hopper", 40, seed=1)
    load_rollouts("hopper", 40, keep=False)
    assert len(made_up_simulator) == 5
    assert len(list((empty_cache / "mujoco_returns").glob("*.npz"))) == 4


@pytest.mark.usefixtures("empty_cache")
def test_the_three_sets_are_drawn_apart_and_prepared_by_the_first(made_up_simulator):
    sets = load_returns("hopper", num_train=160, num_validation=32, num_test=64)
    assert [call[1:] for call in made_up_simulator] == [
        (160, 0, "train"),
        (32, 0, "validation"),
        (64, 0, "test"),
    ]
    assert np.bincount(sets.train.labels).tolist() == [5] * 32
    assert [len(part.labels) for part in sets[:3]] == [160, 32, 64]
    again = sets.preparation.apply(load_rollouts("hopper", 64, split="test"))
    np.testing.assert_array_equal(again.inputs, sets.test.inputs)
    assert sets.versions[1] == "mujoco 0"


def test_without_the_simulator_the_error_names_the_extra(empty_cache, monkeypatch):
    monkeypatch.setattr(_processes, "NEEDED", ("numpy", "a_simulator_nobody_has"))
    with pytest.raises(
        SimulatorMissingError,
        match=r"(?s)Hopper-v4 needs Gymnasium.*not installed: a_simulator_nobody_has\. "
        r"Install the extra: pip install 'recombine\[mujoco\]'",
    ) as raised:
        load_rollouts("hopper", 3)
    assert str(empty_cache / "mujoco_returns") in str(raised.value)
    assert isinstance(raised.value, ImportError)


def test_what_is_kept_needs_no_simulator(empty_cache, made_up_simulator, monkeypatch):
    load_rollouts("swimmer", 12)
    monkeypatch.undo()
    monkeypatch.setenv("RECOMBINE_CACHE", str(empty_cache))
    monkeypatch.setattr(_processes, "NEEDED", ("a_simulator_nobody_has",))
    assert len(load_rollouts("swimmer", 12).returns) == 12
    with pytest.raises(SimulatorMissingError):
        load_rollouts("swimmer", 13)


def test_a_process_that_fails_says_why(monkeypatch):
    unknown = dataclasses.replace(control_task("hopper"), name="no-such-task")
    monkeypatch.setattr(_processes, "NEEDED", ())
    monkeypatch.setattr(mujoco_returns._rollouts, "control_task", lambda name: unknown)
    with pytest.raises(RuntimeError, match=r"(?s)failed with status 1.*called 'no-such-task'"):
        load_rollouts("hopper", 3, keep=False)


def test_the_room_opens_without_jax_and_without_the_simulator():
    code = (
        "import sys, recombine.tasks.mujoco_returns\n"
        "print([name for name in ('jax', 'gymnasium', 'mujoco') if name in sys.modules])"
    )
    root = Path(mujoco_returns.__file__).parents[3]
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.strip() == "[]"


def test_bad_requests_are_refused():
    with pytest.raises(ValueError, match="`num_items` must be at least 1; got 0"):
        load_rollouts("hopper", 0)
    with pytest.raises(ValueError, match="`split` must be one of train, validation, test"):
        load_rollouts("hopper", 1, split="dev")
    with pytest.raises(ValueError, match="`seed` counts from 0"):
        load_rollouts("hopper", 1, seed=-1)
    with pytest.raises(ValueError, match="`num_processes` must be at least 1"):
        load_rollouts("hopper", 1, num_processes=0)


def test_a_changed_generator_has_another_version():
    """Where this fails: raise GENERATOR_VERSION, unless only words changed; then put the new hash.

    Kept data are found by that number. (A hash of the source would do without it, but differs
    between versions of Python, and data are carried to machines without a simulator.)
    """
    source = Path(_simulate.__file__).read_text(encoding="utf-8")
    found = (GENERATOR_VERSION, hashlib.sha256(source.encode()).hexdigest()[:16])
    assert found == ("1", "91444bc50e32f82f")


# With the simulator


@needs_simulator
@pytest.mark.parametrize("name", sorted(CONTROL_TASKS))
def test_trajectories_are_those_of_the_environment(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the simulator writes a log where it runs
    task = control_task(name)
    environment = _simulate.make_environment(task)
    assert environment.observation_space.shape == (task.num_observations,)
    assert environment.action_space.shape == (task.num_actions,)
    assert environment.dt == pytest.approx(task.step_seconds)
    made = _simulate.simulate_items(task, seed=0, split="train", items=range(8))
    rollouts = Rollouts(**made, versions=())
    assert rollouts.start.shape == (8, task.num_observations)
    assert rollouts.observations.shape == (8, 16, task.num_observations)
    assert rollouts.rewards.shape == (8, 16)
    assert set(np.unique(rollouts.actions).tolist()) == {-1, 0, 1}
    assert WARM_UP[0] <= rollouts.num_before.min() <= rollouts.num_before.max() <= WARM_UP[1]
    # Also after a fall, which many have had: the bonus is always paid.
    parts = reward_parts(task, rollouts)
    np.testing.assert_allclose(parts.total, rollouts.rewards, atol=2e-4)
    assert rollouts.has_fallen.any() == (task.bonus > 0)


@needs_simulator
def test_an_item_is_the_same_in_any_order():
    task = control_task("hopper")
    together = _simulate.simulate_items(task, seed=0, split="test", items=[5, 6, 7])
    alone = _simulate.simulate_items(task, seed=0, split="test", items=[7])
    other = _simulate.simulate_items(task, seed=1, split="test", items=[7])
    for name, array in alone.items():
        np.testing.assert_array_equal(array[0], together[name][2])
    assert not np.array_equal(alone["start"], other["start"])


@needs_simulator
def test_processes_make_what_one_makes_and_leave_no_log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_processes, "LEAST_ITEMS", 2)
    two = load_rollouts("halfcheetah", 5, num_processes=2, keep=False)
    assert list(tmp_path.iterdir()) == []
    one = _simulate.simulate_items(
        control_task("halfcheetah"), seed=0, split="train", items=range(5)
    )
    np.testing.assert_array_equal(two.rewards, one["rewards"])
    np.testing.assert_array_equal(two.observations, one["observations"])
    assert [version.split()[0] for version in two.versions] == ["gymnasium", "mujoco", "numpy"]


@needs_simulator
def test_the_first_return_is_the_one_known():
    """Made by MuJoCo 4.0.0; others agree on returns to about four digits."""
    made = _simulate.simulate_items(control_task("swimmer"), seed=0, split="train", items=[0])
    assert made["rewards"].sum() == pytest.approx(-6.9718, abs=1e-3)
