"""What processes are given, what they are asked, and what cannot be asked of them."""

import json
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import jax
import pytest

from recombine import training
from recombine.cli import main
from recombine.engines import (
    ProcessSettings,
    RunFailedError,
    RunRequest,
    _processes,
    run_in_processes,
    run_on_ray,
    run_together,
)
from recombine.engines._orders import Order
from recombine.engines._process_sweep import ProcessSweep
from recombine.engines._process_worker import advised, check_backend, read_commands
from recombine.engines._processes import backend_of_workers, share_of_machine
from recombine.engines._sweep_rows import SweepRow, run_all
from recombine.engines._sweep_view import SilentView
from recombine.engines._sweeps import Answer, Sweep, answer_of
from recombine.experiments import find_row, load_systems
from recombine.training import SilentProgress, StopRequest

PLUGIN = Path(__file__).with_name("growing_plugin.py")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers": 0}, "`workers` is a whole number, at least 1; got 0"),
        ({"seeds_per_task": 0}, "`seeds_per_task` is a whole number, at least 1; got 0"),
        ({"retries": -1}, "`retries` is a whole number, at least 0; got -1"),
        ({"workers": 1.5}, "`workers` is a whole number, at least 1; got 1.5"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(ValueError, match=message):
        ProcessSettings(**settings)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["--workers", "2"], "`--workers` is for several processes; add `--engine processes`"),
        (["--engine", "ray", "--workers", "2"], "`--workers` is for several processes"),
        (["--engine", "processes", "--cpus-per-task", "2"], "`--cpus-per-task` is for clusters"),
        (["--seeds-per-task", "2"], "add `--engine ray` or `--engine processes`"),
        (["--engine", "processes", "--workers", "0"], "--workers"),
        (["--engine", "processes", "--together"], "leave one of them out"),
    ],
)
def test_the_command_explains_and_exits_with_2(command, message, tmp_path, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["run", "ilc/synthetic/and-mask", *command, "--runs", str(tmp_path)])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir()), "bad usage must leave nothing behind"


def test_a_search_is_shared_by_processes_in_another_way(tmp_path, capsys):
    search = ["tune", "ilc/synthetic/and-mask", "--trials", "2", "--engine", "processes"]
    with pytest.raises(SystemExit) as stopped:
        main([*search, "--runs", str(tmp_path)])
    assert stopped.value.code == 2
    assert "give the command of a search several times" in capsys.readouterr().err


def test_workers_share_the_cores_and_the_memory_of_a_gpu(monkeypatch):
    monkeypatch.setattr(_processes, "num_cores", lambda: 8)
    assert share_of_machine("cpu", 2, {}) == {"NPROC": "4", "JAX_PLATFORMS": "cpu"}
    assert share_of_machine("cpu", 8, {})["NPROC"] == "2"  # fewer would give other bits
    assert share_of_machine("gpu", 3, {}) == {
        "NPROC": "3",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.3",
    }
    assert share_of_machine("gpu", 1, {}) == {"NPROC": "8"}
    for name in ("XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_CLIENT_MEM_FRACTION"):
        mine = {name: "0.5", "NPROC": "2"}
        assert share_of_machine("gpu", 3, mine) == mine, "who says so himself is not overruled"


@pytest.mark.parametrize(("per_task", "threads"), [(None, "16"), (2, "32")])
def test_cores_are_for_as_many_workers_as_there_are_parts(monkeypatch, tmp_path, per_task, threads):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.delenv("NPROC", raising=False)
    monkeypatch.setattr(_processes, "num_cores", lambda: 32)
    given = []
    monkeypatch.setattr(_processes, "run_all", lambda rows, sweep, *_: given.append(sweep))
    settings = ProcessSettings(seeds_per_task=per_task)
    run_in_processes([growing()], tmp_path, settings=settings, progress=False)
    assert given[0]._environment["NPROC"] == threads


def test_another_process_is_asked_what_jax_runs_on(monkeypatch):
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    assert backend_of_workers() == jax.default_backend()
    monkeypatch.setattr(_processes, "PYTHON", (sys.executable, "-c", "raise SystemExit('why')"))
    with pytest.raises(RunFailedError, match="JAX cannot be started in a process of its own: why"):
        backend_of_workers()


def test_a_worker_that_does_not_get_the_gpu_refuses():
    check_backend(jax.default_backend())
    with pytest.raises(RunFailedError, match=r"was to run on the moon, .*Try fewer `--workers`"):
        check_backend("moon")


def test_who_runs_out_of_memory_hears_what_helps():
    def work(error):
        raise error

    failed = answer_of(lambda: work(MemoryError("RESOURCE_EXHAUSTED: 2.27 GiB")))
    full = advised(failed, "gpu")
    assert full.text.startswith("MemoryError: RESOURCE_EXHAUSTED: 2.27 GiB; worker processes")
    assert full.text.endswith("try fewer `--workers`")
    other = answer_of(lambda: work(ValueError("no")))
    assert advised(other, "gpu") == other
    assert advised(failed, "cpu") == failed
    assert advised(Answer("done", 1), "gpu") == Answer("done", 1)


