"""What the rows of the grid worlds draw."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from recombine.experiments._row import Picture

BLUE, ORANGE = "#0072b2", "#d55e00"
PREFERENCE_ACTIONS = ("stop", "↑", "→", "↓", "←")
GOAL_ACTIONS = ("↑", "→", "↓", "←", "●", "○")
SHOWN = 8  # frames of a film strip
PIXELS = 16  # of a cell


def draw_film(axes: Any, arrays: Mapping[str, np.ndarray], *, actions: tuple[str, ...]) -> None:
    """Draws an episode as film strips: above the adapted agent, if there is one, and the expert.

    Below each frame stands what is done in it. Of a long episode a few frames are shown, the first
    and the last among them.
    """
    players = [who for who in ("agent", "expert") if f"{who}_actions" in arrays]
    figure = axes.figure
    axes.set_axis_off()
    figure.set_size_inches(SHOWN, 1.3 * len(players))
    for line, who in enumerate(players):
        frames, numbers = _frames(arrays, who)
        for place, (frame, number) in enumerate(zip(frames, numbers, strict=True)):
            panel = figure.add_subplot(len(players), SHOWN, line * SHOWN + place + 1)
            panel.imshow(frame, interpolation="none")
            panel.set(xticks=[], yticks=[])
            panel.spines[:].set_visible(False)
            done = actions[int(arrays[f"{who}_actions"][number])]
            panel.set_xlabel(f"{number + 1}: {done}", fontsize=7, labelpad=2)
            if place == 0:
                panel.set_ylabel(who, fontsize=7.5)


def _frames(arrays: Mapping[str, np.ndarray], who: str) -> tuple[np.ndarray, np.ndarray]:
    from recombine.tasks.grid_pictures import GridFilm, draw_frames  # without JAX

    film = GridFilm(*(arrays[f"{who}_{part}"] for part in GridFilm._fields))
    length = int(arrays[f"{who}_counts"].sum())
    shown = np.unique(np.linspace(0, length - 1, SHOWN).round().astype(int))
    part = film._replace(there=film.there[shown], agent=film.agent[shown])
    return draw_frames(part, pixels=PIXELS), shown


def draw_hotness(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws the loss of every set: seen combinations, held-out ones, and those of more modules."""
    names = [name for name in ("test", "ood") if f"{name}_task_loss" in arrays]
    hot = sorted(
        int(name.removeprefix("ood_hot_").removesuffix("_task_loss"))
        for name in arrays
        if name.startswith("ood_hot_") and name.endswith("_task_loss")
    )
    labels = [{"test": "seen", "ood": "unseen"}[name] for name in names]
    labels += [f"{number} modules" for number in hot]
    losses = [arrays[f"{name}_task_loss"] for name in (*names, *(f"ood_hot_{k}" for k in hot))]
    errors = [loss.std() / np.sqrt(len(loss)) for loss in losses]
    colors = [BLUE if label == "seen" else ORANGE for label in labels]
    axes.figure.set_size_inches(4.4, 2.8)
    axes.bar(range(len(labels)), [loss.mean() for loss in losses], color=colors, width=0.7)
    axes.errorbar(
        range(len(labels)), [loss.mean() for loss in losses], errors, fmt="none", color="#000000"
    )
    axes.set_xticks(range(len(labels)), labels, rotation=30, ha="right")
    axes.set_ylabel("half squared error, all actions")


def draw_adaptation(axes: Any, arrays: Mapping[str, np.ndarray]) -> None:
    """Draws the loss on the support before every inner step, for seen and for unseen tasks."""
    axes.figure.set_size_inches(3.4, 2.8)
    for name, label, color in (("test", "seen", BLUE), ("ood", "unseen", ORANGE)):
        losses = arrays[f"{name}_support_losses"]
        axes.plot(np.arange(len(losses)), losses, color=color, label=f"{label} combinations")
    axes.set(xlabel="inner steps", ylabel="loss on the demonstrations", ylim=(0, None))
    axes.legend(frameon=False)


_FILM = tuple(f"expert_{part}" for part in ("walls", "objects", "agent", "actions", "counts"))
PREFERENCE_FILM = Picture(
    "an episode of an unseen task", partial(draw_film, actions=PREFERENCE_ACTIONS), _FILM
)
GOAL_FILM = Picture("an episode of an unseen task", partial(draw_film, actions=GOAL_ACTIONS), _FILM)
HOTNESS = Picture("loss by combination", draw_hotness, ("test_task_loss", "ood_task_loss"))
ADAPTATION = Picture(
    "loss during adaptation", draw_adaptation, ("test_support_losses", "ood_support_losses")
)
