"""What the rows draw: the support as a graph, units that found each other, decoded modules."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from recombine.experiments._row import Picture

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
"""Of parts that are not connected; told apart by most colour-blind people."""


def draw_masks(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws modules on a circle and every mask as what joins its modules.

    A ring is a mask of one module, a line one of two, an area one of more. Colours tell parts
    apart that no mask joins.
    """
    masks = np.unique(np.asarray(arrays["masks"], bool), axis=0)
    masks = masks[masks.any(axis=1)]  # those that are not trained are empty
    places, parts = _circle(masks.shape[1]), _parts(masks.T.astype(int) @ masks.astype(int) > 0)
    for mask in masks:
        members = np.flatnonzero(mask)
        color = COLORS[parts[members[0]] % len(COLORS)]
        corners = places[members]
        if len(members) == 1:
            axes.plot(*corners.T, "o", color=color, fillstyle="none", markersize=21)
        elif len(members) == 2:
            axes.plot(*corners.T, color=color, linewidth=2.2)
        else:
            axes.fill(*corners.T, color=color, alpha=0.22, linewidth=1.2)
    _draw_modules(axes, places, parts, [str(module + 1) for module in range(len(places))])
    count = parts.max() + 1
    rank = int(np.linalg.matrix_rank(masks.astype(float)))
    axes.set_title(
        f"{'connected' if count == 1 else f'{count} parts'}, rank {rank} of {masks.shape[1]}",
        fontsize=7.5,
    )


def draw_together(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws the modules of all layers on a circle, and a line for two that were trained together.

    The more combinations have both, the stronger the line. Hollow modules were never trained.
    """
    together = np.asarray(arrays["trained_together"], float)
    trained = np.diagonal(together) > 0
    places, parts = _circle(len(together)), _parts(together > 0)
    largest = max(float((together - np.diag(np.diagonal(together))).max()), 1.0)
    for one, other in combinations(range(len(together)), 2):
        if together[one, other] > 0:
            color = COLORS[parts[one] % len(COLORS)]
            share = together[one, other] / largest
            line = places[[one, other]]
            axes.plot(*line.T, color=color, linewidth=0.3 + 1.2 * share, alpha=0.25 + 0.5 * share)
    _draw_modules(axes, places, parts, [""] * len(places), trained=trained)
    count = len(set(parts[trained].tolist()))
    missing = int((~trained).sum())
    axes.set_title(
        ("connected" if count == 1 else f"{count} parts")
        + (f", {missing} never trained" if missing else ""),
        fontsize=7.5,
    )


def draw_matched_units(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws how alike each unit of the teacher and each of the student are, over all modules.

    Student units are sorted by the teacher unit they are most like. Where modules were found,
    every row has one dark cell; where groups of modules sit on different units, several paler ones.
    """
    cosines = np.asarray(arrays["unit_cosines"], float).mean(axis=0)
    best = cosines.argmax(axis=0)
    order = np.lexsort((-cosines.max(axis=0), best))
    axes.imshow(cosines[:, order], cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xlabel("units of the student")
    axes.set_ylabel("units of the teacher")
    axes.set_xticks([])
    axes.set_yticks([])
    found = cosines.max(axis=1)
    axes.set_title(f"cosine; best of each row {found.mean():.2f} on average", fontsize=7.5)


def draw_decoded(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws how much of each module's weight can be read off what was adapted, on unseen tasks."""
    scores = np.atleast_2d(np.asarray(arrays["decoded"], float))
    layers, modules = scores.shape
    for layer in range(layers):
        bars = np.clip(np.nan_to_num(scores[layer], nan=0.0), -1.0, 1.0)
        at = np.arange(modules) + (layer - (layers - 1) / 2) * 0.8 / layers
        label = f"layer {layer + 1}"
        axes.bar(at, bars, width=0.75 / layers, color=COLORS[layer % len(COLORS)], label=label)
    axes.axhline(0, color="black", linewidth=0.6)
    axes.set_ylim(-1.05, 1.05)
    axes.set_xticks(range(modules), [str(module + 1) for module in range(modules)])
    axes.set_xlabel("module")
    if layers > 1:
        axes.legend(frameon=False, fontsize=7)
    axes.set_title("R² of a linear decoder, cut at -1", fontsize=7.5)


def _circle(count: int) -> Float[np.ndarray, "modules 2"]:
    angles = np.pi / 2 - 2 * np.pi * np.arange(count) / count
    return np.stack([np.cos(angles), np.sin(angles)], axis=-1)


def _draw_modules(
    axes: Any,
    places: Float[np.ndarray, "modules 2"],
    parts: np.ndarray,
    labels: list[str],
    *,
    trained: Bool[np.ndarray, " modules"] | None = None,
) -> None:
    for number, place in enumerate(places):
        color = COLORS[parts[number] % len(COLORS)]
        is_trained = trained is None or trained[number]
        style = {} if is_trained else {"markerfacecolor": "white"}
        size = 13 if labels[number] else 6
        axes.plot(*place, "o", color=color, markersize=size, zorder=3, **style)
        axes.annotate(
            labels[number], place, ha="center", va="center", color="white", fontsize=7.5, zorder=4
        )
    axes.set_xlim(-1.35, 1.35)
    axes.set_ylim(-1.35, 1.35)
    axes.set_aspect("equal")
    axes.set_axis_off()


def _parts(joined: Bool[np.ndarray, "modules modules"]) -> np.ndarray:
    """Numbers the parts of a graph; returns that of every vertex."""
    parts = np.full(len(joined), -1)
    for start in range(len(joined)):
        if parts[start] >= 0:
            continue
        reached = np.zeros(len(joined), bool)
        reached[start] = True
        while True:
            further = reached | joined[reached].any(axis=0)
            if np.array_equal(further, reached):
                break
            reached = further
        parts[reached] = parts.max() + 1
    return parts


SUPPORT_MASKS = Picture("the support as a graph", draw_masks, ("masks",))
TRAINED_TOGETHER = Picture("the support as a graph", draw_together, ("trained_together",))
MATCHED_UNITS = Picture("units that found each other", draw_matched_units, ("unit_cosines",))
DECODED = Picture("which modules can be decoded", draw_decoded, ("decoded",))
