"""People's labels: which are missing, and arrays of them that keep their kind."""

from typing import Any

import numpy as np
from jaxtyping import Shaped


def is_missing(label: Any) -> bool:
    """Says whether a label is None, NaN, or what pandas has in their place.

    Example:
        >>> [is_missing(label) for label in (None, float("nan"), "nan", 0)]
        [True, True, False, False]
    """
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas' NA, whose comparisons are NA again
        return True


def as_labels(labels: Any) -> Shaped[np.ndarray, "..."]:
    """Returns labels as an array of text or of numbers, or of objects where they are mixed.

    NumPy by itself would make text of everything in a list that holds some: a missing label would
    become a class called "nan", and 1 would be the same as "1".

    Example:
        >>> as_labels(["a", "b"]).dtype.kind, as_labels([1, "1"]).dtype.kind
        ('U', 'O')
    """
    array = np.asarray(labels, dtype=object if isinstance(labels, list | tuple) else None)
    if array.dtype != object:
        return array
    found = array.ravel().tolist()
    is_plain = all(isinstance(one, str) for one in found) or all(map(_is_number, found))
    return np.asarray(array.tolist()) if is_plain else array


def _is_number(label: Any) -> bool:
    return isinstance(label, bool | int | float | np.generic) and not isinstance(label, str | bytes)
