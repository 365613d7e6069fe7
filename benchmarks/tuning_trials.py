"""Trials of a search: a batch as one program, against the same trials one by one.

The settings are drawn at random from the search space of the row, sizes fixed; no Optuna is needed.
Both ways are timed without their compilation, for as many steps as is needed to tell: on an
accelerator a full run, on a CPU a short one.
"""

import jax
import numpy as np
from _measure import seconds

from recombine.experiments import LogUniform, change_settings, find_row
from recombine.training import fit_many, group_alike

ROW = "ilc/synthetic/and-mask"
CPU = {"batches": (4,), "alone": 2, "variant": "quick", "changes": ["steps=60", "eval_every=60"]}
ACCELERATOR = {"batches": (10, 50, 200), "alone": 4, "variant": "full", "changes": []}


def measure() -> list[dict]:
    size = CPU if jax.default_backend() == "cpu" else ACCELERATOR
    row = find_row(ROW)
    variant, _ = change_settings(row.variant(size["variant"]), size["changes"])
    learners = [
        row.make_learner(config, variant.steps)
        for config in draw_configs(row, variant, max(size["batches"]))
    ]
    assert len(group_alike(learners)) == 1
    # Turns are what a search without batches does; an accelerator makes one program of a batch.
    alone = [_run_seconds(variant, [one]) for one in learners[: size["alone"] + 1]][1:]
    one = float(np.median(alone))
    lines = []
    for number in size["batches"]:
        batch = _run_seconds(variant, learners[:number], vectorize=True)
        lines.append(
            {
                "name": f"{number} trials of {variant.steps} steps as one program",
                "seconds": batch,
                "against": f"one by one ({len(alone)} measured, times {number / len(alone):g})",
                "against_seconds": one * number,
                "ratio": batch / (one * number),
                "target": "" if jax.default_backend() == "cpu" else "below 1",
            }
        )
    return lines


def draw_configs(row, variant, number: int) -> list:
    """Draws settings that differ only in numbers."""
    rng = np.random.default_rng(0)
    space = row.search.of("quick").ranges
    drawn = []
    for _ in range(number):
        changes = []
        for name, range_ in space.items():
            if isinstance(range_, LogUniform):
                value = float(np.exp(rng.uniform(np.log(range_.low), np.log(range_.high))))
            elif hasattr(range_, "low"):
                value = float(rng.uniform(range_.low, range_.high))
            else:
                value = range_.values[rng.integers(len(range_.values))]
            changes.append(f"{name}={'null' if value is None else value}")
        drawn.append(change_settings(variant, changes)[0].config)
    return drawn


def _run_seconds(variant, learners: list, *, vectorize: bool | None = None) -> float:
    """Returns the wall time of training without compilation, which is timed apart."""
    spent = []

    def run() -> None:
        found = fit_many(
            learners,
            steps=variant.steps,
            eval_every=variant.eval_every,
            progress=False,
            vectorize=vectorize,
        )
        spent.append(sum(one.fit.seconds.compile for one in found))

    return seconds(run) - spent[0]
