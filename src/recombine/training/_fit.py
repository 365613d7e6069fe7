"""`fit`, the only training loop of the library.

Steps run on the device in chunks of `eval_every`; between chunks the loop evaluates, records,
shows progress, saves and checks for values that are not finite. The key of a step is
`fold_in(step_key, number)`: a run that was killed and resumed ends with the same numbers.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recombine.training._cache import enable_compilation_cache
from recombine.training._checkpoints import Checkpoints
from recombine.training._errors import CheckpointError, Interrupted, NonFiniteError
from recombine.training._history import History, Seconds
from recombine.training._learner import Learner
from recombine.training._progress import Progress, SilentProgress, make_progress
from recombine.training._seeds import (
    NEVER,
    Compiler,
    TakeTurns,
    Together,
    check_step,
    choose_runner,
    seed_keys,
    take_seed,
)
from recombine.training._stopping import StopRequest


class Fit(NamedTuple):
    """A finished run."""

    state: PyTree[Any]
    """The final states, with a leading axis of seeds; `state_of` picks one."""
    history: History
    seconds: Seconds

    @property
    def final(self) -> dict[str, Float[np.ndarray, " seeds"]]:
        """Every metric after the last step, one value per seed."""
        return self.history.final

    def state_of(self, seed: int) -> PyTree[Any]:
        """Returns the final state of one of the seeds."""
        return take_seed(self.state, self.history.seeds.index(seed))


def fit(
    learner: Learner,
    *,
    steps: int,
    eval_every: int,
    seeds: Sequence[int] = (0,),
    checkpoints: Checkpoints | str | Path | None = None,
    progress: Progress | bool = True,
    vectorize: bool | None = None,
    will_inspect: bool = False,
    until: Callable[[int, dict[str, np.ndarray]], bool] | None = None,
) -> Fit:
    """Trains `learner` for `steps` steps with every seed, and measures it on the way.

    A seed's numbers depend neither on `eval_every`, nor on checkpoints, nor on the other seeds:
    bit for bit where seeds take turns (the default on a CPU), to rounding where they are
    vectorised.

    Args:
        learner: an `equinox.Module` with `init`, `step` and `evaluate`.
        steps: how many updates to make.
        eval_every: the chunk: how many updates between two evaluations.
        seeds: distinct whole numbers; each is an independent run.
        checkpoints: a folder to save to and to resume from, or `Checkpoints` with settings.
        progress: a bar on a terminal and plain lines elsewhere; `False` is silent.
        vectorize: whether the seeds share one program; by default, on accelerators.
        will_inspect: whether `inspect_seed` will be called for the first seed; its program is
            compiled while others run.
        until: called after every evaluation with the steps made and the metrics, one value per
            seed; where it returns True the run ends, as if that had been the last step.

    Raises:
        NonFiniteError: a metric of a step was NaN or infinite; it carries the history.
        Interrupted: Ctrl-C, after the chunk was finished and saved; it carries the history.
        CheckpointError: a checkpoint cannot be read, written, or is of another run.
        LearnerError: the learner breaks its contract.

    Example:
        >>> import equinox as eqx, jax.numpy as jnp
        >>> class Halve(eqx.Module):
        ...     def init(self, key):
        ...         return jnp.float32(1.0)
        ...     def step(self, state, key):
        ...         return state / 2, {"loss": state}
        ...     def evaluate(self, state, key):
        ...         return {"value": state}
        >>> fit(Halve(), steps=3, eval_every=1, progress=False).final["value"]
        array([0.125])
    """
    seeds = checked(steps, eval_every, seeds)
    if isinstance(checkpoints, str | Path):
        checkpoints = Checkpoints(checkpoints)
    if isinstance(progress, bool):
        progress = make_progress() if progress else SilentProgress()
    enable_compilation_cache()
    check_step(learner, seeds[0])
    compiler = Compiler(progress.compiling)
    runner = choose_runner(learner, seeds, vectorize, compiler)

    def watch(step: int, metrics: dict[str, np.ndarray], first_bad_step: np.ndarray) -> bool:
        return until is not None and until(step, metrics)

    with progress, StopRequest() as stop:
        progress.start(steps=steps, seeds=seeds)
        return train(
            *(learner, runner, steps, eval_every, seeds, checkpoints, progress, stop),
            will_inspect=will_inspect,
            watch=watch,
        )


def inspect_seed(learner: Any, fitted: Fit, seed: int) -> dict[str, np.ndarray]:
    """Returns what the learner finds worth drawing of one trained seed; it may be nothing."""
    if not hasattr(learner, "inspect"):
        return {}
    key = jr.fold_in(seed_keys(seed).evaluate, fitted.history.steps[-1])
    arrays = _inspect(learner, fitted.state_of(seed), key)
    return {name: np.asarray(value) for name, value in jax.device_get(arrays).items()}


def _inspect_state(learner: Any, state: Any, key: PRNGKeyArray) -> dict[str, Array]:
    return learner.inspect(state, key)


_inspect: Any = eqx.filter_jit(_inspect_state)


def _compile_inspect(learner: Any, state: Any, seed: int) -> Future[Any]:
    """Compiles in another thread what `inspect_seed` will call."""
    key = jr.fold_in(seed_keys(seed).evaluate, 0)
    pool = ThreadPoolExecutor(1)
    compiled = pool.submit(lambda: _inspect.lower(learner, state, key).compile())
    pool.shutdown(wait=False)
    return compiled


def train(
    learner: Learner,
    runner: TakeTurns | Together,
    steps: int,
    eval_every: int,
    seeds: tuple[int, ...],
    checkpoints: Checkpoints | None,
    progress: Progress,
    stop: StopRequest,
    *,
    watch: Callable[[int, dict[str, np.ndarray], np.ndarray], bool],
    will_inspect: bool = False,
    bears_bad_steps: bool = False,
) -> Fit:
    """The loop itself, for `fit` and `fit_many`.

    Args:
        learner: that of the first run.
        runner: makes the runs.
        steps: as for `fit`.
        eval_every: as for `fit`.
        seeds: one for each run.
        checkpoints: as for `fit`.
        progress: has been started.
        stop: asks for an early end.
        watch: called after every evaluation with the steps made, the metrics and the first bad
            step of every run, `NEVER` where there is none; True ends the training.
        will_inspect: as for `fit`.
        bears_bad_steps: whether a metric that is not finite is left for `watch` to see.
    """
    clock = _Clock(runner.compiler)
    state: Any = runner.init()
    history = History(seeds)
    step = 0
    restored = checkpoints.restore(runner.stack(state), seeds=seeds) if checkpoints else None
    if checkpoints and restored:
        step, state = restored.step, runner.unstack(restored.state)
        history = History.from_json(restored.notes["history"])
        if step > steps:
            raise CheckpointError(
                f"{checkpoints.last} is at step {step}, beyond the {steps} `steps` asked for; "
                f"give `checkpoints` another folder"
            )
        if step < steps:
            history.final = {}  # it was the end of a shorter run
        clock.add(Seconds(**restored.notes["seconds"]))
        progress.resumed(step)
    if step < steps:
        measures = [name for name in ("evaluate", "final") if hasattr(learner, name)]
        runner.prepare(state, _chunk(step, eval_every, steps), measures)
    if not restored:
        history.append(0, runner.measure("evaluate", state, 0))
    first_bad_step = np.full(len(seeds), NEVER)
    ahead = None
    if will_inspect and step < steps and hasattr(learner, "inspect"):
        ahead = _compile_inspect(learner, take_seed(runner.stack(state), 0), seeds[0])

    def save() -> Path | None:
        if checkpoints is None:
            return None
        notes = {"history": history.to_json(), "seconds": vars(clock.read())}
        return checkpoints.save(step, runner.stack(state), notes)

    while step < steps:
        length = _chunk(step, eval_every, steps)
        chunk = runner.advance(state, step, length, lambda n=length: progress.advance(n))
        state = chunk.state
        first_bad_step = np.where(first_bad_step == NEVER, chunk.first_bad_step, first_bad_step)
        if np.any(first_bad_step != NEVER) and not bears_bad_steps:
            raise _non_finite(first_bad_step, history, checkpoints, clock)
        step += length
        metrics = runner.measure("evaluate", state, step)
        history.append(step, {**{f"step/{k}": v for k, v in chunk.metrics.items()}, **metrics})
        progress.report(step, metrics)
        if watch(step, metrics, first_bad_step) or step == steps:
            break
        if stop.asked:
            raise Interrupted(step=step, checkpoint=save(), history=history, seconds=clock.read())
        if checkpoints and checkpoints.is_due():
            save()
    if not history.final:
        history.final = history.last()
        if hasattr(learner, "final"):
            history.final |= runner.measure("final", state, step)
        save()
    if ahead is not None:
        ahead.exception()  # waits; `inspect_seed` meets an error again, and says so
    return Fit(runner.stack(state), history, clock.read())


def _chunk(step: int, eval_every: int, steps: int) -> int:
    """Returns how many steps to make until the next evaluation."""
    return min(eval_every - step % eval_every, steps - step)


def checked(steps: int, eval_every: int, seeds: Sequence[int]) -> tuple[int, ...]:
    """Returns the seeds as whole numbers, or refuses what cannot be trained."""
    if steps < 1:
        raise ValueError(f"`steps` is the number of updates, at least 1; got {steps}")
    if eval_every < 1:
        raise ValueError(f"`eval_every` is a number of updates, at least 1; got {eval_every}")
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0:
        raise ValueError(f"`seeds` must be distinct whole numbers from 0 up; got {list(seeds)}")
    return tuple(int(seed) for seed in seeds)


def _non_finite(
    first_bad_step: np.ndarray, history: History, checkpoints: Checkpoints | None, clock: "_Clock"
) -> NonFiniteError:
    bad = np.where(first_bad_step == NEVER, np.iinfo(first_bad_step.dtype).max, first_bad_step)
    worst = int(np.argmin(bad))
    return NonFiniteError(
        seed=history.seeds[worst],
        step=int(first_bad_step[worst]),
        checkpoint=checkpoints.last if checkpoints else None,
        history=history,
        seconds=clock.read(),
    )


class _Clock:
    """Wall time of this run, with what earlier processes spent on it."""

    def __init__(self, compiler: Compiler):
        self._compiler = compiler
        self._started = time.perf_counter()
        self._earlier = Seconds()

    def add(self, earlier: Seconds) -> None:
        self._earlier = earlier

    def read(self) -> Seconds:
        here = time.perf_counter() - self._started
        return Seconds(
            compile=self._earlier.compile + self._compiler.seconds,
            run=self._earlier.run + here - self._compiler.seconds,
        )
