# pyright: reportMissingImports=false
"""One meta seq2seq episode: against a straightforward PyTorch version of the same network.

PyTorch is not a dependency: without it our times stand alone.
"""

import importlib.util

import jax
from _measure import side_by_side

from recombine.experiments import find_row
from recombine.training._seeds import Compiler, TakeTurns, Together

ROW = "scan/add-jump/permutation/meta"


def measure() -> list[dict]:
    on_cpu = jax.default_backend() == "cpu"
    episodes = 4 if on_cpu else 50
    calls, lines = {}, []
    for num_seeds in (1,) if on_cpu else (1, 5):
        calls[f"ours, {num_seeds}"] = _ours(num_seeds, episodes)
    if importlib.util.find_spec("torch"):
        import torch_seq2seq

        calls["torch"] = torch_seq2seq.make_trainer(episodes)
    times = {name: taken / episodes for name, taken in side_by_side(calls, rounds=3).items()}
    for name, taken in times.items():
        if name == "torch":
            continue
        seeds = int(name.split()[-1])
        against = times.get("torch", taken)
        lines.append(
            {
                "name": f"meta seq2seq episode, {seeds} {'seed' if seeds == 1 else 'seeds'}",
                "seconds": taken,
                "against": (
                    f"PyTorch, {seeds} times one seed" if "torch" in times else "nothing: no torch"
                ),
                "against_seconds": against * seeds if "torch" in times else taken,
                "ratio": taken / (against * seeds) if "torch" in times else 1.0,
                "target": "at most 1 on a CPU" if on_cpu else "",
            }
        )
    return lines


def _ours(num_seeds: int, episodes: int):
    row = find_row(ROW)
    learner = row.make_learner(row.full.config, row.full.steps)
    runner_kind = TakeTurns if jax.default_backend() == "cpu" else Together
    runner = runner_kind(learner, tuple(range(num_seeds)), Compiler(lambda now: None))
    state = runner.init()
    return lambda: runner.advance(state, 0, episodes, lambda: None)
