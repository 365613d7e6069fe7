"""Which run of each row to compare: runs of one variant, with no setting changed."""

from collections.abc import Sequence

from recombine.experiments import Row
from recombine.report._lines import Line, Records, make_lines
from recombine.report._side_by_side import ComparisonError

VARIANTS = ("full", "quick", "tiny")
"""The fullest first."""


def choose_runs(
    rows: Sequence[Row],
    records: Records,
    *,
    variant: str | None = None,
    beside: Sequence[Line] = (),
) -> list[Line]:
    """Returns the best finished run of every row that has one, all of the same variant.

    Of several runs of a variant the one with more seeds is taken, then the newer one. Runs with
    changed settings are left aside; whoever wants them names their folders.

    Args:
        rows: the rows to be compared.
        records: as `read_records` returns them.
        variant: "full", "quick" or "tiny"; by default the fullest that all rows were run in, rows
            without any finished run left aside.
        beside: runs that are compared too, whatever their variant; the default looks at them.

    Raises:
        ComparisonError: the rows were run, but in no variant all of them.
    """
    found = {
        row.id: {
            line.record.variant: line
            for line in make_lines([row], records)
            if line.record and line.record.is_done and not line.changed
        }
        for row in rows
    }
    if variant is None:
        variant = _shared({row: list(lines) for row, lines in found.items() if lines}, beside)
    return [lines[variant] for lines in found.values() if variant in lines]


def _shared(found: dict[str, list[str]], beside: Sequence[Line]) -> str:
    """Returns the fullest variant that all were run in."""
    named = [(line.row.id, [line.record.variant]) for line in beside if line.record]
    everything = [*found.items(), *named]
    for variant in VARIANTS:
        if all(variant in variants for _, variants in everything):
            return variant
    listed = "; ".join(f"{row}: {', '.join(variants)}" for row, variants in everything)
    raise ComparisonError(
        f"there is no variant in which all were run ({listed}); run what is missing, choose with "
        f"`--variant`, or name the folders of runs"
    )
