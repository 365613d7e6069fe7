"""Runs that are killed without warning lose time, never numbers."""

import os
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from killable import CHANGES, ROW

from recombine.engines import RunRequest
from recombine.experiments import find_row


@pytest.mark.parametrize("times", [4, pytest.param(22, marks=pytest.mark.slow)])
def test_a_run_killed_many_times_ends_with_the_same_record(tmp_path, times):
    request = RunRequest.of(find_row(ROW), "tiny", changes=CHANGES)
    waiting = random.Random(0)
    trainer = subprocess.Popen(
        [sys.executable, os.path.join(os.path.dirname(__file__), "killable.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",  # every child starts quickly
        },
    )
    assert trainer.stdin
    assert trainer.stdout

    def start(runs):
        trainer.stdin.write(f"{runs}\n")
        trainer.stdin.flush()

    def hear():
        return trainer.stdout.readline().strip()

    start(tmp_path / "whole")
    assert [hear() and "pid", hear(), hear()] == ["pid", "finished", "gone"]

    folder = request.folder(tmp_path / "killed")
    kills = cut_writes = 0
    while kills < times:
        start(tmp_path / "killed")
        pid = hear()
        assert pid.isdecimal(), "the run finished before it was killed often enough"
        time.sleep(waiting.uniform(0, 0.12))
        os.kill(int(pid), signal.SIGKILL)
        kills += 1
        assert hear() == "gone"
        cut_writes += any(folder.checkpoints.glob("*tmp*"))
        record = folder.read()
        assert record is not None
        assert record.status == "running"
        assert not folder.is_held()
    start(tmp_path / "killed")
    assert [hear() and "pid", hear(), hear()] == ["pid", "finished", "gone"]
    trainer.communicate(timeout=30)

    assert cut_writes > 0 or times < 20, "no kill hit a checkpoint write: the test has lost its aim"
    whole, killed = request.folder(tmp_path / "whole"), folder
    first, second = whole.read(), killed.read()
    assert first is not None
    assert second is not None
    assert first.is_done
    assert second.is_done
    assert first.final == second.final
    assert first.config == second.config
    assert first.seeds == second.seeds
    for read in ("read_curves", "read_inspect"):
        ones, others = getattr(whole, read)(), getattr(killed, read)()
        assert ones.keys() == others.keys()
        for name in ones:
            np.testing.assert_array_equal(ones[name], others[name])
