"""A search from its first trial to its record: ask, train, tell, until there are enough."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from recombine.results import (
    Provenance,
    Record,
    RecordError,
    RunFolder,
    StudyTable,
    provenance,
    study_row,
    write_study,
)
from recombine.tuning._progress import SilentStudy, StudyProgress
from recombine.tuning._request import StudyRequest
from recombine.tuning._study import Asked, Study
from recombine.tuning._trials import TrialBatch, TrialOutcome, run_trials

RunTrials = Callable[..., list[TrialOutcome]]
"""`run_trials`, or what does the same elsewhere."""


@dataclass(frozen=True)
class StudyResult:
    """What a search has found so far."""

    record: Record
    table: StudyTable
    folder: RunFolder

    @property
    def is_done(self) -> bool:
        """Whether all trials that were asked for are finished."""
        return self.record.is_done


def run_study(
    request: StudyRequest,
    runs: str | Path,
    *,
    progress: StudyProgress | None = None,
    run: RunTrials = run_trials,
    workers: int = 1,
    made_by: Provenance | None = None,
) -> StudyResult:
    """Searches until the study has the trials that were asked for, and records the best.

    The same request goes on where it was stopped. Several processes may work on one study: each
    asks, trains and tells, and together they make no more trials than were asked for.

    Args:
        request: what to search, and how.
        runs: the folder of all runs.
        progress: told of every trial; silent by default.
        run: what trains a batch of trials.
        workers: how many batches to have trained at once, each by a call of `run` in a thread.
        made_by: the device and versions of what trains; those of this process by default.

    Raises:
        StudyError: Optuna is missing, or a trial cannot be made as asked.
        StorageError: the study's storage is damaged or locked.
        Interrupted: Ctrl-C; finished trials stay finished, the others are tried again.
    """
    from recombine.training import StopRequest, enable_compilation_cache

    enable_compilation_cache()
    show = progress or SilentStudy()
    folder = request.folder(runs)
    deadline = None if request.timeout is None else time.monotonic() + request.timeout
    with Study(request, folder).joined() as study:
        writer = _Writer(study, made_by or provenance())
        writer.write()
        with show, StopRequest() as stop:
            show.begin(study.table(), study.total)

            def is_over() -> bool:
                return stop.asked or (deadline is not None and time.monotonic() > deadline)

            crew = _Crew(study, run, workers, show, writer, is_over)
            try:
                crew.work()
            except BaseException as error:
                writer.write(error=str(error) or type(error).__name__, is_stopped=True)
                raise
        return writer.end(is_stopped=stop.asked)


class _Crew:
    """Has batches trained, in this thread or in several."""

    def __init__(
        self,
        study: Study,
        run: RunTrials,
        workers: int,
        progress: StudyProgress,
        writer: "_Writer",
        is_over: Callable[[], bool],
    ):
        self.study, self.run, self.workers = study, run, workers
        self.progress, self.writer, self.is_over = progress, writer, is_over

    def work(self) -> None:
        """Works until no trial is left, or it is over."""
        if self.workers > 1:
            self._work_at_once()
            return
        while not self.is_over() and (asked := self.study.ask(self.study.request.batch)):
            try:
                outcomes = self._train(asked)
            except BaseException:
                self.study.leave(asked)
                raise
            self._tell(asked, outcomes)

    def _work_at_once(self) -> None:
        with ThreadPoolExecutor(self.workers) as pool:
            running: dict[Future[list[TrialOutcome]], list[Asked]] = {}
            try:
                while True:
                    while len(running) < self.workers and not self.is_over():
                        asked = self.study.ask(self.study.request.batch)
                        if not asked:
                            break
                        running[pool.submit(self._train, asked)] = asked
                    if not running:
                        return
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        asked = running[future]
                        outcomes = future.result()
                        del running[future]
                        self._tell(asked, outcomes)
            except BaseException:
                for asked in running.values():
                    self.study.leave(asked)
                raise

    def _train(self, asked: Sequence[Asked]) -> list[TrialOutcome]:
        request = self.study.request
        batch = TrialBatch(
            row=request.row.id,
            variant=request.variant_name,
            changes=tuple(request.texts(one.settings) for one in asked),
            seeds=request.seeds,
            metric=request.metric.name,
            plugins=request.plugins,
        )

        def watch(place: int, step: int, value: float) -> bool:
            return self.study.should_prune(asked[place], step, value)

        return self.run(
            batch,
            watch=None if request.pruner == "none" else watch,
            progress=self.progress.within(len(asked)),
        )

    def _tell(self, asked: Sequence[Asked], outcomes: Sequence[TrialOutcome]) -> None:
        for one, outcome in zip(asked, outcomes, strict=True):
            self.study.tell(one, outcome)
        table = self.writer.write().table
        numbers = {one.number for one in asked}
        self.progress.told([t for t in table.trials if t.number in numbers], table)


class _Writer:
    """Keeps the record and the table of a study up to date."""

    def __init__(self, study: Study, made_by: Provenance):
        self.study = study
        try:
            before = study.folder.read()
        except RecordError:
            before = None
        self._started = before.started if before else _now()
        versions = {**made_by.versions, "optuna": metadata.version("optuna")}
        self._provenance = dataclasses.replace(made_by, versions=versions)

    def write(self, *, error: str | None = None, is_stopped: bool = False) -> StudyResult:
        """Writes both and returns them; a study whose trials are all finished is done.

        Processes that share a study take turns here, so that none overwrites newer files.
        """
        with self.study.alone():
            table = self.study.table()
            is_done = sum(trial.is_finished for trial in table.trials) >= self.study.total
            status = "done" if is_done else "interrupted" if is_stopped else "running"
            if is_done or is_stopped:
                table = self.study.table(with_importances=True)
            record = self._record(table, status, None if is_done else error)
            write_study(self.study.folder, table)
            self.study.folder.write(record)
        return StudyResult(record, table, self.study.folder)

    def end(self, *, is_stopped: bool) -> StudyResult:
        """Writes both for the last time, and says what is missing."""
        table, total = self.study.table(), self.study.total
        finished, elsewhere = sum(t.is_finished for t in table.trials), table.count("running")
        if finished + elsewhere >= total:  # done, or about to be
            return self.write(error=f"{elsewhere} trials are being made by other processes")
        why = "Ctrl-C" if is_stopped else "--timeout"
        error = f"stopped by {why} after {finished} of {total} trials"
        return self.write(error=error, is_stopped=True)

    def _record(self, table: StudyTable, status: Any, error: str | None) -> Record:
        request, best = self.study.request, table.best
        record = Record(
            row=study_row(request.row.id),
            variant=request.variant_name,
            changed=request.changed(best.settings) if best else {},
            config=request.config,
            steps=request.variant.steps,
            eval_every=request.variant.eval_every,
            seeds=request.seeds,
            status=status,
            started=self._started,
            provenance=self._provenance,
            finished=None if status == "running" else _now(),
            error=error,
            seconds=self.study.seconds(),
        )
        if best is None or best.value is None:
            return record
        each = len(request.seeds)
        finished = sum(trial.is_finished for trial in table.trials)
        return dataclasses.replace(
            record,
            final={
                **self.study.final_of(best.number),
                "best_value": (best.value,) * each,
                "finished_trials": (float(finished),) * each,
            },
        )


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
