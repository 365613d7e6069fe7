"""People's own few-shot tasks: tables to learn from and tables to be asked about, checked."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from recombine.estimators._labels import as_labels, is_missing

Predicts = Literal["classes", "numbers"]
"""What a row's target is: a label, or one or several numbers."""

NAMES = ("x_support", "y_support", "x_query", "y_query")


class Task(NamedTuple):
    """A small problem: rows to learn it from, and rows to be asked once it is learned.

    A plain tuple of the four arrays does as well, and so does a dict with these keys.

    Example:
        >>> task = Task(x_support=[[0.0], [1.0]], y_support=[1, 3], x_query=[[2.0]], y_query=[5])
        >>> len(task)
        4
    """

    x_support: Any
    y_support: Any
    x_query: Any
    y_query: Any


class ParsedTask(NamedTuple):
    """The same as arrays; numbers to predict have an axis of outputs, labels have none."""

    x_support: Float[np.ndarray, "shown features"]
    y_support: Shaped[np.ndarray, "shown ..."]
    x_query: Float[np.ndarray, "asked features"]
    y_query: Shaped[np.ndarray, "asked ..."]


def parse_tasks(tasks: Any, name: str, predicts: Predicts) -> list[ParsedTask]:
    """Checks people's tasks; `name` is what the argument is called."""
    if isinstance(tasks, str | Mapping | Task) or not isinstance(tasks, Iterable):
        raise TypeError(
            f"`{name}` must be a list of tasks, each of the arrays {', '.join(NAMES)}; got "
            f"{type(tasks).__name__}. For a single task, give a list with one element."
        )
    parsed = [_parse_task(task, f"`{name}`[{i}]", predicts) for i, task in enumerate(tasks)]
    if not parsed:
        raise ValueError(f"`{name}` must have at least one task; got none")
    for number, task in enumerate(parsed):
        _check_like(task, parsed[0], f"`{name}`[{number}]", f"`{name}`[0]")
    return parsed


def parse_rows(
    x: Any, y: Any, where: tuple[str, str], predicts: Predicts, without: str
) -> tuple[Float[np.ndarray, "rows features"], Shaped[np.ndarray, "rows ..."]]:
    """Checks a table and its targets; `without` says what it means when there are no rows."""
    rows = parse_inputs(x, where[0])
    targets = _parse_labels(y, where[1]) if predicts == "classes" else _parse_numbers(y, where[1])
    if len(rows) != len(targets):
        raise ValueError(
            f"{where[0]} has {len(rows)} rows, but {where[1]} has {len(targets)}; each row needs "
            f"its target"
        )
    if not len(rows):
        raise ValueError(f"{where[0]} has no rows: {without}")
    return rows, targets


def parse_inputs(x: Any, where: str) -> Float[np.ndarray, "rows features"]:
    """Checks a table of numbers."""
    rows = _as_floats(x, where)
    if rows.ndim == 1 and rows.size == 0:
        rows = rows.reshape(0, 1)  # an empty list, whose width nobody can know
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(
            f"{where} must be a table of rows and at least one column; got shape {rows.shape}"
        )
    return rows


def classes_of(tasks: Sequence[ParsedTask]) -> Shaped[np.ndarray, " classes"]:
    """Returns the labels of all tasks, sorted."""
    labels = [labels for task in tasks for labels in (task.y_support, task.y_query)]
    kinds = {"text" if array.dtype.kind in "US" else "numbers" for array in labels}
    try:
        if len(kinds) > 1:
            raise TypeError("some are text, some are numbers")
        classes = np.unique(np.concatenate(labels))
    except TypeError as error:
        raise ValueError(
            f"labels must be of one kind, all text or all numbers ({error})"
        ) from error
    if len(classes) < 2:
        raise ValueError(
            f"tasks must have at least two classes; all rows are of class {classes.tolist()[0]!r}"
        )
    return classes


def check_classes_shown(task: ParsedTask, where: str) -> None:
    """Refuses a task that asks about a class which its support does not show."""
    missing = np.setdiff1d(task.y_query, task.y_support)
    if len(missing):
        raise ValueError(
            f"{where} has queries of class {missing.tolist()[0]!r}, but no row of that class in "
            f"its support: nothing shows what the class is in this task. Move a row of it to the "
            f"support, or leave those queries out."
        )


def _parse_task(task: Any, where: str, predicts: Predicts) -> ParsedTask:
    if isinstance(task, Mapping):
        if set(task) != set(NAMES):
            found = ", ".join(map(repr, task)) or "none"
            raise ValueError(f"{where} must have exactly the keys {', '.join(NAMES)}; got {found}")
        task = [task[name] for name in NAMES]
    if isinstance(task, str) or not isinstance(task, Sequence) or len(task) != len(NAMES):
        raise ValueError(
            f"{where} must be the four arrays {', '.join(NAMES)}; got "
            f"{f'{len(task)} of them' if isinstance(task, Sequence) else type(task).__name__}"
        )
    x_support, y_support, x_query, y_query = task
    named = [f"{where}, {name}" for name in NAMES]
    shown = parse_rows(
        x_support, y_support, (named[0], named[1]), predicts, "a task needs rows to learn it from"
    )
    asked = parse_rows(x_query, y_query, (named[2], named[3]), predicts, "nothing would be asked")
    parsed = ParsedTask(*shown, *asked)
    if predicts == "classes":
        check_classes_shown(parsed, where)
    return parsed


def _check_like(task: ParsedTask, first: ParsedTask, where: str, of_first: str) -> None:
    width = first.x_support.shape[1]
    for name in ("x_support", "x_query"):
        found = getattr(task, name).shape[1]
        if found != width:
            raise ValueError(
                f"{where}, {name} has {found} columns, but {of_first}, x_support has {width}: all "
                f"tasks must have the same features"
            )
    outputs = first.y_support.shape[1:]
    for name in ("y_support", "y_query"):
        found = getattr(task, name).shape[1:]
        if found != outputs:
            raise ValueError(
                f"{where}, {name} has {found[0]} numbers in a row, but {of_first}, y_support has "
                f"{outputs[0]}: all tasks must have the same outputs"
            )


def _parse_labels(y: Any, where: str) -> Shaped[np.ndarray, " rows"]:
    labels = as_labels(y)
    if labels.ndim != 1:
        raise ValueError(f"{where} must have one label for each row; got shape {labels.shape}")
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise ValueError(f"{where} has labels that are missing or infinite")
        if (labels != np.round(labels)).any():
            raise ValueError(
                f"{where} has labels that are not whole, such as {labels[labels % 1 != 0][0]}; "
                f'for numbers in the place of classes, set `predicts="numbers"`'
            )
    if labels.dtype == object and any(map(is_missing, labels)):
        raise ValueError(f"{where} has labels that are missing")
    return labels


def _parse_numbers(y: Any, where: str) -> Float[np.ndarray, "rows outputs"]:
    numbers = _as_floats(y, where)
    if numbers.ndim == 1:
        numbers = numbers[:, None]
    if numbers.ndim != 2 or numbers.shape[1] == 0:
        raise ValueError(
            f"{where} must have one number, or a row of numbers, for each row; got shape "
            f"{numbers.shape}"
        )
    return numbers


def _as_floats(values: Any, where: str) -> Float[np.ndarray, "..."]:
    try:
        numbers = np.asarray(values, np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where} must be an array of numbers ({error})") from error
    if not np.isfinite(numbers).all():
        row = int(np.argwhere(~np.isfinite(numbers))[0][0])
        raise ValueError(f"{where} has a value that is missing or infinite, in row {row}")
    return numbers
