"""What a sweep of processes makes of workers that print, die, fall silent or cannot be started."""

import sys
from pathlib import Path
from queue import SimpleQueue

import pytest

from recombine.engines import RunFailedError, RunRequest, _process_links, _process_sweep
from recombine.engines._orders import Order, run_one_part
from recombine.engines._process_links import Link
from recombine.engines._process_sweep import ProcessSweep
from recombine.engines._process_worker import Asker
from recombine.engines._sweep_view import RowState, SilentView
from recombine.engines._sweeps import Answer, Job
from recombine.experiments import find_row
from recombine.training import StopRequest

PRINTING = r"""
print("welcome")
print('{"level": "info"}\\n[1]')
print('{"news": {"done": 3}}')
print('{"answer": ["done", 7, ""]}')
print('{"news": {"do', end="")
"""


class LinkAtHand:
    """A worker that ends when it is told to stop, in one way or another."""

    ending = Answer("stopped")
    free = 9  # so many can still be started

    def __init__(self, task, environment, heard):
        if not LinkAtHand.free:
            raise OSError("no room")
        LinkAtHand.free -= 1
        self.stop = lambda: heard.put((self, None))

    def ended(self):
        return self.ending


@pytest.fixture
def at_hand(monkeypatch):
    monkeypatch.setattr(_process_sweep, "Link", LinkAtHand)
    return lambda **how: [monkeypatch.setattr(LinkAtHand, name, how[name]) for name in how]


class StopsOnce(SilentView):
    """Where a part has failed, the others are told to stop: here as soon as they are at work."""

    def show(self, rows, tasks):
        if tasks == 2:
            self.sweep.stop(self.sweep.open_jobs())


def sweep_of(num_jobs, view, answers):
    """Returns a sweep with two workers and some jobs."""
    sweep = ProcessSweep(2, "cpu", {}, view, StopRequest(), 5)
    order = Order.of(RunRequest.of(find_row("ilc/synthetic/and-mask"), "tiny"), [])

    def on_end(answer):
        answers.append(answer.kind)
        return ()

    sweep.rows["row"] = RowState("row", 1)
    arguments = (order, Path("runs"), 1.0, (0,))
    jobs = [Job("row", str(n), run_one_part, arguments, on_end) for n in range(num_jobs)]
    sweep.submit(jobs)
    return sweep


def test_a_job_told_to_stop_is_not_started_again_when_its_worker_dies(at_hand):
    at_hand(ending=Answer("died", text="SIGKILL"), free=2)
    answers, view = [], StopsOnce()
    view.sweep = sweep_of(3, view, answers)
    view.sweep.run()
    assert answers == ["stopped"] * 3
    assert LinkAtHand.free == 0, "two were at work before"


def test_when_no_process_can_be_started_those_at_work_save(at_hand):
    at_hand(free=1)
    answers = []
    sweep = sweep_of(3, SilentView(), answers)
    with pytest.raises(RunFailedError, match=r"cannot be started \(no room\).* resumes the rest"):
        sweep.run()
    assert answers == ["stopped"] * 3


def test_a_worker_that_cannot_be_started_leaves_nothing_open(monkeypatch, tmp_path):
    monkeypatch.setattr(_process_links, "PYTHON", (str(tmp_path / "no python"),))
    with pytest.raises(FileNotFoundError):
        Link({}, {}, SimpleQueue())


def test_what_is_no_message_is_passed_over(monkeypatch):
    monkeypatch.setattr(_process_links, "PYTHON", (sys.executable, "-c", PRINTING))
    heard = SimpleQueue()
    link = Link({}, {}, heard)
    assert heard.get(timeout=20) == (link, {"news": {"done": 3}})
    assert heard.get(timeout=20) == (link, None)
    assert link.ended() == Answer("done", 7)


def test_what_an_import_prints_does_not_spoil_the_answer(monkeypatch):
    print_first = "import runpy, sys; print('half a line', end='', flush=True)"
    print_first += "; runpy.run_module(sys.argv[-1], run_name='__main__')"
    monkeypatch.setattr(_process_links, "PYTHON", (sys.executable, "-c", print_first))
    heard = SimpleQueue()
    link = Link({"backend": "cpu", "work": "nonsense"}, {}, heard)
    assert heard.get(timeout=60) == (link, None)
    assert link.ended() == Answer("failed", text="KeyError: 'nonsense'")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_answer_that_cannot_be_read_is_the_end_of_a_worker_all_the_same(monkeypatch):
    odd = """print('{"answer": 3}')"""
    monkeypatch.setattr(_process_links, "PYTHON", (sys.executable, "-c", odd))
    heard = SimpleQueue()
    link = Link({}, {}, heard)
    assert heard.get(timeout=20) == (link, None)
    assert link.ended().kind == "died"


def test_a_worker_that_nobody_hears_does_not_fail():
    class Gone:
        def write(self, text):
            pass

        def flush(self):
            raise BrokenPipeError

    commands = iter(SimpleQueue().get, None)  # never comes to an end
    Asker(commands, Gone()).tell(news={"done": 3})


def test_signals_without_a_name_have_a_number():
    assert _process_links._cause(-9, []) == "SIGKILL"
    assert _process_links._cause(-40, []) == "signal 40"
