"""Rows on their way through workers: each as one task, or cut into several."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from recombine.engines._orders import Order, join, run_one_part, run_whole, share_a_program
from recombine.engines._parts import (
    Plan,
    make_plan,
    read_or_none,
    read_plan,
    write_failure,
    write_plan,
    write_unfinished,
)
from recombine.engines._requests import RowOutcome, RunRequest
from recombine.engines._sweep_view import RowState
from recombine.engines._sweeps import Answer, Job, Sweep, SweepStoppedError
from recombine.results import Record, RunHeldError

HELD_SECONDS = 0.3
"""How long to wait before looking again whether another process has let go of a row."""

PerTask = int | Literal["all", "ask"]
"""How many seeds a task gets; `ask` gives it all where they share a program, and else one."""


class SweepRow:
    """One row that workers run.

    Args:
        request: what to run.
        runs: the folder of all runs.
        plugins: where rows come from, for workers to load.
        on_end: told what has become of the row.
        checkpoint_seconds: how often to save.
    """

    def __init__(
        self,
        request: RunRequest,
        runs: Path,
        plugins: Sequence[str],
        on_end: Callable[[RowOutcome], None],
        checkpoint_seconds: float,
    ):
        self.request = request
        self.folder = request.folder(runs)
        self.outcome: RowOutcome | None = None
        self.holder = ""  # another process that is running it
        self._order = Order.of(request, plugins)
        self._runs = runs
        self._on_end = on_end
        self._saving = checkpoint_seconds
        self._state = RowState(request.row.id, request.variant.steps * len(request.seeds))

    def is_done_already(self) -> bool:
        """Looks for a finished record, and takes it as the outcome."""
        record = read_or_none(self.folder)
        if record is None or not record.is_done:
            return False
        self._finish(record)
        return True

    def start(self, sweep: Sweep, per_task: PerTask, held: contextlib.ExitStack) -> Iterator[Job]:
        """Yields the first jobs; none when another process is at it, which is then the `holder`.

        Args:
            sweep: where the jobs will run.
            per_task: how to cut the row, unless it is cut already.
            held: keeps the folder claimed until the row has ended, or something breaks.
        """
        self._sweep, self._held, self.holder = sweep, held, ""
        sweep.rows[str(self.folder.path)] = self._state
        claimed = contextlib.ExitStack()
        try:
            claimed.enter_context(self.folder.claim(wait=False))
        except RunHeldError as error:
            self.holder = error.holder
            return
        self._hold = held.enter_context(claimed)
        if self.is_done_already():  # by the one that was waited for
            self._hold.close()
            return
        plan = read_plan(self.folder) or self._new_plan(per_task)
        if plan is None:
            self._hold.close()
            yield self._job("looking at its seeds", share_a_program, (), self._looked)
        elif len(plan) == 1 and not read_plan(self.folder):
            self._hold.close()  # the worker holds it, as a process of its own would
            yield self._job("", run_whole, (), self._whole_ended)
        else:
            write_plan(self.folder, plan)
            self._plan = plan
            self._answers: list[Answer] = []
            self._parts = [
                self._job(_named(seeds), run_one_part, (seeds,), self._part_ended) for seeds in plan
            ]
            yield from self._parts

    def most_parts(self, per_task: PerTask) -> int:
        """Returns how many parts it is, or may be, cut into."""
        plan = read_plan(self.folder)
        if plan is None and self.folder.checkpoints.is_dir():
            return 1  # begun by one process
        return max(1, len(plan or make_plan(self.request.seeds, self._seeds_of_part(per_task))))

    def _seeds_of_part(self, per_task: PerTask) -> int:
        return (
            1 if per_task == "ask" else len(self.request.seeds) if per_task == "all" else per_task
        )

    def _new_plan(self, per_task: PerTask) -> Plan | None:
        """Cuts the row; `None` where that is for a worker to say."""
        seeds, least = self.request.seeds, self._seeds_of_part(per_task)
        if len(seeds) <= least:
            return (seeds,)
        if self.folder.checkpoints.is_dir():
            self._sweep.view.say(
                f"{self._order.row}: begun by one process, so one task goes on with all seeds"
            )
            return (seeds,)
        return None if per_task == "ask" else make_plan(seeds, least)

    def _job(
        self,
        what: str,
        function: Callable[..., Any],
        arguments: tuple[Any, ...],
        on_end: Callable[[Answer], Iterable[Job]],
    ) -> Job:
        return Job(
            row=str(self.folder.path),
            title=f"{self._order.row}, {what}" if what else self._order.row,
            function=function,
            arguments=(self._order, self._runs, self._saving, *arguments),
            on_end=on_end,
            metric=self.request.row.metric.name,
        )

    def _looked(self, answer: Answer) -> Iterator[Job]:
        if answer.kind in ("done", "failed") and not self._sweep.is_stopped:
            # A learner that cannot be made fails again as a whole row, which is recorded.
            alone = answer.kind == "done" and not answer.value
            yield from self.start(self._sweep, 1 if alone else "all", self._held)

    def _whole_ended(self, answer: Answer) -> Iterator[Job]:
        if answer.kind == "done":
            self._finish(answer.value)
        elif answer.kind == "failed":
            write_failure(self.folder, answer.text)
            self._fail(answer.text)
        elif answer.kind == "held":
            self.holder = "another process"
        yield from ()

    def _part_ended(self, answer: Answer) -> Iterator[Job]:
        self._answers.append(answer)
        failed = [one for one in self._answers if one.kind == "failed"]
        if failed and answer is failed[0]:
            self._sweep.stop(self._parts)
        if len(self._answers) < len(self._parts):
            return
        if all(one.kind == "done" for one in self._answers):
            yield self._job("joining", join, (self._plan,), self._joined)
            return
        why = failed[0].text if failed else None
        write_unfinished(self.request, self.folder, self._plan, error=why)
        self._hold.close()
        if why:
            self._fail(why)

    def _joined(self, answer: Answer) -> Iterator[Job]:
        self._hold.close()
        yield from self._whole_ended(answer)

    def _finish(self, record: Record) -> None:
        self._end(RowOutcome(self.request, record))

    def _fail(self, error: str) -> None:
        row = self.request.row.id
        self._end(
            RowOutcome(self.request, None, error if error.startswith(row) else f"{row}: {error}")
        )

    def _end(self, outcome: RowOutcome) -> None:
        self.outcome = outcome
        self._state.is_over = True
        self._on_end(outcome)


def run_all(
    rows: Sequence[SweepRow], sweep: Sweep, per_task: PerTask, held: contextlib.ExitStack
) -> None:
    """Runs rows until all have ended, or Ctrl-C; what another process runs is left for last."""
    for turn in itertools.count():
        for row in rows:
            if not sweep.is_stopped:
                sweep.submit(row.start(sweep, per_task, held))
            if turn == 1 and row.holder:
                sweep.view.say(f"{row.request.row.id}: waiting for {row.holder}")
        sweep.run()
        rows = [row for row in rows if row.holder]
        if not rows or sweep.is_stopped:
            return
        if turn:
            time.sleep(HELD_SECONDS)


def outcomes_of(rows: Sequence[SweepRow], *, is_stopped: bool) -> list[RowOutcome]:
    """Returns what has become of every row.

    Raises:
        SweepStoppedError: Ctrl-C; the same call resumes.
    """
    if is_stopped:
        done = sum(row.outcome is not None and not row.outcome.error for row in rows)
        raise SweepStoppedError(
            f"stopped as asked; {done} of {len(rows)} rows are done, the same command resumes "
            f"the rest"
        )
    return [row.outcome or RowOutcome(row.request, None, "its task was stopped") for row in rows]


def _named(seeds: Sequence[int]) -> str:
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]}-{seeds[-1]}"
