"""What the theory rows draw."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from recombine.experiments._row import Picture

BLUE, RED, GREEN, PINK, ORANGE, SKY = (
    *("#0072b2", "#d55e00", "#009e73"),
    *("#cc79a7", "#e69f00", "#56b4e9"),
)
"""Told apart by most colour-blind people; a page gives them its own shades."""

REACH = 1.5  # of the drawn landscapes
DIGIT = {"fontsize": 7.5}


def draw_landscapes(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws both landscapes and their mean, with descents from the same starts.

    The dot is the minimum that both environments have, the cross the one that only the mean has.
    """
    of_a, of_b = arrays["landscapes"]
    figure = axes.figure
    axes.set_axis_off()
    figure.set_size_inches(8.4, 3.1)
    titles = ("environment A", "environment B", "their mean")
    shared, patchwork = arrays["minima"]
    panels = [figure.add_subplot(1, 3, place + 1) for place in range(3)]
    for place, (title, heights) in enumerate(
        zip(titles, (of_a, of_b, (of_a + of_b) / 2), strict=True)
    ):
        panel = panels[place]
        shades = np.round(heights / heights.max() * 24) / 24  # few, so that the image packs well
        panel.imshow(
            shades,
            origin="lower",
            extent=(-REACH, REACH, -REACH, REACH),
            cmap="Blues_r",
            vmin=-0.15,
            vmax=1.25,
            interpolation="none",
        )
        for path in arrays["paths"][place]:
            ends_at_patchwork = np.linalg.norm(path[-1] - patchwork) < 0.05
            color = RED if ends_at_patchwork else "#333333"
            panel.plot(*path.T, color=color, linewidth=0.8, alpha=0.9)
            panel.plot(*path[0], "o", color="#ffffff", markeredgecolor=color, markersize=2.6)
        panel.plot(*shared, "o", color=GREEN, markeredgecolor="#ffffff", markersize=8)
        panel.plot(*patchwork, "X", color=RED, markeredgecolor="#ffffff", markersize=9)
        panel.set_title(title)
        panel.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), xticks=[], yticks=[])
        panel.set_xlabel(r"$\theta_1$")
        if place == 0:
            panel.set_ylabel(r"$\theta_2$")
    for point, score, color in zip(arrays["minima"], arrays["scores"], (GREEN, RED), strict=True):
        panels[-1].annotate(
            f"score {score / arrays['epsilon']:.3g} ε",
            point,
            textcoords="offset points",
            xytext=(0, 11),
            ha="center",
            color="#ffffff",
            fontsize=7.5,
            bbox={"facecolor": color, "edgecolor": "none", "pad": 1.6},
        )


