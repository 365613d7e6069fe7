"""What cannot be done on a cluster is said at once, before anything is begun."""

import socket
import sys
import threading

import numpy as np
import pytest

from recombine.cli import main
from recombine.engines import ClusterError, RaySettings, RunRequest, run_on_ray
from recombine.engines._ray_board import Board, TaskProgress
from recombine.engines._ray_checks import check_answer
from recombine.engines._sweep_view import PlainView, RowState, TerminalView
from recombine.engines._worker_environment import worker_environment
from recombine.experiments import find_row

REQUEST = RunRequest.of(find_row("ilc/synthetic/and-mask"), "tiny")


def test_without_ray_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ClusterError, match=r"pip install 'recombine\[ray\]'"):
        run_on_ray([REQUEST], tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("127.0.0.1:1", "no Ray cluster can be reached at `--address` 127.0.0.1:1"),
        ("10.0.0.1", "is written host:port"),
        ("ray://10.0.0.1:10001", "run the command on a node of the cluster"),
    ],
)
def test_an_address_where_nobody_is(address, message):
    with pytest.raises(ClusterError, match=message):
        check_answer(address)


def test_an_address_where_somebody_else_is():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
            with server.accept()[0] as visitor:
                visitor.recv(100)
                visitor.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        other = threading.Thread(target=answer)
        other.start()
        with pytest.raises(ClusterError, match="is not Ray"):
            check_answer(f"127.0.0.1:{server.getsockname()[1]}")
        other.join()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"gpus_per_task": -1}, "`gpus_per_task`"),
        ({"gpus_per_task": 1.5}, "fraction of one GPU; got 1.5"),
        ({"cpus_per_task": 0}, "`cpus_per_task` must be above 0"),
        ({"seeds_per_task": 0}, "`seeds_per_task` is a whole number, at least 1"),
    ],
)
def test_settings_that_make_no_sense(settings, message):
    with pytest.raises(ClusterError, match=message):
        RaySettings(**settings)


def test_gpus_without_jax_on_them(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    with pytest.raises(ClusterError, match="JAX_PLATFORMS=cpu"):
        RaySettings(gpus_per_task=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpus-per-task", "1"], "`--gpus-per-task` is for clusters; add `--engine ray`"),
        (["--engine", "ray", "--address", "127.0.0.1:1"], "no Ray cluster can be reached"),
        (["--engine", "ray", "--cpus-per-task", "-1"], "`cpus_per_task` must be above 0"),
        (["--engine", "moon"], "--engine"),
    ],
)
def test_the_command_explains_and_exits_with_2(options, message, tmp_path, capsys):
    pytest.importorskip("ray", reason="Ray is not installed")
    with pytest.raises(SystemExit) as stopped:
        main(["run", "ilc/synthetic/and-mask", *options, "--runs", str(tmp_path)])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir()), "bad usage must leave nothing behind"


def test_workers_know_what_this_process_knows(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    given = {"RECOMBINE_CACHE": "cache", "XLA_FLAGS": "--a", "PYTHONPATH": "src", "HOME": "/root"}
    assert worker_environment(0, 1, given) == {
        "RECOMBINE_CACHE": str(tmp_path / "cache"),
        "XLA_FLAGS": "--a",
        "PYTHONPATH": str(tmp_path / "src"),
        "NPROC": "2",  # fewer threads than two would give other bits
        "JAX_PLATFORMS": "cpu",
    }
    assert worker_environment(1, 8, {"JAX_PLATFORMS": "cuda"}) == {
        "JAX_PLATFORMS": "cuda",
        "NPROC": "8",
    }


class BoardAtHand:
    """A board without a cluster."""

    def __init__(self):
        self.board = Board()
        self.tell = self

    def remote(self, job, news):
        return self.board.tell(job, dict(news))


def test_a_task_tells_where_it_is(monkeypatch):
    monkeypatch.setattr(TaskProgress, "_hear", lambda self: None)
    hand = BoardAtHand()
    with TaskProgress(hand, "a", "accuracy") as progress:
        progress.start(steps=10, seeds=[0, 1])
        progress.resumed(4)
        progress.advance(2)
        progress.report(6, {"loss": np.zeros(2), "accuracy": np.array([0.5, 1.0])})
    news = hand.board.read()["a"]
    assert (news["done"], news["shown"]) == (12, ("accuracy", 0.75))
    assert hand.board.read() == {}
    hand.board.stop(["a"])
    assert hand.board.tell("a", {})
    assert not hand.board.tell("b", {})


@pytest.mark.parametrize("view", [PlainView(every_seconds=0), TerminalView()])
def test_all_tasks_are_in_one_view(view, capsys):
    rows = {"a": RowState("row/a", 20), "b": RowState("row/b", 10, is_over=True)}
    rows["a"].jobs["0"] = {"host": "node", "done": 5, "shown": ("accuracy", 0.5)}
    rows["a"].jobs["1"] = {"host": "node", "done": 10, "shown": ("accuracy", 1.0)}
    assert rows["a"].done == 15
    with view:
        view.show(rows, 2)
        view.say("a worker died")
        rows["a"].jobs["1"]["compiling"] = True
        view.show(rows, 2)
    assert rows["a"].describe() == "accuracy 0.75  compiling"
