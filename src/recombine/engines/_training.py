"""Trains a request into a folder, and leaves a record there whatever happens."""

import dataclasses
import shutil
import time
from pathlib import Path
from typing import Any, Literal

from recombine.engines._requests import RunFailedError, RunRequest, plain
from recombine.results import Record, RunFolder, provenance


def train_into(
    request: RunRequest,
    folder: RunFolder,
    before: Record | None,
    *,
    progress: Any,
    checkpoint_seconds: float,
    inspect: bool = True,
) -> Record:
    """Trains, or resumes from the folder's checkpoints; the caller holds the folder.

    Args:
        request: what to run.
        folder: where its record, curves and checkpoints go.
        before: the folder's record of an earlier try.
        progress: as for `fit`.
        checkpoint_seconds: how often to save.
        inspect: whether to keep what the learner finds worth drawing of the first seed.
    """
    from recombine.training import Checkpoints, Interrupted, NonFiniteError, fit, inspect_seed

    variant = request.variant
    record = running_record(request, before)
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
            will_inspect=inspect,
        )
    except (NonFiniteError, Interrupted) as stopped:
        is_interrupt = isinstance(stopped, Interrupted)
        folder.write_curves(stopped.history.steps, stopped.history.curves())
        write_stopped(
            folder,
            record,
            "interrupted" if is_interrupt else "failed",
            str(stopped),
            seconds=vars(stopped.seconds),
        )
        if is_interrupt:
            raise
        raise RunFailedError(f"{request.row.id}: {stopped}") from stopped
    except Exception as error:
        write_stopped(folder, record, "failed", f"{type(error).__name__}: {error}")
        raise RunFailedError(f"{request.row.id}: {error}") from error
    inspected = inspect_seed(learner, fitted, request.seeds[0]) if inspect else {}
    done = write_done(folder, record, fitted, inspected)
    drop_all_but(folder.checkpoints, str(variant.steps))
    return done


def write_done(folder: RunFolder, record: Record, fitted: Any, inspected: dict[str, Any]) -> Record:
    """Writes what a finished run leaves behind, its record last; returns that."""
    folder.write_curves(fitted.history.steps, fitted.history.curves())
    folder.write_inspect(inspected)
    done = dataclasses.replace(
        record,
        status="done",
        final={name: tuple(values.tolist()) for name, values in fitted.final.items()},
        seconds=vars(fitted.seconds),
        finished=now(),
    )
    folder.write(done)
    return done


def write_stopped(
    folder: RunFolder,
    record: Record,
    status: Literal["interrupted", "failed"],
    error: str,
    *,
    seconds: dict[str, float] | None = None,
) -> None:
    """Writes the record of a run that ended early."""
    folder.write(
        dataclasses.replace(
            record,
            status=status,
            error=error,
            seconds=record.seconds if seconds is None else seconds,
            finished=now(),
        )
    )


def running_record(request: RunRequest, before: Record | None) -> Record:
    """Returns the record of a run that goes on in this process; asks JAX for the device."""
    return Record(
        row=request.row.id,
        variant=request.variant_name,
        changed=plain(request.changed),
        config=request.config,
        steps=request.variant.steps,
        eval_every=request.variant.eval_every,
        seeds=request.seeds,
        status="running",
        started=before.started if before else now(),
        provenance=provenance(),
    )


def drop_all_but(checkpoints: Path, newest: str) -> None:
    """Older checkpoints guard against damage while a run goes on; then one is enough."""
    for path in checkpoints.iterdir():
        if path.name != newest and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)


def now() -> str:
    """Returns the time as records write it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
