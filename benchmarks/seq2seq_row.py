"""A whole row of meta seq2seq, as a user waits for it; on an accelerator only.

Five seeds with their validations, the final test, and compilation from nothing. Where
`RECOMBINE_BENCHMARK_RUNS` names a folder, the run stays there; otherwise it is thrown away.
"""

import os
import subprocess
import sys
import tempfile

import jax
from _measure import seconds

from recombine.results import Record, read_records

ROW = "scan/add-jump/permutation/meta"


def measure() -> list[dict]:
    if jax.default_backend() == "cpu":
        return []
    with tempfile.TemporaryDirectory() as folder:
        runs = os.environ.get("RECOMBINE_BENCHMARK_RUNS", f"{folder}/runs")
        if _records(runs):
            raise SystemExit(f"{runs} has a run of {ROW} already; name a folder without one")
        taken = _time_run(runs, cache=f"{folder}/cache")
        (record,) = _records(runs)
    return describe(taken, record)


def _records(runs: str) -> list[Record]:
    return [record for _, record in read_records(runs) if record.row == ROW]


def _time_run(runs: str, *, cache: str) -> float:
    """Returns the time of a process of its own, with nothing compiled before."""
    command = [sys.executable, "-m", "recombine", "run", ROW, "--runs", runs]
    environment = {**os.environ, "RECOMBINE_CACHE": cache}
    return seconds(
        lambda: subprocess.run(command, check=True, capture_output=True, env=environment)
    )


def describe(taken: float, record: Record) -> list[dict]:
    """Returns two lines: all that a user waits for, and an episode without compilation."""
    episode = record.seconds["run"] / record.steps
    return [
        {
            "name": f"{ROW}, {len(record.seeds)} seeds, all of it",
            "seconds": taken,
            "against": "two minutes",
            "against_seconds": 120.0,
            "ratio": taken / 120.0,
            "target": "at most 1, aim 0.5",
        },
        {
            "name": f"{ROW}, an episode of {len(record.seeds)} seeds, compiled",
            "seconds": episode,
            "against": "a plain scan, 5 seeds",
            "against_seconds": 0.018,
            "ratio": episode / 0.018,
            "target": "at most 1",
        },
    ]
