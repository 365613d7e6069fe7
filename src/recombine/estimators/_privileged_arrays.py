"""Tables and sequences, with what is known of them in training only, as arrays to learn from."""

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.utils.validation import check_array

from recombine.estimators._standardizing import Standard, measure


def is_sequences(X: Any) -> bool:
    """Says whether `X` has three axes: rows, steps, features."""
    if not isinstance(X, list | tuple):
        return getattr(X, "ndim", None) == 3
    try:
        return np.ndim(X) == 3
    except ValueError:  # lists of different lengths, which scikit-learn refuses in its own words
        return False


def parse_privileged(privileged: Any, num_rows: int) -> Float[np.ndarray, "rows ..."]:
    """Reads privileged data: one row, or one sequence, for every row of `X`."""
    array = check_array(
        privileged, dtype="float64", allow_nd=True, input_name="privileged", ensure_min_samples=0
    )
    if array.ndim > 3:
        raise ValueError(
            f"`privileged` must have the shape (rows, features) or (rows, steps, features); got "
            f"{array.shape}. Join the axes of features to one."
        )
    if len(array) != num_rows:
        raise ValueError(
            f"`privileged` must have one row for each of the {num_rows} rows of `X`, in the same "
            f"order; got {len(array)}"
        )
    if 0 in array.shape:
        raise ValueError(f"`privileged` has nothing in it: its shape is {array.shape}")
    return array


def measure_features(array: Float[np.ndarray, "rows ..."], name: str) -> Standard:
    """Returns mean and deviation of every feature; those of sequences are over all steps."""
    return measure(array.reshape(-1, array.shape[-1]), f"feature {{}} of `{name}`")


def standardize(
    array: Float[np.ndarray, "rows ..."], standard: Standard
) -> Float[np.ndarray, "rows ..."]:
    """Brings every feature to mean 0 and deviation 1, in single precision."""
    return standard.apply(array.reshape(-1, array.shape[-1])).reshape(array.shape)
