"""Runs the benchmarks, prints a table and writes `bench.json`. Timings are never tests.

python benchmarks/run.py [names ...] [-o FILE]
"""

import argparse
import json
from pathlib import Path

import and_mask_step
import devices
import distillation
import fit_overhead
import hypernetworks
import per_example_step
import seq2seq_episode
import seq2seq_row
import skipping_step
import startup
import tuning_trials
from rich.console import Console
from rich.table import Table

from recombine.results import provenance
from recombine.training import enable_compilation_cache

BENCHMARKS = {
    "startup": startup.measure,
    "fit": fit_overhead.measure,
    "and-mask": and_mask_step.measure,
    "per-example": per_example_step.measure,
    "seq2seq": seq2seq_episode.measure,
    "seq2seq-row": seq2seq_row.measure,
    "hypernetworks": hypernetworks.measure,
    "skipping": skipping_step.measure,
    "distillation": distillation.measure,
    "tuning": tuning_trials.measure,
    "devices": devices.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure speed, side by side.")
    parser.add_argument("names", nargs="*", choices=[[], *BENCHMARKS], help="which ones")
    parser.add_argument("-o", "--output", type=Path, default=Path("bench.json"))
    chosen = parser.parse_args()
    enable_compilation_cache()
    results = []
    for name in chosen.names or BENCHMARKS:
        results += [{"benchmark": name, **line} for line in BENCHMARKS[name]()]
    machine = vars(provenance())
    chosen.output.write_text(json.dumps({"machine": machine, "results": results}, indent=1) + "\n")
    table = Table(title=f"{machine['device']}, JAX {machine['versions']['jax']}")
    for column in ("what", "this", "against", "that", "ratio", "target"):
        table.add_column(column)
    for line in results:
        table.add_row(
            line["name"],
            _amount(line, ""),
            line["against"],
            _amount(line, "against_"),
            f"{line['ratio']:.3g}",
            line["target"],
        )
    Console().print(table)
    print(f"written to {chosen.output}")


def _amount(line: dict, side: str) -> str:
    """Returns what was measured of one side: a time, a size in memory, or a share."""
    if f"{side}share" in line:
        return f"{line[f'{side}share']:.2%}"
    if f"{side}bytes" in line:
        return f"{line[f'{side}bytes'] / 2**20:.0f} MB"
    return f"{line[f'{side}seconds']:.3g} s"


if __name__ == "__main__":
    main()
