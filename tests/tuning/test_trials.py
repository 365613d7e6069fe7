"""Trials that differ only in numbers are one program, and come out as if alone."""

import dataclasses

import numpy as np
import pytest

from recombine.experiments import find_row
from recombine.training import Interrupted
from recombine.tuning import StudyError, TrialBatch, run_trials


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """This module compiles much and computes little."""


def batch_of(plugin, *changes, row="toy/walk", metric="error", seeds=(0, 1)):
    return TrialBatch(row, "tiny", tuple(changes), seeds, metric, (plugin,))


@pytest.mark.parametrize("vectorize", [False, True])
def test_a_batch_gives_what_its_trials_give_alone(plugin, vectorize):
    changes = [("rate=0.1",), ("rate=0.5", "target=0.2"), ("rate=0.1", "units=3")]
    together = run_trials(batch_of(plugin, *changes), vectorize=vectorize)
    for change, outcome in zip(changes, together, strict=True):
        [alone] = run_trials(batch_of(plugin, change), vectorize=False)
        assert outcome.state == "complete"
        assert outcome.value == pytest.approx(alone.value, rel=1e-5)
        assert outcome.value == pytest.approx(np.mean(outcome.final["error"]))
        assert len(outcome.final["late"]) == 2
        assert [step for step, _ in outcome.curve] == [0, 2, 4, 6, 8]


@pytest.mark.slow  # by default the toys show it, and that the spirals share a program
def test_the_spirals_of_one_size_share_a_program_and_keep_their_numbers():
    row = "ilc/synthetic/and-mask"
    changes = (
        ("learning_rate=0.01", "l2=0.001", "threshold=0.8", "rescale=tensor"),
        ("learning_rate=0.03", "l2=0.0001", "threshold=0.5", "rescale=null"),
    )
    batch = TrialBatch(row, "tiny", changes, (0,), "test_accuracy")
    together = run_trials(batch, vectorize=True)
    for change, outcome in zip(changes, together, strict=True):
        [alone] = run_trials(dataclasses.replace(batch, changes=(change,)), vectorize=False)
        assert outcome.final.keys() == alone.final.keys()
        for name, values in alone.final.items():
            np.testing.assert_allclose(outcome.final[name], values, rtol=1e-4, err_msg=name)


def test_settings_of_other_shapes_make_groups_of_their_own():
    from recombine.training import group_alike

    row = find_row("ilc/synthetic/and-mask")
    configs = [
        dataclasses.replace(row.tiny.config, **changes)
        for changes in (
            {"learning_rate": 0.1},
            {"hidden_units": 4},
            {"l2": 0.0, "threshold": 0.4, "rescale": None},
            {"batch_size": 8},
            {"hidden_units": 4, "threshold": 0.9},
        )
    ]
    learners = [row.make_learner(config, 8) for config in configs]
    assert group_alike(learners) == [[0, 2], [1, 4], [3]]


def test_a_trial_that_diverges_or_is_refused_leaves_the_others_alone(plugin):
    good, wild, refused = run_trials(
        batch_of(plugin, ("rate=0.1",), ("rate=1000000",), ("units=13",))
    )
    assert good.state == "complete"
    assert (wild.state, wild.value) == ("failed", None)
    assert "not finite at step" in wild.error
    assert refused.state == "failed"
    assert "13 units bring bad luck" in refused.error


def test_watching_prunes(plugin):
    seen = []

    def watch(place, step, value):
        seen.append((place, step))
        return place == 0

    first, second = run_trials(batch_of(plugin, ("rate=0.1",), ("rate=0.2",)), watch=watch)
    assert (first.state, first.curve[-1][0]) == ("pruned", 2)
    assert second.state == "complete"
    assert seen == [(0, 2), (1, 2), (1, 4), (1, 6)]


def test_a_metric_that_is_not_measured_is_refused(plugin):
    with pytest.raises(StudyError, match="does not measure 'gone'; it measures error, test_error"):
        run_trials(batch_of(plugin, ("rate=0.1",), metric="gone"))
    with pytest.raises(StudyError, match="after the last step only"):
        run_trials(batch_of(plugin, ("rate=0.1",), metric="late"), watch=lambda *_: False)
    [outcome] = run_trials(batch_of(plugin, ("rate=0.1",), metric="late"))
    assert outcome.curve == ()


def test_ctrl_c_ends_a_batch(plugin):
    import os
    import signal

    def press(place, step, value):
        os.kill(os.getpid(), signal.SIGINT)
        return False

    with pytest.raises(Interrupted):
        run_trials(batch_of(plugin, ("rate=0.1",)), watch=press)
