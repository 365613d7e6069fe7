"""Rows in real processes of this machine: with the records of one, and through deaths and stops."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from same_runs import assert_same_runs, without_times

from recombine.cli import main
from recombine.engines import (
    ProcessSettings,
    RunRequest,
    SweepStoppedError,
    run_in_processes,
    run_row,
)
from recombine.engines._parts import part_folder
from recombine.experiments import find_row, load_systems
from recombine.training import Interrupted, SilentProgress

pytestmark = pytest.mark.usefixtures("quick_compilation")

PLUGIN = Path(__file__).with_name("growing_plugin.py")
LONG = ("steps=800", "eval_every=1")  # a few seconds, in which much can happen


def tiny(*changes, num_seeds=2):
    row = find_row("ilc/synthetic/and-mask")
    return RunRequest.of(row, "tiny", num_seeds=num_seeds, changes=changes)


def growing(num_seeds):
    row = find_row("growing/numbers/slowly", load_systems([str(PLUGIN)]))
    return RunRequest.of(row, "tiny", num_seeds=num_seeds)


@pytest.fixture(autouse=True)
def _workers_as_this_process(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")  # as `quick_compilation` here


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The long run in this process, for comparison."""
    runs = tmp_path_factory.mktemp("local")
    run_row(tiny(*LONG), runs, progress=False)
    return runs


def wait_for(condition, seconds=90):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.02)


def holder_of(folder):
    """The process that works on a run, or `None`."""
    try:
        return json.loads((folder.path / ".holder.json").read_text())["pid"]
    except (OSError, ValueError):
        return None


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_worker_that_is_killed_is_started_again_and_leaves_the_same_record(
    local, tmp_path, capfd
):
    request = tiny(*LONG)
    part = part_folder(request.folder(tmp_path), (1,))

    def kill():  # not when the other seed has a checkpoint too: this one may have ended by then
        wait_for(lambda: list(part.checkpoints.glob("[0-9]*/notes")))
        os.kill(holder_of(part), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    settings = ProcessSettings(workers=2)
    (outcome,) = run_in_processes([request], tmp_path, settings=settings, checkpoint_seconds=0.2)
    killer.join()
    said = capfd.readouterr().err
    assert "seed 1: its worker on this machine died (SIGKILL); started again" in said
    assert "from its last checkpoint, 1 of 5 times" in said
    assert "steps  test_accuracy" in said, "the progress of both is in one view"
    kept = request.folder(local).read()
    assert kept is not None
    assert outcome.error == ""
    assert without_times(outcome.record) == without_times(kept)
    assert_same_runs(request, tmp_path, local)


def test_ctrl_c_leaves_what_is_finished_and_one_process_resumes_the_rest(local, tmp_path):
    request = tiny(*LONG)
    folder = request.folder(tmp_path)
    first, second = (part_folder(folder, (seed,)) for seed in (0, 1))

    def press():
        wait_for(lambda: second.read() is not None)  # with one worker, the first seed is done
        os.kill(os.getpid(), signal.SIGINT)

    finger = threading.Thread(target=press)
    finger.start()
    with pytest.raises(SweepStoppedError, match="0 of 1 rows are done, the same command resumes"):
        run_in_processes([request], tmp_path, settings=ProcessSettings(workers=1), progress=False)
    finger.join()
    statuses = [found and found.status for found in (first.read(), second.read(), folder.read())]
    assert statuses == ["done", "interrupted", "interrupted"]
    assert list(second.checkpoints.glob("[0-9]*")), "it was saved before it stopped"
    assert not folder.is_held()
    run_row(request, tmp_path, progress=False)
    assert_same_runs(request, tmp_path, local)


def test_what_one_process_has_begun_is_continued_by_one_task(tmp_path, capfd):
    class PressSoon(SilentProgress):
        def report(self, step, metrics):
            if step == 4:
                signal.raise_signal(signal.SIGINT)

    request = growing(2)
    with pytest.raises(Interrupted):
        run_row(request, tmp_path / "runs", progress=PressSoon())
    run_in_processes([request], tmp_path / "runs", plugins=[str(PLUGIN)])
    assert "begun by one process, so one task goes on with all seeds" in capfd.readouterr().err
    run_row(request, tmp_path / "local", progress=False)
    assert_same_runs(request, tmp_path / "runs", tmp_path / "local")


def test_a_row_that_fails_leaves_the_others_alone_and_plugins_are_loaded(tmp_path, capsys):
    plugin, runs = os.path.relpath(PLUGIN), tmp_path / "runs"
    command = ["run", "growing", "--quick", "--plugin", plugin, "--json", "--engine", "processes"]
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--workers", "2", "--runs", str(runs)])
    said = capsys.readouterr()
    assert stopped.value.code == 1, said.err
    assert "1 of 2 rows failed: growing/numbers/beyond-all-bounds" in said.err
    assert "growing/numbers/slowly: size" in said.err
    assert said.err.count("was not finite at step") == 1
    assert "died" not in said.err
    lines = {line["id"]: line for line in json.loads(said.out)}
    assert lines["growing/numbers/slowly"]["ours"]["n"] == 2
    assert lines["growing/numbers/beyond-all-bounds"]["verdict"] == "failed"
    request = RunRequest.of(growing(2).row, "quick")
    run_row(request, tmp_path / "local", progress=False)
    assert_same_runs(request, runs, tmp_path / "local")
    before = request.folder(runs).read()
    (again,) = run_in_processes([request], runs)  # without the plugin: nothing is started
    assert again.record == before, "what is done is not run again"


def test_what_another_process_is_running_is_left_for_last(tmp_path, capfd):
    requests, ended = [growing(1), growing(2)], []

    def work():
        run_in_processes(
            requests,
            tmp_path,
            settings=ProcessSettings(seeds_per_task=2),
            plugins=[str(PLUGIN)],
            on_end=lambda outcome: ended.append(outcome.request),
        )

    worker = threading.Thread(target=work)
    with requests[0].folder(tmp_path).claim():
        worker.start()
        wait_for(lambda: ended)
        wait_for(lambda: "waiting for process" in capfd.readouterr().err)
    worker.join()
    assert ended == [requests[1], requests[0]]
    assert all(request.folder(tmp_path).read().is_done for request in requests)


@pytest.mark.slow
def test_the_command_stops_at_ctrl_c_dies_without_orphans_and_resumes(tmp_path):
    command = [sys.executable, "-m", "recombine", "run", "ilc/synthetic/and-mask", "--quick"]
    command += ["--seeds", "2", "--set", "steps=60", "--set", "eval_every=1"]
    command += ["--engine", "processes", "--workers", "2", "--runs", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}

    def start():
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)

    def workers():
        files = tmp_path.glob("ilc/*/*/*/parts/*/.holder.json")
        return [json.loads(file.read_text())["pid"] for file in files]

    first = start()
    wait_for(lambda: len(list(tmp_path.glob("ilc/*/*/*/parts/*/part.json"))) == 2)
    first.send_signal(signal.SIGINT)
    said = first.communicate(timeout=180)[1]
    assert first.returncode == 130, said
    assert "0 of 1 rows are done, the same command resumes the rest" in said
    assert workers() == []
    second = start()
    wait_for(lambda: len(workers()) == 2)
    pids = workers()
    second.kill()
    second.communicate()
    wait_for(lambda: not any(is_alive(pid) for pid in pids), seconds=20)
    third = start()
    said = third.communicate(timeout=300)[1]
    assert third.returncode == 0, said
    assert "test accuracy" in said
