"""What the synthetic rows draw."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

REACH = 1.1  # of the probed plane, in each direction, where the spirals have radius 1
COLORS = ("#0072b2", "#d55e00")  # of the two classes; told apart by most colour-blind people
LAYERS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
SHADES = 16  # few, so that the image packs well


def draw_boundary(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws the class that the network gives to every point of the spirals' plane.

    Each class has a colour: its spiral is a line, its territory a tint that fades to nothing where
    the network is undecided. Where the mechanism was learned, each line runs in its own tint.
    """
    logits = _finer(_finer(arrays["probe_logits"][..., 0]).T).T
    certainty = np.round(np.tanh(logits / 2) * SHADES) / SHADES  # -1: surely class 0, 1: class 1
    rgb = np.array([[int(color[i : i + 2], 16) for i in (1, 3, 5)] for color in COLORS])
    alpha = 255 * 0.42 * np.abs(certainty)
    tint = np.concatenate([rgb[(logits > 0).astype(int)], alpha[..., None]], axis=-1)
    reach = float(arrays.get("probe_reach", REACH))  # wider where the spirals were normalised
    axes.imshow(
        tint.round().astype(np.uint8),
        origin="lower",
        extent=(-reach, reach, -reach, reach),
        interpolation="none",
    )
    radius = np.linspace(0.08, 1.0, 240)
    for label, color in enumerate(COLORS):
        angle = 2 * np.pi * 3 * radius + np.pi * label
        x, y = radius * np.cos(angle), radius * np.sin(angle)
        axes.plot(x * reach / REACH, y * reach / REACH, color=color, linewidth=1.8)
    axes.set_axis_off()
    axes.set_title("lines: the two classes, tints: what the network sees", fontsize=7.5)


def draw_kept(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws which share of each layer's gradient the mask kept, over training."""
    steps, kept = arrays["kept_steps"], arrays["kept_by_layer"]
    for layer in range(kept.shape[1]):
        color = LAYERS[layer % len(LAYERS)]
        axes.plot(steps, 100 * kept[:, layer], color=color, linewidth=1.2, label=f"{layer + 1}")
    axes.legend(title="layer", frameon=False, fontsize=7, title_fontsize=7)
    axes.set_ylim(0, None)
    axes.set_xlabel("step")
    axes.set_title("% of the gradient that the environments agree on", fontsize=7.5)


def draw_search(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws the accuracies of all trials of a search, sorted by that on the test set."""
    test, train = arrays["trial_test_accuracy"], arrays["trial_train_accuracy"]
    order = np.argsort(test)
    rank = np.arange(len(test)) + 1
    axes.plot(rank, 100 * train[order], "o", color=COLORS[1], fillstyle="none", markersize=3)
    axes.plot(rank, 100 * test[order], "o", color=COLORS[0], markersize=3)
    broken = arrays["trial_diverged"][order].astype(bool)
    axes.plot(rank[broken], 100 * test[order][broken], "x", color="black", markersize=5)
    axes.axhline(50, color="black", alpha=0.3, linewidth=0.6)
    axes.set_ylim(0, 105)
    axes.set_xlabel(f"{len(test)} trials, sorted")
    axes.set_title("accuracy, %: ● test, ○ training, × diverged", fontsize=7.5)
    axes.text(0.02, 0.02, _describe(arrays, int(np.argmax(test))), fontsize=6, va="bottom",
              transform=axes.transAxes)  # fmt: skip


def draw_correlations(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws how the gradient's two ingredients show, from the XOR-mask to the AND-mask.

    One faint line for every network, their mean bold; full: with the gradient of the mechanism
    alone, dashed: with that of the shortcuts alone.
    """
    levels = arrays["levels"]
    for name, style, color in (("mechanism", "-", COLORS[0]), ("shortcut", "--", COLORS[1])):
        curves = arrays[name]
        for curve in curves:
            axes.plot(levels, curve, style, color=color, alpha=0.25, linewidth=0.7)
        known = np.isfinite(curves)
        mean = np.where(known, curves, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        shown = np.where(known.any(axis=0), mean, np.nan)
        axes.plot(levels, shown, style, color=color, linewidth=2.0, label=name)
    axes.axvline(0, color="black", alpha=0.3, linewidth=0.6)
    axes.set_xticks([-1, -0.5, 0, 0.5, 1], ["XOR 1", "0.5", "0", "0.5", "AND 1"])
    axes.legend(frameon=False, fontsize=7)
    axes.set_title("correlation of the masked gradient with one cause", fontsize=7.5)


def _describe(arrays: Mapping[str, np.ndarray], trial: int) -> str:
    """Says the settings of one trial."""
    is_on = {name: arrays[f"trial_{name}"][trial] for name in ("batch_norm", "is_adam", "rescale")}
    number = {
        name: f"{float(arrays[f'trial_{name}'][trial]):g}"
        for name in ("hidden_units", "hidden_layers", "batch_size", "learning_rate", "l1", "l2",
                     "dropout", "threshold", "penalty_weight", "anneal_epochs", "reversal")
    }  # fmt: skip
    return (
        f"best: {number['hidden_units']}×{number['hidden_layers']}, batch {number['batch_size']}, "
        f"{'Adam' if is_on['is_adam'] else 'SGD'} {number['learning_rate']}\n"
        f"L1 {number['l1']}, L2 {number['l2']}, dropout {number['dropout']}, "
        f"batch norm {'on' if is_on['batch_norm'] else 'off'}\n"
        f"where they apply: threshold {number['threshold']}, "
        f"rescaling {'on' if is_on['rescale'] else 'off'},\n"
        f"penalty {number['penalty_weight']} from epoch {number['anneal_epochs']}, "
        f"reversal {number['reversal']}"
    )


def _finer(values: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "finer columns"]:
    """Puts two rows between every two, on the straight line between them."""
    rows = np.arange(len(values))
    between = np.linspace(0, len(values) - 1, 3 * len(values) - 2)
    return np.stack([np.interp(between, rows, column) for column in values.T], axis=-1)
