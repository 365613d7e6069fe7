"""One study, shared by all processes that work on it: asks for settings, is told what they gave.

A trial counts when it is complete, pruned or failed, and while a living process works on it. What
a process leaves behind when it is stopped or dies goes back into the queue, and is tried first.
"""

import contextlib
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from recombine.results import RunFolder, StudyTable, Trial
from recombine.tuning._request import StudyRequest
from recombine.tuning._samplers import (
    distributions,
    grid_point,
    make_pruner,
    make_sampler,
    settings_of_trial,
)
from recombine.tuning._storage import WAIT_SECONDS, SystemLock, explained, open_storage
from recombine.tuning._trials import TrialOutcome

WORKERS = "workers"
"""The folder of the processes that work on a study, each with a lock of its own."""

LEFT, WORKER, FINAL, SECONDS, ERROR = "left", "worker", "final", "seconds", "error"
"""What is written to a trial beside its settings and values."""


@dataclass(frozen=True)
class Asked:
    """A trial to be made, and its settings."""

    trial: Any  # Optuna's
    settings: dict[str, Any]

    @property
    def number(self) -> int:
        """Its number in the study."""
        return self.trial.number


class Study:
    """A study that this process works on, while `joined`."""

    def __init__(self, request: StudyRequest, folder: RunFolder):
        self.request = request
        self.folder = folder
        self._me = RunFolder(folder.path / WORKERS / uuid.uuid4().hex[:12])
        self._study: Any = None
        self._open: set[int] = set()  # the numbers of trials that this process works on
        self._place = request.storage or str(folder.path)

    @contextlib.contextmanager
    def joined(self) -> Iterator["Study"]:
        """Opens the storage, and lets other processes see that this one lives."""
        with self._me.claim():
            try:
                storage = open_storage(self.request.storage, self.folder.path)
                self._study = self._load(storage)
                yield self
            finally:
                if not self._open:  # else others can tell by the folder that they are nobody's
                    shutil.rmtree(self._me.path, ignore_errors=True)

    def ask(self, count: int) -> list[Asked]:
        """Returns up to `count` trials to be made; fewer when there are not so many left."""
        asked: list[Asked] = []
        with self.alone():
            trials = self._trials()
            self._take_back(trials)
            trials = self._trials()
            position = sum(map(_counts, trials))
            waiting = sum(trial.state.name == "WAITING" for trial in trials)
            for number in range(min(count, self.total - position)):
                if self.request.sampler == "grid" and number >= waiting:
                    self._study.enqueue_trial(grid_point(self.request, position + number))
                self._study.sampler = make_sampler(self.request, position + number)
                trial = self._study.ask(distributions(self.request))
                trial.set_user_attr(WORKER, self._me.path.name)
                asked.append(Asked(trial, settings_of_trial(self.request, trial.params)))
                self._open.add(trial.number)
        return asked

    def should_prune(self, asked: Asked, step: int, value: float) -> bool:
        """Notes a value between chunks, and says whether the trial is worth going on with."""
        with explained(self._place):
            asked.trial.report(value, step)
            return bool(asked.trial.should_prune())

    def tell(self, asked: Asked, outcome: TrialOutcome) -> None:
        """Notes what became of a trial."""
        from optuna.trial import TrialState

        trial = asked.trial
        with explained(self._place):
            compiling = outcome.compile_seconds
            trial.set_user_attr(SECONDS, {"compile": compiling, "run": outcome.seconds - compiling})
            if outcome.state == "complete":
                final = {name: list(values) for name, values in outcome.final.items()}
                trial.set_user_attr(FINAL, final)
                self._study.tell(trial, outcome.value)
            elif outcome.state == "pruned":
                self._study.tell(trial, state=TrialState.PRUNED)
            else:
                trial.set_user_attr(ERROR, outcome.error)
                self._study.tell(trial, state=TrialState.FAIL)
        self._open.discard(trial.number)

    def leave(self, asked: Sequence[Asked]) -> None:
        """Puts trials that were not finished back into the queue."""
        with explained(self._place):
            for one in asked:
                self._put_back(one.number, one.trial._trial_id, one.trial.params)
                self._open.discard(one.number)

    @property
    def total(self) -> int:
        """How many trials there are to be; a grid may have fewer points than were asked for."""
        if self.request.sampler == "grid":
            return min(self.request.trials, self.request.grid_size())
        return self.request.trials

    def table(self, *, with_importances: bool = False) -> StudyTable:
        """Returns all trials as plain data."""
        request = self.request
        with explained(self._place):
            trials = [t for t in self._trials() if _counts(t)]
        table = StudyTable(
            metric=request.metric.name,
            label=request.metric.label,
            higher_is_better=request.metric.higher_is_better,
            percent=request.metric.percent,
            by_test=request.by_test,
            as_published=request.is_as_published,
            trials=tuple(self._plain(trial) for trial in trials),
        )
        best = table.best
        return StudyTable(
            **{
                **vars(table),
                "importances": self._importances() if with_importances else {},
                "command": request.command(best.settings) if best else "",
            }
        )

    def final_of(self, number: int) -> dict[str, tuple[float, ...]]:
        """Returns every metric of a complete trial, one value per seed."""
        with explained(self._place):
            attrs = self._study.trials[number].user_attrs
        return {name: tuple(values) for name, values in attrs.get(FINAL, {}).items()}

    def seconds(self) -> dict[str, float]:
        """Returns what all trials took together, compiling and running."""
        with explained(self._place):
            spent = [t.user_attrs.get(SECONDS, {}) for t in self._trials() if _counts(t)]
        return {name: sum(one.get(name, 0.0) for one in spent) for name in ("compile", "run")}

    def _load(self, storage: Any) -> Any:
        import optuna

        with explained(self._place), self.alone():
            return optuna.create_study(
                study_name=f"{self.request.row.id}/{self.request.name}",
                storage=storage,
                direction=self.request.search["direction"],
                pruner=make_pruner(self.request),
                sampler=make_sampler(self.request, 0),
                load_if_exists=True,
            )

    def _trials(self) -> list[Any]:
        return self._study.get_trials(deepcopy=False)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keeps other processes waiting: counting and asking must not be divided among them."""
        with explained(self._place), SystemLock(self.folder.path / "asking"):
            yield

    def _take_back(self, trials: Sequence[Any]) -> None:
        """Puts what dead processes left behind back into the queue."""
        dead = set()
        for trial in trials:
            if trial.state.name == "RUNNING" and self._is_lost(trial):
                self._put_back(trial.number, trial._trial_id, trial.params)
                dead.add(trial.user_attrs.get(WORKER))
        for worker in dead - {None}:
            shutil.rmtree(self.folder.path / WORKERS / worker, ignore_errors=True)

    def _is_lost(self, trial: Any) -> bool:
        """Says whether the process that works on a trial has died.

        A trial gets its worker while others are kept waiting: one without any was left just then,
        unless a machine that shares the storage but not the folder is at it this moment. A worker
        without a folder here may be on such a machine, and is left alone.
        """
        worker = trial.user_attrs.get(WORKER)
        if worker is None:
            age = (datetime.now() - trial.datetime_start).total_seconds()
            return self.request.storage is None or age > WAIT_SECONDS
        folder = RunFolder(self.folder.path / WORKERS / worker)
        is_me = worker == self._me.path.name
        return not is_me and folder.path.exists() and not folder.is_held()

    def _put_back(self, number: int, trial_id: int, params: dict[str, Any]) -> None:
        from optuna.trial import TrialState

        self._study._storage.set_trial_user_attr(trial_id, LEFT, True)
        self._study.tell(number, state=TrialState.FAIL)
        self._study.enqueue_trial(params)

    def _plain(self, trial: Any) -> Trial:
        states: Any = {"COMPLETE": "complete", "PRUNED": "pruned", "RUNNING": "running"}
        value = trial.value if trial.state.name == "COMPLETE" else None
        if trial.state.name == "PRUNED" and trial.intermediate_values:
            value = trial.intermediate_values[max(trial.intermediate_values)]
        is_whole = set(self.request.space) <= set(trial.params)
        return Trial(
            number=trial.number,
            state=states.get(trial.state.name, "failed"),
            settings=settings_of_trial(self.request, trial.params) if is_whole else {},
            value=value,
            seconds=sum(trial.user_attrs.get(SECONDS, {}).values()),
            error=trial.user_attrs.get(ERROR, ""),
        )

    def _importances(self) -> dict[str, float]:
        """Returns the share of the spread that each setting explains; none where it is unclear."""
        from optuna.importance import FanovaImportanceEvaluator, get_param_importances

        values = {t.value for t in self._trials() if t.state.name == "COMPLETE"}
        if len(values) < 2:
            return {}
        try:
            return get_param_importances(self._study, evaluator=FanovaImportanceEvaluator(seed=0))
        except (ValueError, RuntimeError):  # all trials alike in some setting
            return {}


def _counts(trial: Any) -> bool:
    """Says whether a trial is one of those that were asked for."""
    return trial.state.name != "WAITING" and not trial.user_attrs.get(LEFT, False)
