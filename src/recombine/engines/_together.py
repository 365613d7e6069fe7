"""Runs rows side by side in this process: those that differ only in numbers share one program.

On an accelerator that program has an axis of rows beside that of seeds, so that a device which one
row would leave idle has more to do. On a CPU the rows of a group take turns, chunk by chunk.

While a group trains, its states are saved in the folder of its first row, under a name that stands
for all rows of the group. The same rows given again resume there; with others among them they begin
anew, unless they are finished.
"""

import contextlib
import hashlib
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from recombine.engines._local import run_row
from recombine.engines._parts import read_or_none, read_plan
from recombine.engines._requests import (
    RowOutcome,
    RunFailedError,
    RunRequest,
    check_all_differ,
)
from recombine.engines._training import running_record, write_done, write_stopped
from recombine.results import Record, RunFolder

TOGETHER = "together-"


class _Member(NamedTuple):
    """A row of a group."""

    request: RunRequest
    learner: Any
    folder: RunFolder


def run_together(
    requests: Sequence[RunRequest],
    runs: str | Path,
    *,
    make_progress: Callable[[Sequence[RunRequest]], Any] = lambda _: True,
    on_wait: Callable[[RunRequest, str], None] = lambda request, who: None,
    on_end: Callable[[RowOutcome], None] = lambda _: None,
    checkpoint_seconds: float = 30.0,
) -> list[RowOutcome]:
    """Runs rows, in groups of those whose learners are alike; a row that fails spares the others.

    What is finished is not run again. A row that was begun alone, or by workers, goes on alone.
    The time in a record is the row's share of its group's.

    Args:
        requests: what to run.
        runs: the folder of all runs.
        make_progress: from the rows that are trained to what shows their progress, as for `fit`.
        on_wait: told which row waits for whom.
        on_end: told of every row when it ends.
        checkpoint_seconds: how often to save.

    Raises:
        ValueError: a run is asked for twice.
        Interrupted: Ctrl-C; the same requests resume.
    """
    check_all_differ(requests)
    outcomes: dict[int, RowOutcome] = {}

    def end(number: int, record: Record | None, error: str = "") -> None:
        outcomes[number] = RowOutcome(requests[number], record, error)
        on_end(outcomes[number])

    def alone(number: int) -> None:
        request = requests[number]
        try:
            record = run_row(
                request,
                runs,
                progress=make_progress([request]),
                on_wait=lambda who: on_wait(request, who),
                checkpoint_seconds=checkpoint_seconds,
            )
        except RunFailedError as error:
            end(number, None, str(error))
        else:
            end(number, record)

    folders = [request.folder(runs) for request in requests]
    fresh = [n for n, folder in enumerate(folders) if not _was_begun(folder)]
    for number in [n for n in range(len(requests)) if n not in fresh]:
        alone(number)
    groups, unmade = _group(requests, fresh)
    for number in unmade:  # which says why
        alone(number)
    for numbers, learners in groups:
        if len(numbers) == 1:
            alone(numbers[0])
            continue
        members = {
            number: _Member(requests[number], learner, folders[number])
            for number, learner in zip(numbers, learners, strict=True)
        }
        with contextlib.ExitStack() as claims:
            # In one order for all processes, so that no two wait for each other.
            for member in sorted(members.values(), key=lambda member: str(member.folder.path)):
                claims.enter_context(
                    member.folder.claim(on_wait=lambda who, m=member: on_wait(m.request, who))
                )
            found = _train_rest(members, make_progress, checkpoint_seconds)
        for number, (record, error) in found.items():
            end(number, record, error)
    return [outcomes[number] for number in range(len(requests))]


def _was_begun(folder: RunFolder) -> bool:
    """Says whether a run is done, or can be resumed by itself."""
    before = read_or_none(folder)
    if before is not None and before.is_done:
        return True
    return read_plan(folder) is not None or folder.checkpoints.is_dir()


