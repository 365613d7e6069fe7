"""What the synthetic rows draw."""

from collections.abc import Mapping
from typing import Any

import numpy as np


def draw_boundary(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws the class that the network gives to every point of the spirals' plane."""
    logits = arrays["probe_logits"][..., 0]
    probability = 1.0 / (1.0 + np.exp(-np.clip(logits, -30, 30)))
    axes.imshow(probability, origin="lower", extent=(-1.1, 1.1, -1.1, 1.1), cmap="RdBu", vmin=0, vmax=1)
    radius = np.linspace(0.08, 1.0, 300)
    for label, style in ((0, "-"), (1, "--")):
        angle = 2 * np.pi * 3 * radius + np.pi * label
        axes.plot(radius * np.cos(angle), radius * np.sin(angle), style, color="black", lw=0.8)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.set_aspect("equal")
