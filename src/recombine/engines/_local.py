"""Runs one row in this process, and leaves a record whatever happens."""

import dataclasses
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recombine.experiments import Row, Variant
from recombine.results import Record, RecordError, RunFolder, provenance, run_hash


class RunFailedError(RuntimeError):
    """A run that could not be finished; its record says why."""


@dataclass(frozen=True)
class RunRequest:
    """A row with the settings it is to be run with."""

    row: Row
    variant_name: str
    variant: Variant
    seeds: tuple[int, ...]
    changed: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        row: Row,
        variant_name: str,
        *,
        num_seeds: int | None = None,
        changes: Sequence[str] = (),
    ) -> "RunRequest":
        """Applies `key=value` changes to one of the row's variants."""
        from recombine.experiments import change_settings

        variant, changed = change_settings(row.variant(variant_name), changes)
        return cls(
            row, variant_name, variant, tuple(range(num_seeds or variant.num_seeds)), changed
        )

    @property
    def config(self) -> dict[str, Any]:
        """The config as plain data."""
        return _plain(dataclasses.asdict(self.variant.config))

    def folder(self, runs: str | Path) -> RunFolder:
        """Returns where this run lives."""
        name = run_hash(
            self.row.id, self.config, self.variant.steps, self.variant.eval_every, self.seeds
        )
        return RunFolder.of(runs, row=self.row.id, variant=self.variant_name, run_hash=name)


def run_row(
    request: RunRequest,
    runs: str | Path,
    *,
    progress: Any = True,
    wait: bool = True,
    on_wait: Callable[[str], None] = lambda _: None,
    checkpoint_seconds: float = 30.0,
) -> Record:
    """Runs a row, or resumes it, or returns its record when it is done already.

    Args:
        request: what to run.
        runs: the folder of all runs.
        progress: as for `fit`.
        wait: whether to wait when another process is running the same; otherwise it is an error.
        on_wait: told who is waited for.
        checkpoint_seconds: how often to save.

    Raises:
        RunFailedError: training failed; the record keeps what there was.
        Interrupted: Ctrl-C; the same request resumes.
    """
    folder = request.folder(runs)
    with folder.claim(wait=wait, on_wait=on_wait):
        try:
            before = folder.read()
        except RecordError:
            before = None  # written again below
        if before is not None and before.is_done:
            return before
        return _train(request, folder, before, progress, checkpoint_seconds)


def _train(
    request: RunRequest,
    folder: RunFolder,
    before: Record | None,
    progress: Any,
    checkpoint_seconds: float,
) -> Record:
    from recombine.training import Checkpoints, Interrupted, NonFiniteError, fit, inspect_seed

    variant = request.variant
    record = Record(
        row=request.row.id,
        variant=request.variant_name,
        changed=_plain(request.changed),
        config=request.config,
        steps=variant.steps,
        eval_every=variant.eval_every,
        seeds=request.seeds,
        status="running",
        started=before.started if before else _now(),
        provenance=provenance(),
    )
    folder.write(record)
    try:
        learner = request.row.make_learner(variant.config, variant.steps)
        fitted = fit(
            learner,
            steps=variant.steps,
            eval_every=variant.eval_every,
            seeds=request.seeds,
            checkpoints=Checkpoints(folder.checkpoints, every_seconds=checkpoint_seconds),
            progress=progress,
            will_inspect=True,
        )
    except (NonFiniteError, Interrupted) as stopped:
        is_interrupt = isinstance(stopped, Interrupted)
        folder.write_curves(stopped.history.steps, stopped.history.curves())
        folder.write(
            dataclasses.replace(
                record,
                status="interrupted" if is_interrupt else "failed",
                error=str(stopped),
                seconds=vars(stopped.seconds),
                finished=_now(),
            )
        )
        if is_interrupt:
            raise
        raise RunFailedError(f"{request.row.id}: {stopped}") from stopped
    except Exception as error:
        folder.write(
            dataclasses.replace(
                record, status="failed", error=f"{type(error).__name__}: {error}", finished=_now()
            )
        )
        raise RunFailedError(f"{request.row.id}: {error}") from error
    folder.write_curves(fitted.history.steps, fitted.history.curves())
    folder.write_inspect(inspect_seed(learner, fitted, request.seeds[0]))
    done = dataclasses.replace(
        record,
        status="done",
        final={name: tuple(values.tolist()) for name, values in fitted.final.items()},
        seconds=vars(fitted.seconds),
        finished=_now(),
    )
    folder.write(done)
    _drop_all_but(folder.checkpoints, str(variant.steps))
    return done


def _drop_all_but(checkpoints: Path, newest: str) -> None:
    """Older checkpoints guard against damage while a run goes on; then one is enough."""
    for path in checkpoints.iterdir():
        if path.name != newest and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)


def _plain(value: Any) -> Any:
    """Returns what JSON would give back: tuples become lists."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
