"""Writes `docs/results.md` from the records in `evidence/`; `make results` calls it.

The page is a pure function of the records and of the rows: a test makes it again in memory and
fails when it differs from the file. With `--check` this script does the same and writes nothing.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recombine.experiments import SYSTEMS, Group, System
from recombine.report import (
    FoundStudy,
    Line,
    find_studies,
    make_lines,
    selected_text,
    to_markdown,
)
from recombine.results import Record, RunFolder, read_records

ROOT = Path(__file__).resolve().parent.parent
EVIDENCE = ROOT / "evidence"
PAGE = ROOT / "docs" / "results.md"

Records = Sequence[tuple[RunFolder, Record]]

HEADER = """\
<!-- Generated from evidence/ by `make results` (docs/make_results.py). Do not edit. -->

# Results

This page is generated from the records in `evidence/` by `make results`. A number stands here only
if a record stands behind it; a row without a record is shown as not run, and a row that misses the
paper's value stays.

- **paper** is the printed value, **ours** the mean over seeds ± the standard deviation (n − 1).
- **verdict** follows a rule that the row states before it is run. A full run is *reproduced* or
  *missed*; a quick run only shows an effect. *Not judged* means that settings were changed, or that
  a row to compare with has not been run. The reasons stand below each table.
- **time** is compiling and running, all seeds together.

`recombine table --evidence` prints the same lines.
"""


def render(records: Records, benchmarks: Sequence[dict[str, Any]] = ()) -> str:
    """Returns the page."""
    parts = [HEADER, *(_system(system, records) for system in SYSTEMS.values())]
    if benchmarks:
        parts.append("## Speed\n\nFrom `make bench`; each pair of times was taken in one run.\n")
        parts += [_benchmark(benchmark) for benchmark in benchmarks]
    return "\n".join(parts)


def read_benchmarks(evidence: Path) -> list[dict[str, Any]]:
    """Returns what `make bench` wrote, machine by machine."""
    return [json.loads(path.read_text()) for path in sorted(evidence.glob("benchmarks/*.json"))]


def _system(system: System, records: Records) -> str:
    parts = [f"## {system.title}\n\n{system.summary}\n"]
    parts += [_group(group, records) for group in system.groups]
    return "\n".join(parts)


def _group(group: Group, records: Records) -> str:
    lines = make_lines(group.rows, records)
    reasons = "\n".join(_reason(line) for line in lines)
    parts = [
        f"### {group.title}\n\n{group.source}. Rows `{group.id}/*`.\n",
        to_markdown(lines),
        f"Why these verdicts:\n\n{reasons}\n",
    ]
    if any(line.record for line in lines):
        parts.append(_provenance([line for line in lines if line.record]))
    if studies := find_studies(group.rows, records):
        parts.append("Searches of settings:\n\n" + "\n".join(map(_study, studies)) + "\n")
    return "\n".join(parts)


def _reason(line: Line) -> str:
    text = f"- `{line.row.id}` ({line.status}): **{line.verdict.word}**; {line.verdict.reason}."
    words = f" ({line.paper.words})" if line.paper.words else ""
    text += f" Paper: {line.paper.source}{words}."
    if line.record and (note := line.row.variant(line.record.variant).note):
        text += f" Setting: {note}."
    if selected := selected_text(line):
        text += f" Beside the last step: {selected}."
    return text


def _study(study: FoundStudy) -> str:
    record = study.record
    return (
        f"- `{study.row.id}` ({study.status}): best {study.table.label} **{study.value}**; "
        f"{study.summary}. {record.total_seconds:.0f} s for all trials, of which "
        f"{record.seconds.get('compile', 0.0):.0f} s compiling, on {record.provenance.device}; "
        f"record `{study.folder.path.name}`, commit `{_short(record.provenance.commit)}`. "
        f"`{study.table.command}`"
    )


def _provenance(lines: Sequence[Line]) -> str:
    columns = (
        "row",
        "run",
        "device",
        "seeds",
        "compile",
        "run time",
        "finished",
        "commit",
        "record",
    )
    rows = [columns, ("---",) * len(columns)]
    for line in lines:
        assert line.record is not None
        rows.append(_provenance_cells(line.record, line.status))
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    return f"Where they come from:\n\n{table}\n"


def _provenance_cells(record: Record, status: str) -> tuple[str, ...]:
    source = record.provenance
    versions = f"recombine {source.versions['recombine']}, jax {source.versions['jax']}"
    return (
        record.row,
        status,
        source.device + (f" × {source.num_devices}" if source.num_devices > 1 else ""),
        _seeds(record.seeds),
        f"{record.seconds.get('compile', 0.0):.1f} s",
        f"{record.seconds.get('run', 0.0):.1f} s",
        record.finished or "–",
        f"`{_short(source.commit)}`, {versions}",
        f"`{record.variant}-{record.hash}`",
    )


def _benchmark(benchmark: dict[str, Any]) -> str:
    machine = benchmark["machine"]
    columns = ("what", "time", "against", "time", "ratio", "target")
    rows = [columns, ("---",) * len(columns)]
    rows += [
        (
            line["name"],
            _amount(line, ""),
            line["against"],
            _amount(line, "against_"),
            f"{line['ratio']:.3g}",
            line["target"],
        )
        for line in benchmark["results"]
    ]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    jax = machine["versions"]["jax"]
    return (
        f"### {machine['device']}\n\nJAX {jax}, commit `{_short(machine['commit'])}`.\n\n{table}\n"
    )


def _amount(line: dict[str, Any], side: str) -> str:
    """Returns what was measured of one side: a time, a size in memory, or a share."""
    if f"{side}share" in line:
        return f"{line[f'{side}share']:.2%}"
    if f"{side}bytes" in line:
        return f"{line[f'{side}bytes'] / 2**20:.0f} MB"
    return _time(line[f"{side}seconds"])


def _time(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def _short(commit: str | None) -> str:
    if commit is None:
        return "unknown"
    name, dash, mark = commit.partition("-")  # "-modified": the checkout had other changes
    return name[:12] + dash + mark


def _seeds(seeds: Sequence[int]) -> str:
    if list(seeds) == list(range(len(seeds))) and len(seeds) > 2:
        return f"0 to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def main(arguments: Sequence[str]) -> int:
    """Writes the page, or with `--check` says whether it is up to date."""
    page = render(read_records(EVIDENCE), read_benchmarks(EVIDENCE))
    if "--check" in arguments:
        if PAGE.read_text() == page:
            return 0
        print(f"{PAGE} and {EVIDENCE} disagree; run `make results`", file=sys.stderr)
        return 1
    PAGE.write_text(page)
    print(f"wrote {PAGE}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
