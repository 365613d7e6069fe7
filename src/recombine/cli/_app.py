"""The command's doors. Each is thin: the work is done by the rooms, and JAX loads only to train."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from recombine.cli._errors import explain_errors

app = typer.Typer(
    name="recombine",
    help="Reproduce the published rows, and look at what was learned.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

DEFAULT_RUNS = Path("runs")


class VariantName(StrEnum):
    """The variants of a row, for the command line to check."""

    full = "full"
    quick = "quick"
    tiny = "tiny"


class SamplerName(StrEnum):
    """How a search proposes settings, for the command line to check."""

    tpe = "tpe"
    random = "random"
    grid = "grid"


class PrunerName(StrEnum):
    """How a search stops trials early, for the command line to check."""

    none = "none"
    median = "median"
    halving = "halving"


class EngineName(StrEnum):
    """Where runs execute, for the command line to check."""

    local = "local"
    processes = "processes"
    ray = "ray"


Pattern = Annotated[str, typer.Argument(help="A glob over row ids, such as 'ilc/*/and-mask'.")]
Patterns = Annotated[
    list[str], typer.Argument(metavar="PATTERN...", help="Globs over row ids; all must match.")
]
Runs = Annotated[
    Path, typer.Option("--runs", envvar="RECOMBINE_RUNS", help="The folder of all runs.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quick = Annotated[bool, typer.Option("--quick", help="The variant for minutes on two cores.")]
Evidence = Annotated[
    bool, typer.Option("--evidence", help="Read the published records instead of a runs folder.")
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print Markdown.")]
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="MODULE",
        help="A module or .py file with a system of your own. Repeatable.",
    ),
]

Engine = Annotated[
    EngineName,
    typer.Option("--engine", help="This process, several (for `run`), or tasks of a Ray cluster."),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        envvar="RAY_ADDRESS",
        metavar="HOST:PORT",
        help="With --engine ray: the cluster's head node; else one on this machine.",
    ),
]
GpusPerTask = Annotated[
    float | None,
    typer.Option("--gpus-per-task", help="With --engine ray: GPUs of a task; 1 if there are any."),
]
CpusPerTask = Annotated[
    float | None, typer.Option("--cpus-per-task", help="With --engine ray: cores of a task; 1.")
]


@app.callback()
def _root() -> None:
    """Reproduce the published rows, and look at what was learned."""


@app.command("list")
def list_rows(pattern: Pattern = "*", plugin: Plugins = None, as_json: Json = False) -> None:
    """List the rows that can be run."""
    from recombine.cli._listing import print_rows

    print_rows(pattern, plugins=plugin or [], as_json=as_json)


@app.command()
def show(
    row: Annotated[str, typer.Argument(help="The id of a row.")],
    runs: Runs = DEFAULT_RUNS,
    evidence: Evidence = False,
    pictures: Annotated[
        Path | None,
        typer.Option("--pictures", help="A folder to write the pictures of the row's run to."),
    ] = None,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Show a row: its claim, its settings, the paper's value and what was run."""
    from recombine.cli._listing import print_row

    print_row(
        row,
        plugins=plugin or [],
        runs=runs,
        evidence=evidence,
        pictures=pictures,
        as_json=as_json,
    )


