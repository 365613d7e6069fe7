"""What the CIFAR-10 rows draw."""

from collections.abc import Mapping
from typing import Any

import numpy as np

LAYERS = ("prep", "layer1", "res1a", "res1b", "layer2", "layer3", "res3a", "res3b", "head")
SMALLEST = 1e-3  # of a layer: what is less looks like nothing


def draw_kept(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws how much of each layer passed the mask in the course of training, first layer on top.

    Shades go by powers of ten: of a layer of two million weights a thousandth is still much.
    """
    kept = arrays["kept_by_layer"]
    reached = kept[kept.any(axis=1)]  # a run shorter than the log leaves gaps
    shades = np.log10(np.maximum(reached, SMALLEST)).T
    image = axes.imshow(
        shades,
        aspect="auto",
        vmin=np.log10(SMALLEST),
        vmax=0,
        cmap="viridis",
        interpolation="none",
    )
    axes.set_yticks(range(len(LAYERS)), LAYERS, fontsize=7)
    axes.set_xticks([])
    axes.set_xlabel("training", fontsize=7.5)
    axes.set_title("gradient that passes the mask", fontsize=7.5)
    bar = axes.figure.colorbar(image, ax=axes, ticks=[-3, -2, -1, 0], fraction=0.05, pad=0.02)
    bar.ax.set_yticklabels(["≤ 0.1%", "1%", "10%", "100%"], fontsize=7)
