"""A study from ask to record: resumed, shared, stopped, damaged."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from recombine.results import RecordWarning, RunFolder, read_records, read_study, studied_row
from recombine.training import Interrupted
from recombine.tuning import (
    StorageError,
    StorageWarning,
    StudyError,
    TrialOutcome,
    run_study,
    run_trials,
)
from recombine.tuning._samplers import grid_point
from recombine.tuning._study import Study

pytest.importorskip("optuna", reason="searches need the extra [tune]")


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """This module compiles much and computes little."""


def settings_of(result):
    return [trial.settings for trial in result.table.trials]


class Counting:
    """Answers at once, by the rate, and notes what was asked."""

    def __init__(self, interrupt_at=None):
        self.batches = []
        self.interrupt_at = interrupt_at

    def __call__(self, batch, *, watch=None, progress=False):
        self.batches.append(len(batch.changes))
        if sum(self.batches) == self.interrupt_at:
            raise KeyboardInterrupt
        outcomes = []
        for place, changes in enumerate(batch.changes):
            rate = float(dict(text.split("=") for text in changes)["rate"])
            state = "complete"
            for step in (2, 4):
                if watch and watch(place, step, rate):
                    state = "pruned"
            value = rate if state == "complete" else None
            outcomes.append(TrialOutcome(state, value, {"error": (rate,)}, seconds=1.0))
        return outcomes


def test_a_search_leaves_a_record_and_a_table(make_request, tmp_path):
    result = run_study(make_request(trials=6, batch=4), tmp_path)
    [(folder, record)] = read_records(tmp_path)
    assert result.is_done
    assert folder.path == result.folder.path
    assert record == result.record
    assert studied_row(record) == "toy/walk"
    assert record.config["trials"] == 6
    assert record.config["batch"] == 4
    assert record.config["search"]["sampler"] == "random"
    assert record.config["search"]["space"]["rate"]["kind"] == "LogUniform"
    table = read_study(folder)
    assert table is not None
    assert table == result.table
    assert [trial.state for trial in table.trials] == ["complete"] * 6
    best = table.best
    assert best is not None
    assert best.value == min(trial.value for trial in table.trials)  # errors are minimized
    assert record.changed["rate"] == best.settings["rate"]
    assert record.values("best_value").tolist() == [best.value]
    assert record.values("error").tolist() == pytest.approx([best.value])
    assert set(table.importances) == {"rate", "target"}
    assert sum(table.importances.values()) == pytest.approx(1.0)
    assert record.provenance.versions["optuna"]
    assert not (folder.path / "workers").exists() or not any((folder.path / "workers").iterdir())


def test_the_same_request_goes_on_to_the_trials_asked_for(make_request, tmp_path):
    first = run_study(make_request(trials=3), tmp_path, run=Counting())
    counting = Counting()
    more = run_study(make_request(trials=5, batch=8), tmp_path, run=counting)
    assert counting.batches == [2]
    assert settings_of(more)[:3] == settings_of(first)
    again = Counting()
    run_study(make_request(trials=5), tmp_path, run=again)
    assert again.batches == []


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_an_interrupted_search_tries_what_it_would_have_tried(make_request, tmp_path, sampler):
    request = make_request(trials=5, sampler=sampler)
    whole = run_study(request, tmp_path / "a", run=Counting())
    with pytest.raises(KeyboardInterrupt):
        run_study(request, tmp_path / "b", run=Counting(interrupt_at=3))
    [(_, record)] = read_records(tmp_path / "b")
    assert record.status == "interrupted"
    assert record.final["finished_trials"] == (2.0,)
    resumed = run_study(request, tmp_path / "b", run=Counting())
    assert settings_of(resumed) == settings_of(whole)
    assert resumed.is_done


def test_ctrl_c_between_trials_keeps_what_is_finished(make_request, tmp_path):
    calls = Counting()

    def run(batch, **settings):
        if len(calls.batches) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return calls(batch, **settings)

    result = run_study(make_request(trials=9), tmp_path, run=run)
    assert len(result.table.trials) == 3
    assert "Ctrl-C after 3 of 9" in (result.record.error or "")


def test_ctrl_c_in_a_trial_puts_it_back(make_request, tmp_path):
    def run(batch, **settings):
        raise Interrupted(step=1, checkpoint=None, history=None, seconds=None)  # type: ignore[arg-type]

    with pytest.raises(Interrupted):
        run_study(make_request(trials=2), tmp_path, run=run)
    assert run_study(make_request(trials=2), tmp_path, run=Counting()).is_done


def test_a_time_limit_begins_no_more_trials(make_request, tmp_path):
    result = run_study(make_request(timeout=0.0), tmp_path, run=Counting())
    assert result.table.trials == ()
    assert "--timeout after 0 of 4" in (result.record.error or "")


def test_what_a_dead_process_left_is_tried_first(make_request, tmp_path):
    request = make_request(trials=3)
    study = Study(request, request.folder(tmp_path))
    with study.joined():
        [left] = study.ask(1)
        with pytest.raises(StudyError, match="refused"):
            raise StudyError("refused")
    # The folder of the process is still there, and nobody holds its lock.
    counting = Counting()
    result = run_study(request, tmp_path, run=counting)
    assert sum(counting.batches) == 3
    assert result.table.trials[0].settings == left.settings
    assert len(result.table.trials) == 3


def test_a_trial_that_never_got_a_worker_is_tried_again(make_request, tmp_path):
    request = make_request(trials=3)
    study = Study(request, request.folder(tmp_path))
    with study.joined():
        study._study.ask({})  # as if killed in the middle of asking
    result = run_study(request, tmp_path, run=Counting())
    assert result.is_done
    assert len(result.table.trials) == 3


def test_a_living_process_keeps_its_trials(make_request, tmp_path):
    request = make_request(trials=3)
    study = Study(request, request.folder(tmp_path))
    with study.joined():
        [mine] = study.ask(1)
        result = run_study(request, tmp_path, run=Counting())
        assert not result.is_done
        assert result.record.status == "running"
        assert "other processes" in (result.record.error or "")
        assert result.table.count("running") == 1
        study.tell(mine, TrialOutcome("complete", 0.5, {"error": (0.5,)}))
    assert run_study(request, tmp_path, run=Counting()).is_done


def test_two_workers_in_threads_make_no_more_than_asked(make_request, tmp_path):
    result = run_study(make_request(trials=7, batch=2), tmp_path, run=Counting(), workers=2)
    assert result.is_done
    assert len(result.table.trials) == 7
    assert len({json.dumps(one) for one in settings_of(result)}) == 7


def test_a_grid_visits_every_point_once(make_request, tmp_path):
    request = make_request("grid", trials=50, sampler="grid", batch=3)
    result = run_study(request, tmp_path, run=Counting())
    assert result.is_done
    assert len(result.table.trials) == 8 == request.grid_size()
    points = {json.dumps(one, sort_keys=True) for one in settings_of(result)}
    assert len(points) == 8
    assert {json.dumps(one["sizes"]) for one in settings_of(result)} == {"[1]", "[2, 3]"}
    assert grid_point(request, 0) != grid_point(make_request("grid", sampler_seed=1), 0)


def test_pruning_stops_the_worse_half(make_request, tmp_path):
    request = make_request(trials=12, pruner="median", changes=["target=1"])
    result = run_study(request, tmp_path, run=Counting())
    assert result.table.count("pruned") > 0
    assert result.table.count("complete") + result.table.count("pruned") == 12
    worst = max(t.value for t in result.table.trials if t.state == "complete")
    pruned = [t.value for t in result.table.trials if t.state == "pruned"]
    assert max(pruned) > result.table.best.value
    assert worst >= result.table.best.value


def test_pruning_for_real_skips_steps(make_request, tmp_path):
    result = run_study(make_request(trials=10, pruner="halving"), tmp_path)
    assert result.is_done
    assert result.table.count("pruned") > 0


def test_a_bar_shows_trials_and_the_best(make_request, tmp_path, capsys):
    from recombine.tuning._progress import TerminalStudy

    run_study(make_request(trials=3, batch=2), tmp_path, progress=TerminalStudy("toy"))
    assert "3/3 trials, best" in capsys.readouterr().err


def test_all_trials_may_fail(make_request, tmp_path):
    result = run_study(make_request("shapes", trials=3, changes=["units=13"]), tmp_path)
    assert result.table.count("failed") == 3
    assert result.table.best is None
    assert result.record.final == {}
    assert "bad luck" in result.table.trials[0].error


# Storage.


def journal_of(request, runs) -> Path:
    return request.folder(runs).path / "journal.log"


def test_a_damaged_journal_is_left_as_it_is(make_request, tmp_path):
    request = make_request(trials=2)
    run_study(request, tmp_path, run=Counting())
    journal = journal_of(request, tmp_path)
    lines = journal.read_bytes().split(b"\n")
    lines[3] = lines[3][:7]
    journal.write_bytes(b"\n".join(lines))
    before = journal.read_bytes()
    with pytest.raises(StorageError, match=r"line 4 of the study in .*journal.log is damaged"):
        run_study(make_request(trials=5), tmp_path, run=Counting())
    assert journal.read_bytes() == before
    table = read_study(request.folder(tmp_path))
    assert table is not None
    assert len(table.trials) == 2  # what was found is still there


def test_half_a_line_at_the_end_is_cut_off(make_request, tmp_path):
    request = make_request(trials=2)
    run_study(request, tmp_path, run=Counting())
    with journal_of(request, tmp_path).open("ab") as file:
        file.write(b'{"op_code":4,"wor')
    with pytest.warns(StorageWarning, match="was never finished"):
        result = run_study(make_request(trials=4), tmp_path, run=Counting())
    assert len(result.table.trials) == 4
    assert run_study(make_request(trials=5), tmp_path, run=Counting()).is_done


def test_a_locked_journal_is_named_and_kept(make_request, tmp_path, monkeypatch):
    from filelock import FileLock

    from recombine.tuning import _storage

    request = make_request(trials=2)
    run_study(request, tmp_path, run=Counting())
    monkeypatch.setattr(_storage, "WAIT_SECONDS", 0.05)
    with (
        FileLock(f"{journal_of(request, tmp_path)}.lock"),
        pytest.raises(StorageError, match="is locked: another process"),
    ):
        run_study(make_request(trials=5), tmp_path, run=Counting())
    assert len(run_study(make_request(trials=3), tmp_path, run=Counting()).table.trials) == 3


def test_a_database_works_too_and_a_damaged_one_is_named(make_request, tmp_path):
    place = tmp_path / "study.db"
    url = f"sqlite:///{place}"
    result = run_study(make_request(trials=2, storage=url), tmp_path, run=Counting())
    assert len(result.table.trials) == 2
    assert place.exists()
    assert not journal_of(make_request(), tmp_path).exists()
    place.write_bytes(b"this is no database" * 100)
    with pytest.raises(StorageError, match="cannot be read or written"):
        run_study(make_request(trials=3, storage=url), tmp_path, run=Counting())


def test_a_table_that_cannot_be_read_is_passed_over(tmp_path):
    (tmp_path / "trials.json").write_text("{")
    with pytest.warns(RecordWarning, match="passed over"):
        assert read_study(RunFolder(tmp_path)) is None


def test_without_optuna_the_extra_is_named(make_request, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(StudyError, match=r"pip install 'recombine\[tune\]'"):
        run_study(make_request(), tmp_path, run=Counting())


# Several processes.

SEARCH = """
import sys
from recombine.cli import main
main(["tune", "toy/walk", "--tiny", "--trials", sys.argv[1], "--sampler", "random",
      "--plugin", sys.argv[2], "--runs", sys.argv[3]])
