"""The work of a search: some settings of one row, trained at once. Nothing here knows Optuna.

`run_trials` takes and returns plain data, so that it can run in another process or on another
machine; it writes no files.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from recombine.experiments import Variant, change_settings, find_row, load_systems
from recombine.tuning._errors import StudyError

Watch = Callable[[int, int, float], bool]
"""From a trial's place in its batch, the steps made and the metric to whether it is pruned."""


@dataclass(frozen=True)
class TrialBatch:
    """Settings of one row that are to be tried."""

    row: str
    variant: str
    changes: tuple[tuple[str, ...], ...]  # for every trial its `key=value` texts
    seeds: tuple[int, ...]
    metric: str  # a final metric of the row's learner
    plugins: tuple[str, ...] = ()


@dataclass(frozen=True)
class TrialOutcome:
    """What became of one setting."""

    state: Literal["complete", "pruned", "failed"]
    value: float | None = None  # the mean over seeds; None unless it is complete
    final: dict[str, tuple[float, ...]] = field(default_factory=dict)  # one value per seed
    curve: tuple[tuple[int, float], ...] = ()  # the metric after so many steps
    seconds: float = 0.0  # compiling and running, its share of the batch
    compile_seconds: float = 0.0
    error: str = ""


def run_trials(
    batch: TrialBatch,
    *,
    watch: Watch | None = None,
    progress: Any = False,
    vectorize: bool | None = None,
) -> list[TrialOutcome]:
    """Trains every setting of a batch; those that differ only in numbers share one program.

    Settings whose learners differ in more (sizes, kinds of layers) make groups, which are trained
    one after the other. A setting that the row refuses, or whose metrics stop being finite, has
    failed; the others go on.

    Args:
        batch: what to try.
        watch: called after every evaluation but the last; True prunes the trial.
        progress: as for `recombine.training.fit`.
        vectorize: as for `recombine.training.fit_many`.

    Raises:
        StudyError: the learner does not measure the metric.
        Interrupted: Ctrl-C; nothing of the batch is kept.
    """
    row = find_row(batch.row, load_systems(batch.plugins))
    base = row.variant(batch.variant)
    outcomes: dict[int, TrialOutcome] = {}
    made: dict[int, tuple[Variant, Any]] = {}
    for place, changes in enumerate(batch.changes):
        variant, _ = change_settings(base, changes)
        try:
            made[place] = (variant, row.make_learner(variant.config, variant.steps))
        except (ValueError, TypeError) as error:
            outcomes[place] = TrialOutcome("failed", error=f"{type(error).__name__}: {error}")
    for places in _groups(made):
        variant = made[places[0]][0]
        learners = [made[place][1] for place in places]
        found = _run_group(batch, variant, learners, places, watch, progress, vectorize)
        outcomes |= dict(zip(places, found, strict=True))
    return [outcomes[place] for place in range(len(batch.changes))]


def _groups(made: dict[int, tuple[Variant, Any]]) -> list[list[int]]:
    """Sorts trials into those that one call of `fit_many` can train."""
    from recombine.training import group_alike

    by_length: dict[tuple[int, int], list[int]] = {}
    for place, (variant, _) in made.items():
        by_length.setdefault((variant.steps, variant.eval_every), []).append(place)
    return [
        [places[number] for number in group]
        for places in by_length.values()
        for group in group_alike([made[place][1] for place in places])
    ]


def _run_group(
    batch: TrialBatch,
    variant: Variant,
    learners: list[Any],
    places: Sequence[int],
    watch: Watch | None,
    progress: Any,
    vectorize: bool | None,
) -> list[TrialOutcome]:
    from recombine.training import fit_many

    _check_metric(batch, learners[0], is_watched=watch is not None)

    def look(number: int, step: int, metrics: dict[str, Any]) -> bool:
        return watch is not None and watch(
            places[number], step, float(metrics[batch.metric].mean())
        )

    trained = fit_many(
        learners,
        steps=variant.steps,
        eval_every=variant.eval_every,
        seeds=batch.seeds,
        progress=progress,
        vectorize=vectorize,
        watch=look if watch else None,
    )
    return [_outcome(one, batch.metric) for one in trained]


def _outcome(one: Any, metric: str) -> TrialOutcome:
    history, spent = one.fit.history, one.fit.seconds
    times: dict[str, Any] = {
        "seconds": spent.compile + spent.run,
        "compile_seconds": spent.compile,
    }
    curve = ()
    if metric in history.metrics:
        means = [float(values.mean()) for values in history.metrics[metric]]
        pairs = zip(history.steps, means, strict=True)
        curve = tuple((step, mean) for step, mean in pairs if math.isfinite(mean))
    if one.ended == "not finite":
        why = f"a training metric was not finite at step {one.step}"
        return TrialOutcome("failed", curve=curve, error=why, **times)
    if one.ended == "stopped":
        return TrialOutcome("pruned", curve=curve, **times)
    final = {name: tuple(values.tolist()) for name, values in one.fit.final.items()}
    value = float(one.fit.final[metric].mean())
    if not math.isfinite(value):
        return TrialOutcome("failed", curve=curve, error=f"{metric} is not a number", **times)
    return TrialOutcome("complete", value, final, curve, **times)


def _check_metric(batch: TrialBatch, learner: Any, *, is_watched: bool) -> None:
    """Refuses a metric that is not measured, before anything is trained."""
    import equinox as eqx
    import jax

    def names(what: str) -> list[str]:
        if not hasattr(learner, what):
            return []
        state = eqx.filter_eval_shape(learner.init, jax.random.key(0))
        return list(eqx.filter_eval_shape(getattr(learner, what), state, jax.random.key(0)))

    evaluated = names("evaluate")
    if batch.metric in evaluated:
        return
    measured = [*evaluated, *names("final")]
    if batch.metric not in measured:
        raise StudyError(
            f"{batch.row} does not measure {batch.metric!r}; it measures {', '.join(measured)}"
        )
    if is_watched:
        raise StudyError(
            f"{batch.metric!r} is measured after the last step only, so trials cannot be pruned "
            f"by it; use `--pruner none`"
        )
