"""The HTML page: one file that holds everything and asks the network for nothing."""

import base64
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from recombine.experiments import SYSTEMS, Group, System
from recombine.report._charts import DrawnChart, draw_charts
from recombine.report._curves import Curve, CurveFigure, draw_curves, read_curves
from recombine.report._entries import TONES, Entry, tone_of
from recombine.report._gallery import Comparison, draw_pictures
from recombine.report._lines import Records, make_lines
from recombine.report._searches import DrawnStudy, draw_studies
from recombine.results import Record, studied_row, write_atomically


class GroupSection(NamedTuple):
    """The rows of one table or figure, with all there is to see of them."""

    group: Group
    entries: list[Entry]
    curves: list[Curve]
    charts: list[DrawnChart]
    figures: list[CurveFigure]
    comparisons: list[Comparison]
    studies: list[DrawnStudy]


class SystemSection(NamedTuple):
    """One system, group by group."""

    system: System
    groups: list[GroupSection]

    @property
    def tally(self) -> list[tuple[str, str, int]]:
        """How often each verdict was given: word, tone, count."""
        return tally(entry for section in self.groups for entry in section.entries)


class Origin(NamedTuple):
    """Where the records come from, in words."""

    label: str
    values: list[str]


def write_page(
    path: str | Path, records: Records, *, systems: Mapping[str, System] | None = None
) -> None:
    """Writes the page to a file, whole or not at all.

    Args:
        path: the file; its folder must exist.
        records: as `read_records` returns them.
        systems: as for `render_page`.

    Raises:
        OSError: the file cannot be written there; the message says why.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"the report cannot be written to {path}: there is no folder {path.parent}; "
            "make it first, or choose another place"
        )
    if path.is_dir():
        raise IsADirectoryError(
            f"the report cannot be written to {path}: that is a folder; add a file name"
        )
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(
            f"the report cannot be written to {path}: no permission to write in {path.parent}"
        )
    page = render_page(records, systems=systems).encode()
    try:
        write_atomically(path, lambda file: file.write(page))
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"the report cannot be written to {path}: {reason}") from error


def render_page(records: Records, *, systems: Mapping[str, System] | None = None) -> str:
    """Returns the report of all rows as one HTML page; equal records give equal pages.

    Args:
        records: as `read_records` returns them; none is fine, every row is then "not run".
        systems: whose rows to show; our own by default.

    Example:
        >>> "not run" in render_page([])
        True
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("recombine.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    chosen = SYSTEMS if systems is None else systems
    sections = [_system_section(system, records) for system in chosen.values()]
    known = {row.id for section in sections for row in section.system.rows}
    # These two are ours and hold no data, so they need no escaping.
    style, script = (Markup(_source(environment, name)) for name in ("page.css", "page.js"))
    return environment.get_template("page.html.j2").render(
        sections=sections,
        tally=tally(e for s in sections for g in s.groups for e in g.entries),
        origins=_origins([record for _, record in records if record.row in known]),
        strangers=sorted({studied_row(record) or record.row for _, record in records} - known),
        style=style,
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def tally(entries: Iterable[Entry]) -> list[tuple[str, str, int]]:
    """Counts verdicts: word, tone, count, the good ones first, in the same order everywhere."""
    counts = Counter(entry.line.verdict.word for entry in entries)
    neutral = sorted(counts.keys() - TONES.keys())
    return [(word, tone_of(word), counts[word]) for word in (*TONES, *neutral) if word in counts]


def _system_section(system: System, records: Records) -> SystemSection:
    return SystemSection(system, [_group_section(group, records) for group in system.groups])


def _group_section(group: Group, records: Records) -> GroupSection:
    lines = make_lines(group.rows, records)
    curves = read_curves(lines)
    return GroupSection(
        group,
        [Entry(line) for line in lines],
        curves,
        draw_charts(group.charts, lines, name=group.id),
        draw_curves(curves, name=group.id),
        draw_pictures(lines, name=group.id),
        draw_studies(group, records),
    )


def _source(environment: Any, name: str) -> str:
    return environment.loader.get_source(environment, name)[0].strip()


def _origins(records: Sequence[Record]) -> list[Origin]:
    """Gathers what produced the records; more than one value where they differ."""

    def distinct(values: Iterable[str | None]) -> list[str]:
        return sorted({value for value in values if value})

    made_by = [record.provenance for record in records]
    found = [
        Origin("Recombine", distinct(p.versions.get("recombine") for p in made_by)),
        Origin("JAX", distinct(p.versions.get("jax") for p in made_by)),
        Origin("Python", distinct(p.versions.get("python") for p in made_by)),
        Origin("commit", distinct(short_commit(p.commit) for p in made_by)),
        Origin("device", distinct(p.device for p in made_by)),
    ]
    return [origin for origin in found if origin.values]


def short_commit(commit: str | None) -> str | None:
    """Returns the first letters of a commit, still marked where files had been changed."""
    if commit is None:
        return None
    name, dash, mark = commit.partition("-")
    return name[:10] + dash + mark
