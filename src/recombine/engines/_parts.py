"""A run whose seeds are trained apart, by several processes, and joined to one record.

RUN/parts/plan.json            which seeds are trained together
         /<first seed>/        one part: as the folder of a run, but its record is `part.json`

Where seeds take turns (on a CPU) a seed's numbers do not depend on the others, so the joined record
is, bit for bit, that of one process. The parts are removed when they have been joined.
"""

import contextlib
import dataclasses
import json
import shutil
from collections.abc import Sequence
from typing import Any

import numpy as np

from recombine.engines._requests import RunFailedError, RunRequest
from recombine.engines._training import now, running_record, train_into
from recombine.results import Record, RecordError, RunFolder, RunHeldError, write_atomically

PARTS, PLAN, PART = "parts", "plan.json", "part.json"

Plan = tuple[tuple[int, ...], ...]
"""The seeds of every part, in the order of the run's."""


def make_plan(seeds: Sequence[int], per_part: int) -> Plan:
    """Cuts seeds into parts of `per_part`; the last may be shorter.

    Example:
        >>> make_plan(range(5), 2)
        ((0, 1), (2, 3), (4,))
    """
    return tuple(tuple(seeds[i : i + per_part]) for i in range(0, len(seeds), per_part))


def read_plan(folder: RunFolder) -> Plan | None:
    """Returns how a run was cut, or `None` when it was not."""
    try:
        plan = json.loads((folder.path / PARTS / PLAN).read_text())
    except FileNotFoundError:
        return None
    return tuple(tuple(seeds) for seeds in plan)


def write_plan(folder: RunFolder, plan: Plan) -> None:
    """Cuts a run; the caller holds its folder."""
    (folder.path / PARTS).mkdir(exist_ok=True)
    text = json.dumps(plan).encode()
    write_atomically(folder.path / PARTS / PLAN, lambda file: file.write(text))


def part_folder(folder: RunFolder, seeds: tuple[int, ...]) -> RunFolder:
    """Returns where a part lives."""
    return RunFolder(folder.path / PARTS / str(seeds[0]), record=PART)


def run_part(
    request: RunRequest,
    folder: RunFolder,
    seeds: tuple[int, ...],
    *,
    progress: Any,
    checkpoint_seconds: float,
) -> Record:
    """Trains one part, or resumes it, or returns its record when it is done already.

    Somebody else holds the run; this holds the part, so that a process that is thought to be dead
    and is not cannot write beside the one that took its place.
    """
    part = part_folder(folder, seeds)
    with part.claim(wait=True):
        before = read_or_none(part)
        if before is not None and before.is_done:
            return before
        whole = read_or_none(folder)
        if whole is None or whole.status != "running":
            folder.write(running_record(request, whole))
        return train_into(
            dataclasses.replace(request, seeds=seeds),
            part,
            before,
            progress=progress,
            checkpoint_seconds=checkpoint_seconds,
            inspect=seeds[0] == request.seeds[0],
        )


def join_parts(request: RunRequest, folder: RunFolder, plan: Plan) -> Record:
    """Writes the record of the whole run, once all parts are done, and removes the parts."""
    from recombine.training import join_checkpoints

    parts = [part_folder(folder, seeds) for seeds in plan]
    records = [read_or_none(part) for part in parts]
    done = [record for record in records if record and record.is_done]
    if len(done) < len(plan):
        raise RunFailedError(
            f"{request.row.id}: {len(plan) - len(done)} of its {len(plan)} parts are not done, "
            f"so it cannot be finished; run it again"
        )
    steps = request.variant.steps
    join_checkpoints([part.checkpoints for part in parts], folder.checkpoints, step=steps)
    steps_and_curves = [part.read_curves() for part in parts]
    folder.write_curves(*_joined_curves(steps_and_curves))
    folder.write_inspect(parts[0].read_inspect())
    record = _joined_record(request, folder, done)
    record = dataclasses.replace(
        record,
        status="done",
        final={
            name: tuple(value for one in done for value in one.final[name])
            for name in done[0].final
        },
    )
    folder.write(record)
    shutil.rmtree(folder.path / PARTS, ignore_errors=True)
    return record


def write_unfinished(
    request: RunRequest, folder: RunFolder, plan: Plan, *, error: str | None = None
) -> None:
    """Writes the record of a run of which a part has failed, or was stopped.

    Curves are kept up to the evaluation that all parts have reached.

    Args:
        request: the whole run.
        folder: its folder, which the caller holds.
        plan: its parts.
        error: why it failed, where no part can say so: its worker died too often.
    """
    parts = [part_folder(folder, seeds) for seeds in plan]
    records = [record for part in parts if (record := read_or_none(part))]
    if not records:
        return
    curves = [part.read_curves() for part in parts]
    if all(curves):
        folder.write_curves(*_joined_curves(curves))
    worst = next(
        (one for status in ("failed", "interrupted") for one in records if one.status == status),
        records[0],
    )
    folder.write(
        dataclasses.replace(
            _joined_record(request, folder, records),
            status="failed" if error or worst.status == "failed" else "interrupted",
            error=worst.error or error or "stopped before its end; the same call resumes it.",
        )
    )


def write_failure(folder: RunFolder, error: str) -> None:
    """Notes that a run has failed, where it could not do so itself because its worker died."""
    with contextlib.suppress(RunHeldError), folder.claim(wait=False):
        record = read_or_none(folder)
        if record is not None and record.status == "running":
            folder.write(dataclasses.replace(record, status="failed", error=error, finished=now()))


def read_or_none(folder: RunFolder) -> Record | None:
    """Returns the record; a damaged one is as good as none."""
    try:
        return folder.read()
    except RecordError:
        return None


def _joined_record(request: RunRequest, folder: RunFolder, records: Sequence[Record]) -> Record:
    """Returns a record with what the parts have in common, and the sum of their times."""
    devices = dict.fromkeys(one.provenance.device for one in records)
    whole = read_or_none(folder)
    return dataclasses.replace(
        records[0],
        seeds=request.seeds,
        started=min(one.started for one in [*records, *([whole] if whole else [])]),
        finished=now(),
        provenance=dataclasses.replace(records[0].provenance, device=" + ".join(devices)),
        seconds={
            name: sum(one.seconds.get(name, 0.0) for one in records)
            for name in dict.fromkeys(name for one in records for name in one.seconds)
        },
        final={},
    )


def _joined_curves(parts: Sequence[dict[str, np.ndarray]]) -> tuple[list[int], dict[str, Any]]:
    steps = min((part["steps"] for part in parts), key=len)
    curves = {
        name: np.concatenate([part[name][: len(steps)] for part in parts], axis=1)
        for name in parts[0]
        if name != "steps"
    }
    return steps.tolist(), curves