@app.command()
def run(
    patterns: Patterns,
    quick: Quick = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="How many seeds.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Change a setting: key=value. Repeatable.")
    ] = None,
    together: Annotated[
        bool,
        typer.Option(
            "--together", help="Train rows that differ only in numbers as one program, for a GPU."
        ),
    ] = False,
    engine: Engine = EngineName.local,
    address: Address = None,
    gpus_per_task: GpusPerTask = None,
    cpus_per_task: CpusPerTask = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=1,
            help="With --engine processes: how many at once; one per core, but 1 on a GPU.",
        ),
    ] = None,
    seeds_per_task: Annotated[
        int | None,
        typer.Option(
            "--seeds-per-task",
            min=1,
            help="With --engine processes or ray: by default 1 on a CPU, all on a GPU (processes: "
            "where they share a program).",
        ),
    ] = None,
    runs: Runs = DEFAULT_RUNS,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Run rows. Finished runs are not run again; unfinished ones resume."""
    from recombine.cli._engines import engine_settings
    from recombine.cli._running import run_rows

    settings = engine_settings(
        engine.value,
        address=address,
        gpus_per_task=gpus_per_task,
        cpus_per_task=cpus_per_task,
        workers=workers,
        seeds_per_task=seeds_per_task,
    )
    run_rows(
        patterns,
        plugins=plugin or [],
        variant="quick" if quick else "full",
        num_seeds=seeds,
        changes=set_ or [],
        together=together,
        engine=settings,
        runs=runs,
        as_json=as_json,
    )


@app.command()
def tune(
    row: Annotated[str, typer.Argument(help="The id of a row with a search space.")],
    trials: Annotated[
        int, typer.Option("--trials", min=1, help="How many in total, earlier ones included.")
    ],
    quick: Quick = False,
    tiny: Annotated[bool, typer.Option("--tiny", help="The variant for tests.")] = False,
    batch: Annotated[
        int, typer.Option("--batch", min=1, help="How many trials to train at once.")
    ] = 1,
    sampler: Annotated[
        SamplerName, typer.Option("--sampler", help="How settings are proposed.")
    ] = SamplerName.tpe,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the sampler.")] = 0,
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="How many seeds for each trial.")
    ] = 1,
    pruner: Annotated[
        PrunerName, typer.Option("--pruner", help="Which trials are stopped early.")
    ] = PrunerName.none,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="Begin no trial after so many seconds.")
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option("--storage", metavar="URL", help="Optuna's storage; else a journal file."),
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="What to choose by; else the search's own.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="Fix a setting: key=value. Repeatable.")
    ] = None,
    engine: Engine = EngineName.local,
    address: Address = None,
    gpus_per_task: GpusPerTask = None,
    cpus_per_task: CpusPerTask = None,
    runs: Runs = DEFAULT_RUNS,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Search the settings of a row. The same command goes on where it was stopped."""
    from recombine.cli._engines import search_settings
    from recombine.cli._tuning import tune_row

    if quick and tiny:
        raise typer.BadParameter("choose one of `--quick` and `--tiny`", param_hint="--tiny")
    ray = search_settings(
        engine.value, address=address, gpus_per_task=gpus_per_task, cpus_per_task=cpus_per_task
    )
    tune_row(
        row,
        ray=ray,
        variant="quick" if quick else "tiny" if tiny else "full",
        trials=trials,
        metric=metric,
        num_seeds=seeds,
        changes=set_ or [],
        plugins=plugin or [],
        runs=runs,
        as_json=as_json,
        batch=batch,
        sampler=sampler.value,
        sampler_seed=seed,
        pruner=pruner.value,
        timeout=timeout,
        storage=storage,
    )


@app.command()
def table(
    pattern: Pattern = "*",
    runs: Runs = DEFAULT_RUNS,
    evidence: Evidence = False,
    markdown: Markdown = False,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Print the paper's values beside ours."""
    from recombine.cli._reporting import print_table

    print_table(
        pattern,
        plugins=plugin or [],
        runs=runs,
        evidence=evidence,
        markdown=markdown,
        as_json=as_json,
    )


@app.command()
def compare(
    what: Annotated[
        list[str],
        typer.Argument(metavar="PATTERN", help="Globs over row ids, or folders of runs."),
    ],
    metric: Annotated[
        str | None, typer.Option("--metric", help="Which final metric; the rows' own by default.")
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option("--reference", metavar="ROW", help="What to compare with; else the first."),
    ] = None,
    variant: Annotated[
        VariantName | None,
        typer.Option("--variant", help="Which runs of rows; else the fullest that all have."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="A .png or .svg file to draw to.")
    ] = None,
    runs: Runs = DEFAULT_RUNS,
    evidence: Evidence = False,
    markdown: Markdown = False,
    plugin: Plugins = None,
    as_json: Json = False,
) -> None:
    """Compare rows or runs: means, spread, and intervals of their differences."""
    from recombine.cli._comparing import print_comparison

    print_comparison(
        what,
        metric=metric,
        reference=reference,
        variant=variant.value if variant else None,
        plot=plot,
        plugins=plugin or [],
        runs=runs,
        evidence=evidence,
        markdown=markdown,
        as_json=as_json,
    )


@app.command()
def report(
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write.")] = Path(
        "report.html"
    ),
    runs: Runs = DEFAULT_RUNS,
    evidence: Evidence = False,
    plugin: Plugins = None,
) -> None:
    """Write the report: one HTML file with tables, curves and pictures."""
    from recombine.cli._reporting import write_report

    write_report(output, plugins=plugin or [], runs=runs, evidence=evidence)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="The report to write.")] = Path(
        "report.html"
    ),
    runs: Runs = DEFAULT_RUNS,
) -> None:
    """Run a quick pair of rows for every system, the method beside its baseline."""
    from recombine.cli._reporting import print_table, write_report
    from recombine.cli._running import run_demo

    run_demo(runs)
    print_table("*", runs=runs, evidence=False, markdown=False, as_json=False, only_run=True)
    write_report(output, runs=runs, evidence=False)


@app.command()
def teach(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="A file that MetaSeq2Seq.save wrote.",
            exists=True,
            dir_okay=False,
            readable=True,
        ),
    ],
) -> None:
    """Teach a trained MetaSeq2Seq words, ask it sentences, and see where it looks."""
    from recombine.cli import _teaching

    _teaching.teach(model)


@app.command()
def doctor(as_json: Json = False) -> None:
    """Say what is here: versions, devices, memory, the cache folder, extras."""
    from recombine.cli._doctor import print_diagnosis

    print_diagnosis(as_json=as_json)


def main(arguments: list[str] | None = None) -> Any:
    """Runs the command: 0 done, 1 a run failed, 2 bad usage, 130 stopped by Ctrl-C."""
    with explain_errors():
        return app(args=arguments, prog_name="recombine")