def _group(
    requests: Sequence[RunRequest], numbers: Sequence[int]
) -> tuple[list[tuple[list[int], list[Any]]], list[int]]:
    """Sorts rows into groups that one program can train, with their learners.

    Also returns the rows whose learners cannot be made.
    """
    from recombine.training import group_alike

    learners: dict[int, Any] = {}
    unmade = []
    for number in numbers:
        variant = requests[number].variant
        try:
            learners[number] = requests[number].row.make_learner(variant.config, variant.steps)
        except Exception:  # whatever it is, the row alone meets it again and records it
            unmade.append(number)

    def length(number: int) -> tuple[int, int, tuple[int, ...]]:
        request = requests[number]
        return request.variant.steps, request.variant.eval_every, request.seeds

    groups = []
    for one_length in dict.fromkeys(length(number) for number in learners):
        same = [number for number in learners if length(number) == one_length]
        for places in group_alike([learners[number] for number in same]):
            chosen = [same[place] for place in places]
            groups.append((chosen, [learners[number] for number in chosen]))
    return groups, unmade


def _train_rest(
    members: dict[int, _Member],
    make_progress: Callable[[Sequence[RunRequest]], Any],
    checkpoint_seconds: float,
) -> dict[int, tuple[Record | None, str]]:
    """Trains those of a group that nobody has finished while this waited for their folders."""
    before = {number: read_or_none(member.folder) for number, member in members.items()}
    found: dict[int, tuple[Record | None, str]] = {
        number: (record, "") for number, record in before.items() if record and record.is_done
    }
    rest = [number for number in members if number not in found]
    if rest:
        chosen = [members[number] for number in rest]
        progress = make_progress([member.request for member in chosen])
        found |= zip(rest, _train(chosen, progress, checkpoint_seconds), strict=True)
    return found


def _train(
    members: list[_Member], progress: Any, checkpoint_seconds: float
) -> list[tuple[Record | None, str]]:
    """Trains a group whose folders are held; returns a record or an error for each."""
    from recombine.training import Checkpoints, Interrupted, fit_many, inspect_seed

    first = members[0].request
    records = [running_record(m.request, read_or_none(m.folder)) for m in members]
    for member, record in zip(members, records, strict=True):
        member.folder.write(record)
    joint = members[0].folder.path / f"{TOGETHER}{_name(members)}"
    try:
        trained = fit_many(
            [member.learner for member in members],
            steps=first.variant.steps,
            eval_every=first.variant.eval_every,
            seeds=first.seeds,
            checkpoints=Checkpoints(joint, every_seconds=checkpoint_seconds),
            progress=progress,
            will_inspect=True,
        )
    except Interrupted as stopped:
        for member, record in zip(members, records, strict=True):
            write_stopped(member.folder, record, "interrupted", str(stopped))
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        for member, record in zip(members, records, strict=True):
            write_stopped(member.folder, record, "failed", reason)
        return [(None, f"{member.request.row.id}: {reason}") for member in members]
    outcomes: list[tuple[Record | None, str]] = []
    for member, record, one in zip(members, records, trained, strict=True):
        if one.ended == "not finite":
            reason = f"a metric was not finite at step {one.step}"
            member.folder.write_curves(one.fit.history.steps, one.fit.history.curves())
            seconds = vars(one.fit.seconds)
            write_stopped(member.folder, record, "failed", reason, seconds=seconds)
            outcomes.append((None, f"{member.request.row.id}: {reason}"))
            continue
        inspected = inspect_seed(member.learner, one.fit, first.seeds[0])
        outcomes.append((write_done(member.folder, record, one.fit, inspected), ""))
    shutil.rmtree(joint, ignore_errors=True)
    return outcomes


def _name(members: Sequence[_Member]) -> str:
    """Returns a name for a group: the same for the same runs in the same order."""
    names = "\n".join(f"{m.request.row.id} {m.folder.path.name}" for m in members)
    return hashlib.sha256(names.encode()).hexdigest()[:12]