"""


def start(plugin, runs, trials, **settings):
    command = [sys.executable, "-c", SEARCH, str(trials), plugin, str(runs)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **settings)


def test_two_processes_share_a_study(make_request, plugin, tmp_path):
    request = make_request(trials=12)
    other = start(plugin, tmp_path, 12)
    mine = []

    def run(batch, **settings):
        """Waits for the other process to have begun."""
        workers = request.folder(tmp_path).path / "workers"
        while other.poll() is None and len(list(workers.iterdir())) < 2:
            time.sleep(0.05)
        mine.extend(batch.changes)
        return run_trials(batch, **settings)

    run_study(request, tmp_path, run=run)
    _, text = other.communicate(timeout=120)
    assert other.returncode == 0, text.decode()
    [(folder, record)] = read_records(tmp_path)
    table = read_study(folder)
    assert table is not None
    assert record.is_done
    assert len(table.trials) == 12
    assert 0 < len(mine) < 12
    assert len({json.dumps(trial.settings) for trial in table.trials}) == 12
    assert np.isfinite([trial.value for trial in table.trials]).all()


@pytest.mark.slow
def test_a_killed_process_loses_only_what_it_was_doing(make_request, plugin, tmp_path):
    process = start(plugin, tmp_path, 100_000)
    folder = make_request().folder(tmp_path)
    while (
        not (table := (folder.path / "trials.json").exists() and read_study(folder))
        or len(table.trials) < 3
    ):
        assert process.poll() is None
    process.kill()
    process.communicate()
    done = [trial for trial in read_study(folder).trials if trial.state == "complete"]
    result = run_study(make_request(trials=len(done) + 4), tmp_path, run=run_trials)
    assert result.is_done
    assert [t.settings for t in result.table.trials[: len(done)]] == [t.settings for t in done]
