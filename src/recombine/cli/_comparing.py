"""`recombine compare`."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from recombine.cli._printing import print_grid, print_json
from recombine.experiments import Row, System, load_systems, match_rows
from recombine.report import (
    ComparisonError,
    Line,
    choose_runs,
    compare_runs,
    comparison_table,
    comparison_to_json,
    comparison_to_markdown,
    make_lines,
    study_line,
)
from recombine.results import (
    RecordError,
    RunFolder,
    evidence_folder,
    read_records,
    studied_row,
)

PLOTS = (".png", ".svg")


def print_comparison(
    what: Sequence[str],
    *,
    metric: str | None,
    reference: str | None,
    variant: str | None,
    plot: Path | None,
    plugins: Sequence[str],
    runs: Path,
    evidence: bool,
    markdown: bool,
    as_json: bool,
) -> None:
    """Prints rows and runs side by side, and draws them if there is a file for it."""
    if plot is not None and plot.suffix.lower() not in PLOTS:
        raise typer.BadParameter(f"{plot} must end with .png or .svg", param_hint="--plot")
    systems = load_systems(plugins)
    folder = evidence_folder() if evidence else runs
    lines = _find_runs(what, systems, folder, variant)
    found = compare_runs(lines, metric=metric, reference=_place(reference))
    if as_json:
        print_json(comparison_to_json(found))
    elif markdown:
        print(comparison_to_markdown(found), end="")
    else:
        heads, *rows = comparison_table(found)
        print_grid(heads, rows)
        print("\n".join((found.legend, *found.notes)))
    if plot is not None:
        from recombine.report import save_comparison  # draws with matplotlib

        save_comparison(found, plot)
        print(f"plot: {plot.resolve()}", file=sys.stderr)


def _find_runs(
    what: Sequence[str], systems: Mapping[str, System], folder: Path, variant: str | None
) -> list[Line]:
    """Returns the runs that are named, in that order, each once."""
    named = {text: _read_run(Path(text), systems) for text in what if _is_run(text)}
    rows_of = {text: match_rows(text, systems) for text in what if text not in named}
    rows = list({row.id: row for rows in rows_of.values() for row in rows}.values())
    beside = list(named.values())
    chosen = choose_runs(rows, read_records(folder), variant=variant, beside=beside)
    run_of = {line.row.id: line for line in chosen}
    _tell_missing([row for row in rows if row.id not in run_of], what, folder, variant)
    lines: list[Line] = []
    for text in what:
        rows = rows_of.get(text, ())
        lines += [named[text]] if text in named else [run_of[r.id] for r in rows if r.id in run_of]
    return list({line.folder.path.resolve(): line for line in lines if line.folder}.values())


def _is_run(text: str) -> bool:
    """Says whether an argument is the folder of a run; anything else is a pattern of rows."""
    return (Path(text) / "record.json").is_file()


def _read_run(path: Path, systems: Mapping[str, System]) -> Line:
    try:
        record = RunFolder(path).read()
    except RecordError as error:
        raise ComparisonError(f"{path / 'record.json'} is no record: {error}") from error
    assert record is not None
    known = {row.id: row for row in match_rows("*", systems)}
    row_id = studied_row(record) or record.row
    if row_id not in known:
        raise ComparisonError(
            f"{path} is a run of {row_id}, which is no known row; name its `--plugin`"
        )
    if row_id != record.row:  # a search: its best trial
        return study_line(known[row_id], RunFolder(path), record)
    return make_lines([known[record.row]], [(RunFolder(path), record)])[0]


def _tell_missing(
    rows: Sequence[Row], what: Sequence[str], folder: Path, variant: str | None
) -> None:
    """Refuses rows that were named and have no run; those that a pattern found are mentioned."""
    wanted = f"finished {variant} run" if variant else "finished run"
    for row in rows:
        problem = f"{row.id} has no {wanted} with unchanged settings in {folder}"
        if row.id in what:
            raise ComparisonError(f"{problem}; run it first, or name the folder of a run")
        print(f"recombine: {problem}; it is left out", file=sys.stderr)


def _place(reference: str | None) -> str | Path | None:
    """Returns the folder of a run where one is meant; other texts stay."""
    return Path(reference) if reference is not None and _is_run(reference) else reference
