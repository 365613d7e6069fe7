"""Heat maps of the toy grid, what a teacher attends to, and how far gates are open."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from recombine.experiments._row import Picture
from recombine.experiments.distillation._figure_values import DIMENSIONS, DISTILLED, NO_TEACHER

Arrays = Mapping[str, np.ndarray]
BLUE, ORANGE, GREEN = "#0072b2", "#d55e00", "#009e73"
MAJORITY = 0.699  # always saying that the cell will be dead


def draw_heat_maps(axes: Any, arrays: Arrays, *, figure: Mapping[int, tuple[float, ...]]) -> None:
    """Draws the accuracies of all cells, and beside them those of figure 4.3b."""
    ours = np.asarray(arrays["best_accuracy"], float)
    dimensions, sizes = arrays["worlds"].tolist(), arrays["sizes"].tolist()
    read = sorted(figure)
    theirs = np.asarray([figure[size] for size in read]).T
    canvas = axes.figure
    canvas.set_size_inches(5.4, 3.2)
    axes.remove()
    left, right = canvas.subplots(1, 2, width_ratios=(len(dimensions) + 1, len(DIMENSIONS)))
    image = None
    for where, values, across, up, title in (
        (left, ours.T, dimensions, sizes, "ours, one seed"),
        (right, theirs.T, DIMENSIONS, read, "read off Fig. 4.3b"),
    ):
        image = where.imshow(values, origin="lower", aspect="auto", vmin=0.5, vmax=1, cmap="magma")
        where.set_xticks(range(len(across)), [str(one) for one in across])
        where.set_yticks(range(len(up)), [str(one) for one in up], fontsize=6.5)
        where.set_xlabel("inputs")
        where.set_title(title, fontsize=7.5)
        if values.size <= 4:
            for (row, column), value in np.ndenumerate(values):
                where.text(column, row, f"{value:.2f}", ha="center", va="center", color="#888888")
    left.set_ylabel("training examples")
    canvas.colorbar(image, ax=left, fraction=0.08, label="best test accuracy")


def draw_hidden_xor(axes: Any, arrays: Arrays) -> None:
    """Draws the two hidden numbers that decide, coloured by the label."""
    hidden, labels = arrays["hidden"], arrays["labels"].astype(bool)
    for label, color in ((False, BLUE), (True, ORANGE)):
        points = hidden[labels == label]
        axes.plot(*points.T, "o", color=color, markersize=2.5, label=f"label {int(label)}")
    axes.axhline(0, color="black", linewidth=0.6)
    axes.axvline(0, color="black", linewidth=0.6)
    axes.legend(frameon=False, fontsize=7, loc="upper right")
    axes.set_xlabel("first hidden number")
    axes.set_ylabel("second hidden number")


def draw_attention(axes: Any, arrays: Arrays) -> None:
    """Draws the weight of each frame for each layer, the mean over maps, at the largest size.

    Frames stand in the order in which the teacher gets them; each says when it really was. A frame
    around a cell marks what an oracle would teach: every third layer, in the true order.
    """
    attention = np.asarray(arrays["attention"], float)[-1].mean(axis=-1)  # frames by layers
    order = np.asarray(arrays["order"]).astype(int)
    num_frames, num_layers = attention.shape
    image = axes.imshow(attention, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    for place, true in enumerate(order):
        layer = (true + 1) * (num_layers // num_frames) - 1
        box = ([layer - 0.48, layer + 0.48], [place - 0.48, place + 0.48])
        (left, right), (top, bottom) = box
        axes.plot(
            [left, right, right, left, left],
            [top, top, bottom, bottom, top],
            color=ORANGE,
            linewidth=1.4,
        )
    axes.set_yticks(range(num_frames), [f"after {true + 1}" for true in order])
    axes.set_xticks(range(num_layers), [str(layer + 1) for layer in range(num_layers)])
    axes.set_xlabel("layer")
    axes.set_ylabel("frames as given: steps of the automaton")
    axes.set_title("weight of a frame; framed: an oracle's", fontsize=7.5)
    axes.figure.colorbar(image, ax=axes, fraction=0.05)


def draw_sizes(axes: Any, arrays: Arrays) -> None:
    """Draws accuracy against the number of training examples, and that of always saying dead."""
    sizes = np.asarray(arrays["sizes"], float)
    best, chosen = (100 * np.asarray(arrays[f"{name}_accuracy"])[0] for name in ("best", "chosen"))
    axes.plot(sizes, best, "o-", color=BLUE, markersize=4, label="best on test")
    axes.plot(sizes, chosen, "o--", color=ORANGE, fillstyle="none", markersize=4, label="chosen")
    axes.axhline(100 * MAJORITY, color="black", alpha=0.4, linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:.0f}" for size in sizes], fontsize=7)
    axes.set_ylim(45, 101)
    axes.set_xlabel("training examples")
    axes.set_ylabel("accuracy, %")
    axes.legend(frameon=False, fontsize=7, loc="lower right")  # curves are at chance or above


def draw_gates(axes: Any, arrays: Arrays) -> None:
    """Draws how far the gates of the units are open, layer by layer, sorted within each."""
    gates = np.asarray(arrays["gates"], float)
    first = 0
    for number, size in enumerate(np.asarray(arrays["layer_sizes"]).astype(int)):
        values = np.sort(gates[first : first + size])[::-1]
        axes.plot(first + np.arange(size), values, color=(BLUE, ORANGE)[number % 2])
        axes.text(first + size / 2, 1.0, str(number + 1), ha="center", va="top", fontsize=7)
        first += size
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("units, sorted within each layer")
    axes.set_title("how far gates are open, by layer", fontsize=7.5)


def draw_search(axes: Any, arrays: Arrays) -> None:
    """Draws the errors of all settings of a search, sorted; hollow where chosen honestly."""
    best = np.asarray(arrays["best_test_squared_error"], float)
    chosen = np.asarray(arrays["chosen_test_squared_error"], float)
    order = np.argsort(best)
    rank = np.arange(len(best)) + 1
    axes.plot(rank, best[order], "o", color=BLUE, markersize=4, label="best on test")
    axes.plot(rank, chosen[order], "o", color=ORANGE, fillstyle="none", markersize=5,
              label="chosen by other examples")  # fmt: skip
    axes.set_yscale("log")
    axes.set_xlabel(f"{len(best)} settings, sorted")
    axes.set_title("test error", fontsize=7.5)
    axes.legend(frameon=False, fontsize=7)


def draw_boards(axes: Any, arrays: Arrays) -> None:
    """Draws a board and its future side by side, in the true order."""
    from recombine.tasks.life import draw_boards as draw  # loads JAX

    frames = draw(arrays["boards"])
    height, width = frames.shape[1:3]
    strip = np.full((height, len(frames) * (width + 8) - 8, 3), 232, np.uint8)
    for place, frame in enumerate(frames):
        strip[:, place * (width + 8) :][:, :width] = frame
    axes.imshow(strip, interpolation="none")
    axes.figure.set_size_inches(7.0, 7.0 * height / strip.shape[1] + 0.4)
    names = ["input", *(f"after {step + 1}" for step in range(len(frames) - 1))]
    axes.set_xticks([place * (width + 8) + width / 2 for place in range(len(frames))], names)
    axes.set_yticks([])
    axes.tick_params(length=0)


GRID_NEEDS = ("worlds", "sizes", "best_accuracy")
GRID_TITLE = "accuracy by dimension and training size"
UNTAUGHT_GRID = Picture(GRID_TITLE, partial(draw_heat_maps, figure=NO_TEACHER), GRID_NEEDS)
TAUGHT_GRID = Picture(GRID_TITLE, partial(draw_heat_maps, figure=DISTILLED), GRID_NEEDS)
HIDDEN = Picture("what decides, hidden from the student", draw_hidden_xor, ("hidden", "labels"))
ATTENTION = Picture("what the teacher attends to", draw_attention, ("attention", "order"))
BY_SIZE = Picture(
    "accuracy by training size", draw_sizes, ("sizes", "best_accuracy", "chosen_accuracy")
)
GATES = Picture("what the teacher teaches", draw_gates, ("gates", "layer_sizes"))
SETTINGS = Picture(
    "all settings", draw_search, ("best_test_squared_error", "chosen_test_squared_error")
)
BOARDS = Picture("a board and its future", draw_boards, ("boards",))
