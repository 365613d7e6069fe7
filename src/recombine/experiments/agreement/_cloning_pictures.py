"""What the cloning rows draw."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from recombine.experiments.agreement._pictures import COLORS

SHOWN = 5.0  # trials that do worse than so many times the best are drawn at the edge


def draw_trials(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws the losses of all trials, sorted by the lowest on the test states.

    Those that diverged are crossed.
    """
    test, train = arrays["trial_lowest_test_kl"], arrays["trial_last_train_kl"]
    order = np.argsort(test)
    rank = np.arange(len(test)) + 1
    most = SHOWN * float(test.min())
    axes.plot(rank, np.minimum(train[order], most), "o", color=COLORS[1], fillstyle="none",
              markersize=3)  # fmt: skip
    axes.plot(rank, np.minimum(test[order], most), "o", color=COLORS[0], markersize=3)
    broken = arrays["trial_diverged"][order].astype(bool)
    axes.plot(rank[broken], np.minimum(test[order][broken], most), "x", color="black", markersize=5)
    axes.set_ylim(0, 1.02 * most)
    axes.set_xlabel(f"{len(test)} trials, sorted")
    axes.set_title("lowest test KL full, training hollow", fontsize=7.5)
    axes.text(
        *(0.02, 0.98, _describe(arrays, int(order[0]))),
        fontsize=6,
        va="top",
        transform=axes.transAxes,
    )


def draw_levels(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws states of some levels, a level in a row."""
    axes.imshow(arrays["states"], interpolation="none")
    axes.set_axis_off()


def _describe(arrays: Mapping[str, np.ndarray], trial: int) -> str:
    """Says the settings of one trial."""
    number = {
        name: f"{float(arrays[f'trial_{name}'][trial]):.2g}"
        for name in ("learning_rate", "b1", "weight_decay", "b3", "threshold")
        if f"trial_{name}" in arrays
    }
    return "best:\n" + "\n".join(f"{name} {value}" for name, value in number.items())
