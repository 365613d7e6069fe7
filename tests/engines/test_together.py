"""Rows side by side: the same records as one after the other, whatever becomes of a neighbour."""

import contextlib
import dataclasses
import signal

import numpy as np
import pytest

from recombine.engines import RunRequest, run_row, run_together
from recombine.experiments import find_row
from recombine.training import Interrupted, SilentProgress

IDS = ("ilc/synthetic/and-mask", "ilc/synthetic/baseline")
RATES = ("learning_rate=0.03", "learning_rate=0.02")

pytestmark = pytest.mark.usefixtures("quick_compilation")


def tiny(row_id, *changes, num_seeds=1):
    return RunRequest.of(find_row(row_id), "tiny", num_seeds=num_seeds, changes=changes)


def silent(_):
    return False


def rates(*more):
    """Two runs that differ in a number: one program can train both."""
    return [tiny(IDS[0], rate, *more, num_seeds=2) for rate in RATES]


def untimed(record):
    return dataclasses.replace(record, seconds={}, started="", finished="")


class Asked:
    """Keeps which groups were trained."""

    def __init__(self):
        self.groups = []

    def __call__(self, group):
        self.groups.append([request.changed for request in group])
        return False


def test_alike_rows_share_a_program_and_leave_the_records_of_rows_alone(tmp_path):
    asked = Asked()
    outcomes = run_together(rates(), tmp_path, make_progress=asked)
    assert asked.groups == [[{"learning_rate": 0.03}, {"learning_rate": 0.02}]]
    for request, outcome in zip(rates(), outcomes, strict=True):
        alone = run_row(request, tmp_path / "alone", progress=False)
        assert outcome.request == request
        assert untimed(outcome.record) == untimed(alone)
        here, there = (request.folder(runs) for runs in (tmp_path, tmp_path / "alone"))
        for mine, theirs in (
            (here.read_curves(), there.read_curves()),
            (here.read_inspect(), there.read_inspect()),
        ):
            assert mine.keys() == theirs.keys()
            assert all(np.array_equal(mine[name], theirs[name], equal_nan=True) for name in theirs)
    assert not list(tmp_path.rglob("together-*"))


def test_what_is_finished_is_not_run_again_and_others_run_in_groups(tmp_path):
    first, second = rates()
    done = run_row(first, tmp_path, progress=False)
    asked = Asked()
    other = tiny(IDS[0], "learning_rate=0.05", num_seeds=2)
    longer = tiny(IDS[0], "steps=9", num_seeds=2)
    outcomes = run_together([first, second, other, longer], tmp_path, make_progress=asked)
    assert outcomes[0].record == done
    assert [len(group) for group in asked.groups] == [1, 2, 1]  # the first only says it is done
    assert all(outcome.record is not None for outcome in outcomes)


def test_a_row_that_fails_spares_the_others_and_says_why(tmp_path):
    good, bad = (
        tiny(IDS[0], rate, "steps=40", "eval_every=20")
        for rate in ("learning_rate=0.01", "learning_rate=1e38")
    )
    unmade = tiny(IDS[0], "batch_size=999")
    ended = []
    outcomes = run_together(
        [good, bad, unmade], tmp_path, make_progress=silent, on_end=ended.append
    )
    assert [outcome.record is not None for outcome in outcomes] == [True, False, False]
    assert "not finite at step" in outcomes[1].error
    assert "`batch_size` is per environment" in outcomes[2].error
    assert sorted(outcome.request.row.id for outcome in ended) == [IDS[0]] * 3
    for request in (bad, unmade):
        record = request.folder(tmp_path).read()
        assert record is not None
        assert record.status == "failed"


def test_a_row_that_another_process_finishes_meanwhile_is_not_run_again(tmp_path):
    first, second = rates()
    done = []

    def finish_first(request, who):
        """What another process does while this one waits for its folder."""
        claims.close()
        done.append(run_row(first, tmp_path, progress=False))

    asked = Asked()
    with contextlib.ExitStack() as claims:
        claims.enter_context(first.folder(tmp_path).claim())
        outcomes = run_together(
            [first, second], tmp_path, make_progress=asked, on_wait=finish_first
        )
    assert outcomes[0].record == done[0]
    assert [len(group) for group in asked.groups] == [1]
    assert outcomes[1].record is not None


class PressCtrlC(SilentProgress):
    def report(self, step, metrics):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupted_group_resumes(tmp_path):
    with pytest.raises(Interrupted):
        run_together(
            rates("steps=4", "eval_every=2"), tmp_path, make_progress=lambda _: PressCtrlC()
        )
    for request in rates("steps=4", "eval_every=2"):
        record = request.folder(tmp_path).read()
        assert record is not None
        assert record.status == "interrupted"
    [joint] = tmp_path.rglob("together-*")
    assert [path.name for path in joint.iterdir() if path.is_dir()] == ["2"]
    resumed = run_together(rates("steps=4", "eval_every=2"), tmp_path, make_progress=silent)
    whole = run_together(rates("steps=4", "eval_every=2"), tmp_path / "new", make_progress=silent)
    assert [one.record.final for one in resumed] == [one.record.final for one in whole]
