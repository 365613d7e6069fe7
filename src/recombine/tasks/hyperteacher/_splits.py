"""Which combinations of modules are trained on, and which are held out (Schug et al. 2024).

A task of the hyperteacher is one mask for each generated layer, hence a number with as many digits
as there are layers, to the base of the number of masks. Splits are lists of such numbers.

The published disconnected support differs from the connected one in three ways at once: it has 104
tasks, not 576; its layers always have equally many active modules; and so its codes span 14 of 16
dimensions, which leaves most held-out tasks outside the span. `disconnected-clean` drops the second
condition (200 tasks of full rank, still disconnected), and `connected-matched` has as many tasks.
"""

from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Int

from recombine.tasks.hyperteacher._masks import mask_matrix, masks_up_to, support_rank

SupportName = Literal[
    "random",
    "non-compositional",
    "connected",
    "disconnected",
    "connected-matched",
    "disconnected-clean",
    "dense",
    "diagonal",
]
"""How training combinations are chosen. `random` holds out a share of all; `non-compositional`
holds out every task with the last module in the last layer; `connected` and `disconnected` are the
published pair, `connected-matched` and `disconnected-clean` a fair one. `dense` trains on the task
with all modules active, `diagonal` on windows of neighbouring modules and on single ones; the
authors' code has both and their experiments neither."""


class Split(NamedTuple):
    """The tasks to train on and those to be tested on, as numbers."""

    train: Int[np.ndarray, " tasks"]
    held_out: Int[np.ndarray, " others"]


def task_digits(
    tasks: Int[np.ndarray, " tasks"], num_masks: int, num_layers: int
) -> Int[np.ndarray, "tasks layers"]:
    """Returns the number of each layer's mask; the first layer is the most significant digit."""
    powers = num_masks ** np.arange(num_layers - 1, -1, -1)
    return (np.asarray(tasks)[:, None] // powers[None]) % num_masks


def task_codes(
    tasks: Int[np.ndarray, " tasks"], masks: Bool[np.ndarray, "masks modules"], num_layers: int
) -> Bool[np.ndarray, "tasks codes"]:
    """Returns the masks of all layers side by side: which of the layers' modules a task has."""
    digits = task_digits(tasks, len(masks), num_layers)
    return masks[digits].reshape(len(tasks), -1)


def make_split(name: str, *, num_modules: int, max_active: int, num_layers: int) -> Split:
    """Returns a split that is the same for all seeds; `random` has one for each.

    Example:
        >>> split = make_split("connected", num_modules=8, max_active=2, num_layers=2)
        >>> len(split.train), len(split.held_out)
        (576, 698)
    """
    if name not in get_args(SupportName) or name == "random":
        known = ", ".join(other for other in get_args(SupportName) if other != "random")
        raise LookupError(f"no fixed split is called {name!r}; known are {known}")
    masks = masks_up_to(num_modules, max_active)
    tasks = np.arange(len(masks) ** num_layers)
    digits = task_digits(tasks, len(masks), num_layers)
    if name == "non-compositional":
        held_out = masks[digits[:, -1], -1]
        return Split(tasks[~held_out], tasks[held_out])
    if name in ("dense", "diagonal"):
        trained = np.all(_chosen(name, masks, max_active)[digits], axis=1)
        return Split(tasks[trained], tasks[~trained])
    if max_active != 2 or num_modules % 2:
        raise ValueError(
            f"the {name} split is made of single modules and pairs, and of two halves: "
            f"`max_active` must be 2 and `num_modules` even; got {max_active} and {num_modules}"
        )
    connected = np.all(_chosen("connected", masks, max_active)[digits], axis=1)
    clean = _same_half(masks, digits)
    sizes = masks.sum(axis=1)[digits]
    disconnected = clean & np.all(sizes == sizes[:, :1], axis=1)
    held_out = ~(connected | disconnected)
    if name == "connected":
        return Split(tasks[connected], tasks[held_out])
    if name == "disconnected":
        return Split(tasks[disconnected], tasks[held_out])
    held_out &= ~clean
    if name == "disconnected-clean":
        return Split(tasks[clean], tasks[held_out])
    matched = _matched(tasks[connected], int(clean.sum()), masks, num_layers)
    return Split(matched, tasks[held_out])


def _chosen(
    name: str, masks: Bool[np.ndarray, "masks modules"], max_active: int
) -> Bool[np.ndarray, " masks"]:
    """Says which masks of a layer belong to a family."""
    modules = masks.shape[1]
    if name == "dense":
        if max_active != modules:
            raise ValueError(
                f"the dense split activates all modules: `max_active` must be {modules}; got "
                f"{max_active}"
            )
        return np.all(masks, axis=1)
    starts = range(modules)
    if name == "connected":
        groups = [(i, (i + distance) % modules) for distance in (1, 2) for i in starts]
    else:
        groups = [tuple((i + j) % modules for j in range(max_active)) for i in starts]
    family = mask_matrix([*((i,) for i in starts), *groups], modules)
    return np.any(np.all(masks[:, None] == family[None], axis=-1), axis=1)


def _same_half(
    masks: Bool[np.ndarray, "masks modules"], digits: Int[np.ndarray, "tasks layers"]
) -> Bool[np.ndarray, " tasks"]:
    half = masks.shape[1] // 2
    in_first, in_second = ~np.any(masks[:, half:], axis=1), ~np.any(masks[:, :half], axis=1)
    return np.all(in_first[digits], axis=1) | np.all(in_second[digits], axis=1)


def _matched(
    tasks: Int[np.ndarray, " tasks"],
    count: int,
    masks: Bool[np.ndarray, "masks modules"],
    num_layers: int,
) -> Int[np.ndarray, " count"]:
    """Picks as many tasks as asked, the same for all seeds, that still span everything."""
    full = support_rank(task_codes(tasks, masks, num_layers))
    for seed in range(100):
        chosen = np.sort(np.random.default_rng(seed).choice(tasks, count, replace=False))
        if support_rank(task_codes(chosen, masks, num_layers)) == full:
            return chosen
    raise ValueError(f"no {count} of the {len(tasks)} connected tasks were found that span all")
