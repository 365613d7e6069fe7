"""What `recombine tune` may search of a synthetic row: the ranges of Tables B.1 and B.2.

They are those of the random searches (`SearchConfig`), between whose extremes a search is free; the
points of a grid are the tables' own values. Sizes belong to the full search only: each combination
is a program of its own.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from recombine.experiments._metric import Metric
from recombine.experiments._search import Choice, LogUniform, Range, Search, Space, Uniform
from recombine.experiments.agreement._config import (
    DannConfig,
    FishrConfig,
    IrmConfig,
    SearchConfig,
    SpiralsConfig,
    VrexConfig,
)

TABLE_B1 = SearchConfig(method="and-mask")
# Table B.2 has neither dropout nor weight regularizers.
TABLE_B2 = SearchConfig(
    method="irm", learning_rates=(1e-3, 1e-2, 1e-1, 1.0), dropouts=(0.0,), l1=(), l2=()
)
BY_TEST = Metric("test_accuracy", "test accuracy")
REGULARIZERS = ("l1", "l2", "dropout")


def make_search(
    config: SpiralsConfig,
    *,
    regularizers: tuple[str, ...] = (),
    quick_changes: tuple[str, ...] = (),
) -> Search:
    """Returns the search of a row: sizes, rate, what its method has, and some regularizers.

    Args:
        config: the row's; only settings that it has are searched.
        regularizers: which of "l1", "l2" and "dropout" are searched too.
        quick_changes: what is set apart from the quick variant.
    """
    is_penalty = isinstance(config, IrmConfig | VrexConfig | FishrConfig)
    table = TABLE_B2 if isinstance(config, IrmConfig) else TABLE_B1
    numbers = {
        name: range_
        for name, range_ in _numbers(table).items()
        if name in _names(config) and (name not in REGULARIZERS or name in regularizers)
    }
    if getattr(config, "threshold", None) == 0:  # the plain mean has no mask to be searched
        numbers = {n: r for n, r in numbers.items() if n not in ("threshold", "rescale")}
    printed = "Table B.2" if isinstance(config, IrmConfig) else "Table B.1"
    note = f"ranges of {printed}; the number of steps is the row's for every batch size"
    if is_penalty and not isinstance(config, IrmConfig):
        note += ". The thesis does not have this method: its penalty's range is that of IRM"
    return Search(
        {**_sizes(table, config), **numbers},
        metric=BY_TEST,
        by_test=True,
        note=note,
        quick=Space(numbers, quick_changes),
    )


def _names(config: SpiralsConfig) -> set[str]:
    return {field.name for field in fields(config)}


def _sizes(table: SearchConfig, config: SpiralsConfig) -> dict[str, Range]:
    sizes: dict[str, Range] = {
        "hidden_units": Choice(table.hidden_units),
        "hidden_layers": Choice(table.hidden_layers),
        "batch_size": Choice(table.batch_sizes),
    }
    if isinstance(config, DannConfig):  # its parts have two layers each
        del sizes["hidden_layers"]
    return sizes


def _numbers(table: SearchConfig) -> Mapping[str, Range]:
    low, high = (10.0**exponent for exponent in table.reversal_exponents)
    return {
        "learning_rate": _magnitudes(table.learning_rates),
        "threshold": Uniform(*_ends(table.thresholds), points=len(table.thresholds)),
        "rescale": Choice((None, "tensor")),
        "penalty_weight": _magnitudes(table.penalty_weights),
        "anneal_epochs": Choice(table.anneal_epochs),
        "reversal": LogUniform(low, high, points=5),
        "dropout": Choice(table.dropouts),
        "l2": _magnitudes(table.l2 or TABLE_B1.l2),
        "l1": _magnitudes(table.l1 or TABLE_B1.l1),
    }


def _magnitudes(values: tuple[float, ...]) -> LogUniform:
    return LogUniform(*_ends(values), points=len(values))


def _ends(values: tuple[float, ...]) -> tuple[Any, Any]:
    return min(values), max(values)
