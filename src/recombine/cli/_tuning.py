"""`recombine tune`."""

import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recombine.cli._errors import STOPPED
from recombine.cli._printing import print_grid, print_json
from recombine.experiments import SettingsError, find_row, load_systems, settings_of
from recombine.results import StudyTable, provenance
from recombine.tuning import (
    StudyProgress,
    StudyRequest,
    StudyResult,
    TrialBatch,
    TrialOutcome,
    make_study_progress,
    run_study,
    run_trials,
    value_text,
)

if TYPE_CHECKING:
    from recombine.engines import RaySettings


def tune_row(
    row_id: str,
    *,
    variant: str,
    trials: int,
    metric: str | None,
    num_seeds: int,
    changes: Sequence[str],
    plugins: Sequence[str],
    runs: Path,
    as_json: bool,
    ray: "RaySettings | None" = None,
    **settings: Any,
) -> None:
    """Searches the settings of a row, and prints the best with the command that runs it."""
    row = find_row(row_id, load_systems(plugins))
    request = StudyRequest.of(
        row,
        variant,
        trials=trials,
        metric=metric,
        num_seeds=num_seeds,
        changes=changes,
        plugins=tuple(plugins),
        **settings,
    )
    if ray and request.pruner != "none":
        raise SettingsError(
            f"`--pruner {request.pruner}` looks at trials while they are trained, which "
            f"`--engine ray` cannot; use `--pruner none`"
        )
    _say(f"{row.id}: {_chosen_by(request)}")
    result = search(request, runs, ray)
    if as_json:
        print_json(study_to_json(result))
    else:
        print_study(request, result)
    if not result.is_done:
        _say(f"recombine: {result.record.error}; the same command goes on from there")
        if "Ctrl-C" in (result.record.error or ""):
            raise SystemExit(STOPPED)


def search(request: StudyRequest, runs: Path, ray: "RaySettings | None") -> StudyResult:
    """Runs the search here or on a cluster, with its progress on the error output."""
    from recombine.training import Interrupted

    progress = make_study_progress(request.row.id)
    try:
        if ray:
            return _search_on_ray(request, runs, ray, progress)
        return run_study(request, runs, progress=progress)
    except Interrupted:
        _say(
            "recombine: stopped; finished trials are kept, and the same command goes on with the "
            "others"
        )
        raise SystemExit(STOPPED) from None


def _search_on_ray(
    request: StudyRequest, runs: Path, ray: "RaySettings", progress: StudyProgress
) -> StudyResult:
    """Asks and tells here, and has every batch of trials trained by a task."""
    from recombine.engines import calls_on_ray

    plugins = tuple(os.path.abspath(p) if Path(p).is_file() else p for p in request.plugins)
    with calls_on_ray(runs, settings=ray, on_death=_say) as call:

        def run(batch: TrialBatch, **_: Any) -> list[TrialOutcome]:
            return call(run_trials, dataclasses.replace(batch, plugins=plugins))

        return run_study(
            request,
            runs,
            progress=progress,
            run=run,
            workers=max(call.num_slots, 1),
            made_by=call(provenance),
        )


def print_study(request: StudyRequest, result: StudyResult) -> None:
    """Prints the best setting beside the row's own."""
    table, best = result.table, result.table.best
    counts = ", ".join(
        f"{table.count(state)} {state}"
        for state in ("complete", "pruned", "failed", "running")
        if table.count(state)
    )
    print(f"{request.row.id}: {counts or 'no trials'} [{result.folder.path}]")
    if best is None:
        errors = [trial.error for trial in table.trials if trial.error]
        print(f"no trial is complete{'; the first failed: ' + errors[0] if errors else ''}")
        return
    print(
        f"best: trial {best.number}, {table.label} {value_text(best.value, table)}, "
        f"{table.chosen_by}"
    )
    own = settings_of(request.row.variant(request.variant_name))
    rows = [
        (name, str(own[name]), _short(value), _importance(table, name))
        for name, value in best.settings.items()
    ]
    print_grid(("setting", "row's own", "best", "importance"), rows)
    if request.variant_name != "tiny":  # which `run` does not offer
        print(table.command)


def study_to_json(result: StudyResult) -> dict[str, Any]:
    """Returns the documented, stable form of a search (see the command line page)."""
    record, table, best = result.record, result.table, result.table.best
    search = record.config["search"]
    return {
        "id": record.row.rpartition("/")[0],
        "variant": record.variant,
        "status": record.status,
        "metric": table.metric,
        "higher_is_better": table.higher_is_better,
        "by_test": table.by_test,
        "sampler": search["sampler"],
        "space": search["space"],
        "trials": [vars(trial) for trial in table.trials],
        "best": None if best is None else vars(best),
        "importances": table.importances,
        "command": table.command,
        "folder": str(result.folder.path),
        "seconds": record.total_seconds,
    }


def _chosen_by(request: StudyRequest) -> str:
    name = request.metric.label
    if request.by_test:
        note = ", as the paper's protocol does" if request.is_as_published else ""
        return f"settings are chosen by TEST data ({name}){note}"
    return f"settings are chosen by {name}"


def _importance(table: StudyTable, name: str) -> str:
    return f"{100 * table.importances[name]:.0f} %" if name in table.importances else ""


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
