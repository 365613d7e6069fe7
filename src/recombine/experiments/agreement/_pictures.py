"""What the synthetic rows draw."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

REACH = 1.1  # of the probed plane, in each direction
COLORS = ("#0072b2", "#d55e00")  # of the two classes; told apart by most colour-blind people
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
    axes.imshow(
        tint.round().astype(np.uint8),
        origin="lower",
        extent=(-REACH, REACH, -REACH, REACH),
        interpolation="none",
    )
    radius = np.linspace(0.08, 1.0, 240)
    for label, color in enumerate(COLORS):
        angle = 2 * np.pi * 3 * radius + np.pi * label
        axes.plot(radius * np.cos(angle), radius * np.sin(angle), color=color, linewidth=1.8)
    axes.set_axis_off()
    axes.set_title("lines: the two classes, tints: what the network sees", fontsize=7.5)


def _finer(values: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "finer columns"]:
    """Puts two rows between every two, on the straight line between them."""
    rows = np.arange(len(values))
    between = np.linspace(0, len(values) - 1, 3 * len(values) - 2)
    return np.stack([np.interp(between, rows, column) for column in values.T], axis=-1)
