"""Checks of the estimators' parameters."""

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np


def check_number(
    name: str, value: Any, *, least: float | None = None, above: float | None = None
) -> None:
    """Refuses what is not a number in the range, under the parameter's name."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"`{name}` must be a number; got {value!r}")
    if not abs(float(value)) <= float(np.finfo(np.float32).max):
        raise ValueError(f"`{name}` must be finite in single precision; got {value!r}")
    if least is not None and value < least:
        raise ValueError(f"`{name}` must be at least {least:g}; got {value!r}")
    if above is not None and value <= above:
        raise ValueError(f"`{name}` must be above {above:g}; got {value!r}")


def check_count(name: str, value: Any) -> None:
    """Refuses what is not a whole number from 1 up, under the parameter's name."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise TypeError(f"`{name}` must be made of whole numbers; got {value!r}")
    if value < 1:
        raise ValueError(f"`{name}` must be at least 1; got {value!r}")


def check_sizes(name: str, value: Any, *, example: str, least: int = 0) -> None:
    """Refuses what is not a list of layers' sizes with `least` entries or more."""
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray) or len(value) < least:
        at_least = ", at least one" if least else ""
        raise TypeError(
            f"`{name}` must list the units of each hidden layer{at_least}, such as {example}; got "
            f"{value!r}"
        )
    for size in value:
        check_count(name, size)
