"""Columns of numbers brought to mean 0 and deviation 1."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped


class Standard(NamedTuple):
    """What is subtracted from every column, and what it is divided by afterwards."""

    mean: Float[np.ndarray, " columns"]
    scale: Float[np.ndarray, " columns"]

    def apply(self, table: Float[np.ndarray, "rows columns"]) -> Float[np.ndarray, "rows columns"]:
        """Returns the table in single precision; what is too far away becomes infinite."""
        with np.errstate(over="ignore"):
            return ((table - self.mean) / self.scale).astype(np.float32)


def as_numbers(y: Shaped[np.ndarray, " rows"]) -> Float[np.ndarray, " rows"]:
    """Returns the targets of a regression as numbers; text that reads as a number is one."""
    try:
        return y.astype(np.float64)
    except ValueError as error:
        raise ValueError(f"`y` must be numbers ({error})") from error


def measure(table: Float[np.ndarray, "rows columns"], name: str) -> Standard:
    """Returns the mean and the deviation of every column; a constant one is only shifted.

    Args:
        table: the numbers.
        name: what a message calls a column, with {} for its number.

    Example:
        >>> mean, scale = measure(np.array([[1.0, 5.0], [3.0, 5.0]]), "column {} of `X`")
        >>> mean.tolist(), scale.tolist()
        ([2.0, 5.0], [1.0, 1.0])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean, scale = table.mean(axis=0), table.std(axis=0)
    is_usable = np.isfinite(mean) & np.isfinite(scale)
    if not is_usable.all():
        where = name.format(int(np.flatnonzero(~is_usable)[0]))
        raise ValueError(f"{where} has values too large to be standardized; rescale it")
    # A constant column's deviation is 0, or the rounding of its mean.
    is_constant = scale <= 10 * np.finfo(np.float64).eps * np.abs(mean)
    return Standard(mean, np.where(is_constant, 1.0, scale))
