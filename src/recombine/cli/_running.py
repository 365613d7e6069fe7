"""`recombine run` and the runs of `recombine demo`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from recombine.cli._errors import FAILED
from recombine.cli._printing import print_json
from recombine.experiments import SYSTEMS, SettingsError, find_row, load_systems, match_rows
from recombine.report import Summary, line_to_json, make_lines, summary_text
from recombine.results import Record, read_records

if TYPE_CHECKING:
    from recombine.engines import ProcessSettings, RaySettings, RowOutcome, RunRequest


def run_rows(
    patterns: Sequence[str],
    *,
    plugins: Sequence[str],
    variant: str,
    num_seeds: int | None,
    changes: Sequence[str],
    together: bool = False,
    engine: "ProcessSettings | RaySettings | None" = None,
    runs: Path,
    as_json: bool,
) -> None:
    """Runs all rows that match; a row that fails does not keep the others from running."""
    from recombine.engines import RunRequest

    if together and engine:
        raise SettingsError(
            "`--together` trains rows in one process, `--engine` spreads them over many; leave one "
            "of them out"
        )
    systems = load_systems(plugins)
    found = {row.id: row for pattern in patterns for row in match_rows(pattern, systems)}
    rows = list(found.values())
    if variant == "quick":
        rows = [row for row in rows if row.quick] or rows  # one alone says that it has none
    requests = [RunRequest.of(row, variant, num_seeds=num_seeds, changes=changes) for row in rows]
    if engine:
        failures = _run_by_workers(requests, runs, engine, plugins)
    else:
        failures = (_run_together if together else _run_all)(requests, runs)
    if as_json:
        hashes = {request.folder(runs).path for request in requests}
        records = [entry for entry in read_records(runs) if entry[0].path in hashes]
        lines = make_lines([request.row for request in requests], records)
        print_json([line_to_json(line) for line in lines])
    if failures:
        raise SystemExit(FAILED)


def run_demo(runs: Path) -> None:
    """Runs the quick rows that show the effect of every system."""
    from recombine.engines import RunRequest

    ids = [row_id for system in SYSTEMS.values() for row_id in system.demo]
    if _run_all([RunRequest.of(find_row(row_id), "quick") for row_id in ids], runs):
        raise SystemExit(FAILED)


def _run_all(requests: "Sequence[RunRequest]", runs: Path) -> list[str]:
    from recombine.engines import RunFailedError, run_row
    from recombine.results import RunHeldError
    from recombine.training import make_progress

    failures: list[str] = []

    def attempt(requests: "Sequence[RunRequest]", *, wait: bool) -> "list[RunRequest]":
        """Runs what it can, and returns what other processes are running."""
        held = []
        for request in requests:
            try:
                record = run_row(
                    request,
                    runs,
                    progress=make_progress(request.row.id, request.row.metric.name),
                    wait=wait,
                    on_wait=lambda who, row=request.row: _say(f"{row.id}: waiting for {who}"),
                )
            except RunHeldError:
                held.append(request)
            except RunFailedError as error:
                failures.append(request.row.id)
                _say(f"recombine: {error}")
            else:
                _say_done(request, record)
        return held

    # What another process is running is left for last: it may be finished by then.
    attempt(attempt(requests, wait=False), wait=True)
    return failures


def _run_together(requests: "Sequence[RunRequest]", runs: Path) -> list[str]:
    from recombine.engines import run_together
    from recombine.training import make_progress

    def progress_of(group: "Sequence[RunRequest]") -> object:
        row = group[0].row
        name = row.id if len(group) == 1 else f"{row.id} and {len(group) - 1} more"
        return make_progress(name, row.metric.name)

    outcomes = run_together(
        requests,
        runs,
        make_progress=progress_of,
        on_wait=lambda request, who: _say(f"{request.row.id}: waiting for {who}"),
        on_end=_say_outcome,
    )
    return [outcome.request.row.id for outcome in outcomes if outcome.record is None]


def _run_by_workers(
    requests: "Sequence[RunRequest]",
    runs: Path,
    engine: "ProcessSettings | RaySettings",
    plugins: Sequence[str],
) -> list[str]:
    from recombine.engines import RaySettings, run_in_processes, run_on_ray

    if isinstance(engine, RaySettings):
        outcomes = run_on_ray(requests, runs, settings=engine, plugins=plugins, on_end=_say_outcome)
    else:
        outcomes = run_in_processes(
            requests, runs, settings=engine, plugins=plugins, on_end=_say_outcome
        )
    failures = [outcome.request.row.id for outcome in outcomes if outcome.record is None]
    if failures:
        _say(f"recombine: {len(failures)} of {len(outcomes)} rows failed: {', '.join(failures)}")
    return failures


def _say_outcome(outcome: "RowOutcome") -> None:
    if outcome.record is not None:
        _say_done(outcome.request, outcome.record)
    else:
        _say(f"recombine: {outcome.error}")


def _say_done(request: "RunRequest", record: Record) -> None:
    metric = request.row.metric
    ours = summary_text(Summary.of(record.values(metric.name)), metric)
    _say(f"{request.row.id}: {metric.label} {ours}, {record.total_seconds:.0f} s")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