def draw_patches(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws the function with both networks, and the losses over the weight that A cannot see."""
    figure = axes.figure
    axes.set_axis_off()
    figure.set_size_inches(7.2, 2.9)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    (a_fit, b_fit), (a_varied, b_varied) = arrays["losses"]
    for start, color, name in ((0.0, BLUE, "A"), (0.5, ORANGE, "B")):
        left.axvspan(start, start + 0.5, color=color, alpha=0.09, linewidth=0)
        left.text(start + 0.03, 2.3, f"environment {name}", color=color, va="center", **DIGIT)
    left.plot(arrays["inputs"], arrays["target"], color="#999999", linewidth=3.5, label="target")
    for outputs, color, style, label in (
        (arrays["outputs"][0], "#000000", "-", f"fit: loss {a_fit:.3g} in A, {b_fit:.2g} in B"),
        (arrays["outputs"][1], RED, "--", f"varied: loss {a_varied:.3g} in A, {b_varied:.3g} in B"),
    ):
        left.plot(arrays["inputs"], outputs, style, color=color, linewidth=1.4, label=label)
    left.set(xlim=(0, 1), ylim=(-0.2, 3.35), xlabel="x", yticks=[0, 1, 2])
    left.legend(loc="upper left", frameon=False, fontsize=7, handlelength=1.6, borderaxespad=0.1)
    losses_a, losses_b = arrays["losses_over_last_weight"].T
    weights = arrays["last_weights"]
    right.plot(weights, losses_a, color=BLUE)
    right.plot(weights, losses_b, color=ORANGE)
    right.text(weights[-1], losses_a[-1] + 0.09, "loss in A", color=BLUE, ha="right", **DIGIT)
    right.text(weights[6], losses_b[6], "  loss in B", color=ORANGE, **DIGIT)
    right.plot([1.0], [b_fit], "o", color="#000000", markersize=4.5)
    right.plot([-0.5], [b_varied], "o", color=RED, markersize=4.5)
    right.set(xlabel=r"$\theta_6$, the weight of the second step", ylim=(-0.08, 2.3))
    right.set_title(
        f"inconsistency ≥ {arrays['score']:.3g} within {arrays['radius']:.2g}"
        f" at ε = {arrays['epsilon']:.2g}",
        fontsize=8,
    )


def draw_shrinking(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws what is left of random gradients, plainly averaged and masked, over environments."""
    axes.figure.set_size_inches(4.6, 3.4)
    every, (mean, masked) = arrays["every_num_envs"], arrays["exact"]
    floor = 1e-8
    axes.plot(every, mean, color=ORANGE, linewidth=1.2)
    axes.plot(every, masked, color=BLUE, linewidth=0.9)
    axes.plot(every, arrays["bound"], color="#999999", linestyle="--", linewidth=1)
    numbers, (plain, left) = arrays["num_envs"], arrays["measured"]
    axes.plot(numbers, plain, "o", color=ORANGE, markersize=4.5)
    seen = left > 0
    axes.plot(numbers[seen], left[seen], "o", color=BLUE, markersize=4.5)
    axes.plot(
        numbers[~seen], np.full(int((~seen).sum()), floor), "v", color=BLUE, markersize=5,
        clip_on=False,
    )  # fmt: skip
    axes.set(yscale="log", ylim=(floor, 1e4), xlim=(0, int(every[-1]) + 3))
    axes.set(xlabel="environments d", ylabel="squared norm")
    axes.text(every[-1], mean[-1] * 2, "plain mean, n / d", color=ORANGE, ha="right", **DIGIT)
    middle = len(every) // 2
    axes.text(every[middle] + 4, arrays["bound"][middle] * 3, "bound", color="#777777", **DIGIT)
    axes.text(every[middle] - 16, masked[middle] / 4, "AND-mask", color=BLUE, ha="right", **DIGIT)
    axes.text(
        numbers[~seen].min() - 2 if (~seen).any() else 0,
        floor * 2.2,
        "none survived" if (~seen).any() else "",
        color=BLUE,
        ha="right",
        **DIGIT,
    )
    axes.set_title("lines: exact, dots: measured", fontsize=8)


def draw_ellipses(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws Hessians and their two means as ellipses whose area is the root of the determinant."""
    figure = axes.figure
    axes.set_axis_off()
    figure.set_size_inches(5.6, 3.1)
    angle = np.linspace(0, 2 * np.pi, 181)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    looks = (
        ("A", BLUE, "-", 1.3),
        ("B", ORANGE, "-", 1.3),
        ("arithmetic mean", RED, "--", 1.6),
        ("geometric mean", GREEN, "-", 2.0),
    )
    panels = [figure.add_subplot(1, 2, place + 1) for place in range(2)]
    for place, (panel, matrices) in enumerate(zip(panels, arrays["ellipses"], strict=True)):
        for matrix, (name, color, style, width) in zip(matrices, looks, strict=True):
            values, vectors = np.linalg.eigh(matrix)
            points = vectors @ (np.sqrt(values)[:, None] * circle)
            panel.plot(*points, style, color=color, linewidth=width, label=name)
        ratio, score = arrays["determinant_ratios"][place], arrays["scores"][place]
        panel.set_title(
            f"curvatures {matrices[0, 0, 0]:.2g} and 1\n"
            f"determinants {ratio:.3g} : 1, inconsistency {score:.3g} ε",
            fontsize=7.5,
        )
        panel.set(xticks=[], yticks=[], aspect="equal", xlim=(-1.1, 1.1), ylim=(-1.1, 1.1))
        for spine in panel.spines.values():
            spine.set_visible(False)
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False,
        fontsize=7.5, handlelength=1.4, columnspacing=1.2,
    )  # fmt: skip


def draw_weights(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws the weights that were learned from all environments and from the first two."""
    axes.figure.set_size_inches(3.4, 2.8)
    of_all, of_some = arrays["weights"]
    places = np.arange(len(of_all))
    axes.bar(places - 0.2, of_all, 0.38, color=BLUE)
    axes.bar(places + 0.2, of_some, 0.38, color=ORANGE)
    axes.axhline(0, color="#000000", linewidth=0.6)
    top = max(3.2, float(arrays["weights"].max()) * 1.1)
    axes.set(ylim=(min(-0.05, float(arrays["weights"].min()) * 1.1), top), ylabel="weight")
    axes.set_xticks(places, [*(f"own {i + 1}" for i in places[:-1]), "shared"], fontsize=7.5)
    axes.text(-0.4, top * 0.93, "all four environments", color=BLUE, **DIGIT)
    axes.text(-0.4, top * 0.85, "the first two", color=ORANGE, **DIGIT)


LANDSCAPES = Picture(
    "two environments and their mean: a shared minimum (dot) and a patchwork (cross)",
    draw_landscapes,
    ("landscapes", "paths", "minima", "scores", "epsilon"),
)
PATCHES = Picture(
    "what A cannot see and B can",
    draw_patches,
    ("inputs", "target", "outputs", "losses", "last_weights", "losses_over_last_weight", "score"),
)
SHRINKING = Picture(
    "what is left of random gradients",
    draw_shrinking,
    ("num_envs", "measured", "every_num_envs", "exact", "bound"),
)
ELLIPSES = Picture(
    "Hessians of two environments and their means",
    draw_ellipses,
    ("ellipses", "determinant_ratios", "scores"),
)
WEIGHTS = Picture("the weights that were learned", draw_weights, ("weights",))
