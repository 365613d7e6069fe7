"""The supports of the theory's experiments: which of six modules occur together in training.

Those labelled bad by the authors are disconnected or, with discrete latents, do not span. The sets
with the modules 1, 2 and 4 look like a misprint of 1, 2 and 3; they are as the authors have them.
"""

from types import MappingProxyType

import numpy as np
from jaxtyping import Bool

from recombine.tasks.hyperteacher._masks import mask_matrix

NUM_THEORY_MODULES = 6
"""Modules of the theory's teacher."""

Groups = tuple[tuple[int, ...], ...]

_ONE_HOT: Groups = tuple((i,) for i in range(6))
_PAIRS_SPLIT: Groups = ((0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3))
_PAIRS_RING: Groups = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0))
_TRIPLES_SPLIT: Groups = ((0, 1, 2), (3, 4, 5))
_TRIPLES_RING3: Groups = ((0, 1, 2), (2, 3, 4), (4, 5, 0))
_TRIPLES_RING6: Groups = ((0, 1, 2), (1, 2, 4), (2, 3, 4), (3, 4, 5), (4, 5, 0), (5, 0, 1))
_TRIPLES_SLIDE6: Groups = ((0, 1, 2), (1, 2, 3), (2, 3, 4), (3, 4, 5), (4, 5, 0), (5, 0, 1))
_ALL: Groups = ((0, 1, 2, 3, 4, 5),)

THEORY_SUPPORTS = MappingProxyType(
    {
        "onehot": _ONE_HOT,
        "pairs-split": _PAIRS_SPLIT,
        "triples-split": _TRIPLES_SPLIT,
        "triples+pairs-split": _TRIPLES_SPLIT + _PAIRS_SPLIT,
        "onehot+pairs-split": _ONE_HOT + _PAIRS_SPLIT,
        "pairs-ring": _PAIRS_RING,
        "triples-ring3": _TRIPLES_RING3,
        "triples-ring6": _TRIPLES_RING6,
        "triples-slide6": _TRIPLES_SLIDE6,
        "all6": _ALL,
        "onehot+pairs-ring": _ONE_HOT + _PAIRS_RING,
        "onehot+triples-ring3": _ONE_HOT + _TRIPLES_RING3,
        "onehot+triples-ring6": _ONE_HOT + _TRIPLES_RING6,
        "onehot+all6": _ONE_HOT + _ALL,
    }
)
"""Groups of modules by the name of the support."""


def theory_masks(name: str) -> Bool[np.ndarray, "masks modules"]:
    """Returns the masks of a named support."""
    if name not in THEORY_SUPPORTS:
        known = ", ".join(THEORY_SUPPORTS)
        raise LookupError(f"no support of the theory is called {name!r}; known are {known}")
    return mask_matrix(THEORY_SUPPORTS[name], NUM_THEORY_MODULES)
