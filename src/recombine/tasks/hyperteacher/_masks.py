"""Masks: which modules a task is made of; and what a collection of them can teach.

A row is a mask, a column a module. Everything here is small and on the host.
"""

import itertools
from collections.abc import Iterable

import numpy as np
from jaxtyping import Bool


def mask_matrix(
    groups: Iterable[Iterable[int]], num_modules: int
) -> Bool[np.ndarray, "masks modules"]:
    """Makes masks of groups of module numbers; a number that repeats in a group counts once.

    Example:
        >>> mask_matrix([(0, 0), (0, 2)], 3).astype(int).tolist()
        [[1, 0, 0], [1, 0, 1]]
    """
    groups = [tuple(group) for group in groups]
    masks = np.zeros((len(groups), num_modules), bool)
    for row, group in zip(masks, groups, strict=True):
        if not group or min(group) < 0 or max(group) >= num_modules:
            raise ValueError(
                f"a mask names modules from 0 to {num_modules - 1}, at least one; got {group}"
            )
        row[list(group)] = True
    return masks


def masks_of_size(num_modules: int, size: int) -> Bool[np.ndarray, "masks modules"]:
    """Returns all masks with exactly `size` active modules, in lexicographic order."""
    if not 1 <= size <= num_modules:
        raise ValueError(f"`size` must be from 1 to {num_modules}; got {size}")
    return mask_matrix(itertools.combinations(range(num_modules), size), num_modules)


def masks_up_to(num_modules: int, max_active: int) -> Bool[np.ndarray, "masks modules"]:
    """Returns all masks with 1 to `max_active` active modules, the smaller ones first."""
    if not 1 <= max_active <= num_modules:
        raise ValueError(f"`max_active` must be from 1 to {num_modules}; got {max_active}")
    return np.concatenate([masks_of_size(num_modules, k) for k in range(1, max_active + 1)])


def support_rank(masks: Bool[np.ndarray, "masks modules"]) -> int:
    """Returns the rank of the masks as vectors: how many directions discrete latents span."""
    return int(np.linalg.matrix_rank(np.asarray(masks, float)))


def is_covered(masks: Bool[np.ndarray, "masks modules"]) -> bool:
    """Says whether every module is active in some mask."""
    return bool(np.all(np.any(masks, axis=0)))


def is_connected(masks: Bool[np.ndarray, "masks modules"]) -> bool:
    """Says whether masks that share a module link all masks into one.

    Equally: whether no split of the modules that are used into two groups puts every mask inside
    one of them (Schug et al. 2024, connected support).

    Example:
        >>> is_connected(mask_matrix([(0, 1), (1, 2)], 3))
        True
        >>> is_connected(mask_matrix([(0, 1), (2,)], 3))
        False
    """
    masks = np.asarray(masks, bool)
    reached = masks[0].copy()
    while True:
        touched = masks[np.any(masks & reached, axis=1)].any(axis=0)
        if np.array_equal(touched, reached):
            return bool(np.all(np.any(masks & reached, axis=1)))
        reached = touched


def is_identifying(masks: Bool[np.ndarray, "masks modules"], *, continuous: bool) -> bool:
    """Predicts whether training on these masks lets unseen combinations work.

    With continuous latents a mask spans all its modules: they must be covered and connected. With
    discrete ones a mask is a single direction: the masks must span everything, and be connected.
    """
    if not is_connected(masks):
        return False
    return is_covered(masks) if continuous else support_rank(masks) == masks.shape[1]
