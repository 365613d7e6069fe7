"""What is searched: a row, its space, and how; checked before anything is started."""

import dataclasses
import difflib
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from recombine.experiments import (
    Choice,
    Metric,
    Range,
    Row,
    SettingsError,
    Variant,
    change_settings,
    match_rows,
    range_to_json,
)
from recombine.results import RunFolder, run_hash, study_row
from recombine.tuning._errors import StudyError

SamplerName = Literal["tpe", "random", "grid"]
"""Tree-structured Parzen estimation, independent draws, or every combination."""

PrunerName = Literal["none", "median", "halving"]
"""Nobody is stopped; whoever is below the median of the others; all but the best quarter."""

MAX_GRID = 100_000


@dataclass(frozen=True)
class StudyRequest:
    """A search over the settings of a row."""

    row: Row
    variant_name: str
    variant: Variant  # with what is set apart
    changes: tuple[str, ...]  # what is set apart, as texts
    space: Mapping[str, Range]
    metric: Metric
    by_test: bool
    trials: int
    batch: int = 1
    sampler: SamplerName = "tpe"
    sampler_seed: int = 0
    pruner: PrunerName = "none"
    seeds: tuple[int, ...] = (0,)
    timeout: float | None = None  # in seconds
    storage: str | None = None  # a URL or a file; else a journal beside the record
    plugins: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        row: Row,
        variant_name: str = "full",
        *,
        trials: int,
        metric: str | None = None,
        num_seeds: int = 1,
        changes: Sequence[str] = (),
        **settings: Any,
    ) -> "StudyRequest":
        """Takes a row's search space, less the settings that `changes` fix.

        Args:
            row: declares a `search`.
            variant_name: "full", "quick" or "tiny".
            trials: how many in total, those of earlier calls included.
            metric: one that the row names, in place of the search's own.
            num_seeds: how many seeds each trial is trained with; its value is their mean.
            changes: `key=value` texts; one that is searched otherwise stays fixed.
            settings: the other fields.

        Raises:
            StudyError: the row has no search space, or it does not fit what is asked.
        """
        search = row.search
        if search is None:
            raise StudyError(f"{row.id} declares no search space; try {_rows_with_one(row.id)}")
        part = search.of(variant_name)
        variant, _ = change_settings(row.variant(variant_name), [*part.changes, *changes])
        fixed = {text.partition("=")[0] for text in changes}
        space = {name: range_ for name, range_ in part.ranges.items() if name not in fixed}
        chosen = _find_metric(row, metric)
        request = cls(
            row=row,
            variant_name=variant_name,
            variant=variant,
            changes=(*part.changes, *changes),
            space=space,
            metric=chosen,
            by_test=_is_by_test(row, chosen),
            trials=trials,
            seeds=tuple(range(num_seeds)),
            **settings,
        )
        request.check()
        return request

    def check(self) -> None:
        """Raises `StudyError` for what cannot be searched."""
        for name, least in (("trials", 1), ("batch", 1)):
            if getattr(self, name) < least:
                raise StudyError(f"`{name}` must be at least {least}; got {getattr(self, name)}")
        if not self.seeds:
            raise StudyError("each trial needs at least one seed; got 0")
        for name, kinds in (("sampler", SamplerName), ("pruner", PrunerName)):
            if getattr(self, name) not in get_args(kinds):
                known = ", ".join(get_args(kinds))
                raise StudyError(f"`{name}` is one of {known}; got {getattr(self, name)!r}")
        if not self.space:
            raise StudyError(
                f"nothing is left to search of {self.row.id}: every setting of its search space "
                f"is fixed"
            )
        for name, range_ in self.space.items():
            for value in _ends(range_):
                try:
                    change_settings(self.variant, [setting_text(name, value)])
                except SettingsError as error:
                    raise StudyError(
                        f"the search space of {self.row.id} does not fit its config: {error}"
                    ) from error
        if self.sampler == "grid":
            self.grid_size()

    def grid_size(self) -> int:
        """Returns how many combinations a grid has; a range without points has none."""
        sizes = []
        for name, range_ in self.space.items():
            points = range_.grid()
            if points is None:
                raise StudyError(
                    f"`{name}` is a continuous range ({range_.low} to {range_.high}) without "  # pyright: ignore[reportAttributeAccessIssue]
                    f"points, and has no grid: give the range `points`, fix it with "
                    f"`--set {name}=...`, or use the tpe or random sampler"
                )
            sizes.append(len(points))
        size = math.prod(sizes)
        if size > MAX_GRID:
            raise StudyError(
                f"the grid has {size:,} points, more than {MAX_GRID:,}; fix some settings with "
                f"`--set`, or use another sampler"
            )
        return size

    @property
    def is_as_published(self) -> bool:
        """Whether settings are chosen by test data because the paper does so."""
        search = self.row.search
        own = search is not None and search.by_test and self.metric.name == search.metric.name
        return self.by_test and own

    @property
    def search(self) -> dict[str, Any]:
        """The search as plain data: all that makes two searches the same one."""
        return {
            "space": {name: range_to_json(range_) for name, range_ in self.space.items()},
            "metric": self.metric.name,
            "direction": "maximize" if self.metric.higher_is_better else "minimize",
            "by_test": self.by_test,
            "sampler": self.sampler,
            "sampler_seed": self.sampler_seed,
            "pruner": self.pruner,
        }

    @property
    def base(self) -> dict[str, Any]:
        """The config that trials start from, as plain data."""
        return json.loads(json.dumps(dataclasses.asdict(self.variant.config)))

    @property
    def config(self) -> dict[str, Any]:
        """What the record holds as its config."""
        return {
            "search": self.search,
            "trials": self.trials,
            "batch": self.batch,
            "base": self.base,
        }

    @property
    def name(self) -> str:
        """The study's name in its storage; more trials, or another batch, are the same study."""
        variant = self.variant
        identity = {"search": self.search, "base": self.base}
        digest = run_hash(
            study_row(self.row.id), identity, variant.steps, variant.eval_every, self.seeds
        )
        return f"{self.variant_name}-{digest}"

    def folder(self, runs: str | Path) -> RunFolder:
        """Returns where the study lives."""
        return RunFolder(Path(runs) / study_row(self.row.id) / self.name)

    def texts(self, settings: Mapping[str, Any]) -> tuple[str, ...]:
        """Returns all `key=value` texts of one trial."""
        return (*self.changes, *(setting_text(name, value) for name, value in settings.items()))

    def changed(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Returns how the settings of a trial differ from the row's variant."""
        _, changed = change_settings(self.row.variant(self.variant_name), self.texts(settings))
        return json.loads(json.dumps(changed))

    def command(self, settings: Mapping[str, Any]) -> str:
        """Returns the command that runs a trial's settings with the row's own seeds."""
        words = ["recombine", "run", self.row.id]
        words += ["--quick"] if self.variant_name == "quick" else []
        for name, value in self.changed(settings).items():
            words += ["--set", setting_text(name, value)]
        words += [word for plugin in self.plugins for word in ("--plugin", plugin)]
        return shlex.join(words)


def setting_text(name: str, value: Any) -> str:
    """Writes a setting as `change_settings` reads it.

    Example:
        >>> setting_text("learning_rate", 0.01), setting_text("rescale", None)
        ('learning_rate=0.01', 'rescale=null')
    """
    if isinstance(value, str):
        try:
            json.loads(value)
        except json.JSONDecodeError:
            return f"{name}={value}"  # a word needs no quotes
    return f"{name}={json.dumps(value)}"


def _ends(range_: Range) -> Sequence[Any]:
    return range_.values if isinstance(range_, Choice) else (range_.low, range_.high)


def _find_metric(row: Row, name: str | None) -> Metric:
    assert row.search is not None
    known = [row.search.metric, *row.also, row.metric]
    if name is None:
        return row.search.metric
    for metric in known:
        if metric.name == name:
            return metric
    names = list(dict.fromkeys(metric.name for metric in known))
    near = difflib.get_close_matches(name, names) or names
    raise StudyError(f"{row.id} knows no metric {name!r} to search by; try {', '.join(near)}")


def _is_by_test(row: Row, metric: Metric) -> bool:
    """Says whether a metric is measured on what the row is judged by."""
    assert row.search is not None
    if metric.name == row.search.metric.name:
        return row.search.by_test
    return metric.name == row.metric.name or "test" in metric.name


def _rows_with_one(row_id: str) -> str:
    ids = [row.id for row in match_rows("*") if row.search]
    near = difflib.get_close_matches(row_id, ids, cutoff=0.4) or ids[:3]
    return ", ".join(near)