def test_the_same_warning_of_several_workers_is_given_once(recwarn):
    sweep = ProcessSweep(2, "cpu", {}, SilentView(), StopRequest(), 0)
    for text in ("the cache is full", "the cache is full", "it is late"):
        sweep._warn(text)
    assert [str(warning.message) for warning in recwarn] == ["the cache is full", "it is late"]


def test_commands_are_read_in_whole_lines(monkeypatch):
    pieces = iter([b'{"a": ', b'1}\n"st', b'op"\n"go"\n', b""])
    monkeypatch.setattr("os.read", lambda source, number: next(pieces))
    assert list(read_commands(0)) == [{"a": 1}, "stop", "go"]


class SweepHere(Sweep):
    """A sweep that does its jobs one after the other in this process."""

    def __init__(self, retries=0):
        super().__init__(SilentView(), StopRequest(), retries)
        self.jobs, self.done = [], []

    def submit(self, jobs, *, first=False):
        for job in jobs:
            self.rows[job.row].jobs[job.id] = {}
            self.jobs.append(job)

    def open_jobs(self):
        return self.jobs

    def _call_off(self, jobs):
        raise AssertionError("nobody is to be stopped")

    def answer(self, job):
        return answer_of(lambda: job.function(*job.arguments, progress=SilentProgress()))

    def run(self):
        while self.jobs:
            job = self.jobs.pop(0)
            self.done.append(job.function.__name__)
            self.end(job, self.answer(job))


def growing(num_seeds=2):
    row = find_row("growing/numbers/slowly", load_systems([str(PLUGIN)]))
    return RunRequest.of(row, "tiny", num_seeds=num_seeds)


def sweep_growing(sweep, runs, held, num_seeds=2):
    one = SweepRow(growing(num_seeds), runs, [str(PLUGIN)], lambda _: None, 30.0)
    run_all([one], sweep, "ask", held)
    return one.outcome


@pytest.mark.parametrize(
    ("shared", "tasks"),
    [(True, ["run_whole"]), (False, ["run_one_part", "run_one_part", "join"])],
)
def test_seeds_that_share_a_program_stay_together(monkeypatch, tmp_path, shared, tasks):
    monkeypatch.setattr(training, "seeds_share_a_program", lambda learner: shared)
    sweep = SweepHere()
    with ExitStack() as held:
        outcome = sweep_growing(sweep, tmp_path, held)
    assert outcome.record.is_done
    assert sweep.done == ["share_a_program", *tasks]


def test_a_task_whose_worker_always_dies_is_given_up(tmp_path):
    class Deadly(SweepHere):
        def answer(self, job):
            return Answer("died", text="SIGKILL")

    sweep = Deadly(retries=2)
    with ExitStack() as held:
        outcome = sweep_growing(sweep, tmp_path, held, num_seeds=1)
    assert outcome.record is None
    assert "its worker died 3 times, the last time with SIGKILL" in outcome.error
    assert sweep.done == ["run_whole"] * 3


def test_nothing_piles_up_while_another_process_holds_a_row(tmp_path):
    class Counting(ExitStack):
        entered = 0

        def enter_context(self, cm):
            self.entered += 1
            return super().enter_context(cm)

    row = SweepRow(growing(), tmp_path, [str(PLUGIN)], lambda _: None, 30.0)
    with Counting() as held:
        with row.folder.claim():
            for _ in range(3):
                assert list(row.start(SweepHere(), 1, held)) == []
        assert row.holder
        assert held.entered == 0
        assert len(list(row.start(SweepHere(), 1, held))) == 2
        assert row.folder.is_held()
    assert not row.folder.is_held()


@pytest.mark.parametrize("run", [run_in_processes, run_on_ray, run_together])
def test_the_same_run_twice_is_refused(run, tmp_path):
    with pytest.raises(ValueError, match=r"growing/numbers/slowly/tiny-\w+ is asked for twice"):
        run([growing(), growing(3), growing()], tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_request_that_workers_could_not_make_again_is_refused():
    request = growing()
    longer = replace(request, variant=replace(request.variant, steps=9))
    with pytest.raises(ValueError, match=r"make the request by RunRequest.of\(changes=...\)"):
        Order.of(longer, [str(PLUGIN)])
    order = replace(Order.of(request, [str(PLUGIN)]), folder="of another version")
    with pytest.raises(RunFailedError, match="the same version of recombine, and of plugins"):
        order.request()


def test_an_order_survives_json():
    request = RunRequest.of(find_row("ilc/synthetic/and-mask"), "tiny", changes=["steps=4"])
    order = Order.of(request, [str(PLUGIN)])
    assert Order.from_json(json.loads(json.dumps(order.to_json()))) == order
    assert order.request() == request
