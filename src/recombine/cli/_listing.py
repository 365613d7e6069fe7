"""`recombine list` and `recombine show`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recombine.cli._printing import print_grid, print_json
from recombine.experiments import (
    Row,
    Variant,
    find_row,
    load_systems,
    match_rows,
    range_to_text,
    settings_of,
)
from recombine.report import (
    FoundStudy,
    Line,
    Summary,
    find_studies,
    line_to_json,
    make_lines,
    selected_text,
    study_to_json,
    summary_text,
)
from recombine.results import evidence_folder, read_records


def print_rows(pattern: str, *, plugins: Sequence[str], as_json: bool) -> None:
    """Prints one line for every row."""
    rows = match_rows(pattern, load_systems(plugins))
    if as_json:
        print_json([_summary(row) for row in rows])
        return
    print_grid(
        ("row", "paper", "quick"),
        [(row.id, _paper(row), "yes" if row.quick else "no") for row in rows],
    )


def print_row(
    row_id: str,
    *,
    plugins: Sequence[str],
    runs: Path,
    evidence: bool,
    pictures: Path | None,
    as_json: bool,
) -> None:
    """Prints everything about one row, and writes its pictures if there is a folder for them."""
    row = find_row(row_id, load_systems(plugins))
    records = read_records(evidence_folder() if evidence else runs)  # a row need not have been run
    lines = make_lines([row], records)
    _print_row(row, lines, find_studies([row], records), as_json=as_json)
    if pictures is not None:
        _write_pictures(lines, pictures)


def _write_pictures(lines: list[Line], folder: Path) -> None:
    from recombine.report import save_pictures  # draws with matplotlib

    paths = save_pictures(lines, folder)
    for path in paths:
        print(f"picture: {path.resolve()}", file=sys.stderr)
    if not paths:
        print(
            "no picture: the row draws none, or no finished run has left what it draws",
            file=sys.stderr,
        )


def _print_row(row: Row, lines: list[Line], studies: list[FoundStudy], *, as_json: bool) -> None:
    if as_json:
        variants = {"full": row.full, **({"quick": row.quick} if row.quick else {})}
        print_json(
            {
                **_summary(row),
                "settings": {name: _settings(variant) for name, variant in variants.items()},
                "runs": [line_to_json(line) for line in lines if line.record],
                "searches": [study_to_json(study) for study in studies],
            }
        )
        return
    print(f"{row.id}\n{row.claim}\n")
    words = f" ({row.paper.words})" if row.paper.words else ""
    print(f"paper: {row.metric.label} {_paper(row)}; {row.paper.source}{words}\n")
    full = _settings(row.full)
    quick = _settings(row.quick) if row.quick else {}
    space = row.search.space if row.search else {}
    searched = {name: range_to_text(range_) for name, range_ in space.items()}
    print_grid(
        ("setting", "full", "quick", "searched"),
        [
            (name, str(full.get(name, "")), str(quick.get(name, "")), searched.get(name, ""))
            for name in {**full, **quick}  # a quick variant may have settings of its own
        ],
    )
    for name, variant in (("full", row.full), ("quick", row.quick)):
        if variant and variant.note:
            print(f"{name}: {variant.note}")
    print()
    for line in lines:
        ours = summary_text(line.ours, row.metric)
        where = f" [{line.folder.path}]" if line.folder else ""
        print(f"{line.status}: {ours}, {line.verdict.word} ({line.verdict.reason}){where}")
        if selected := selected_text(line):
            print(f"{line.status}: {selected}")
    for study in studies:
        print(f"{study.status}: best {study.value}; {study.summary} [{study.folder.path}]")


def _summary(row: Row) -> dict[str, Any]:
    return {
        "id": row.id,
        "claim": row.claim,
        "method": row.method,
        "metric": row.metric.name,
        "higher_is_better": row.metric.higher_is_better,
        "paper": {"mean": row.paper.mean, "sd": row.paper.sd, "n": row.paper.n},
        "source": row.paper.source,
        "words": row.paper.words,
        "has_quick": row.quick is not None,
        "has_search": row.search is not None,
    }


def _settings(variant: Variant) -> dict[str, Any]:
    return {**settings_of(variant), "seeds": variant.num_seeds}


def _paper(row: Row) -> str:
    return summary_text(Summary(row.paper.mean, row.paper.sd, row.paper.n), row.metric)
