"""`fit_many`: learners that differ only in numbers, trained at once by the loop of `fit`."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from recombine.training._alike import are_alike
from recombine.training._cache import enable_compilation_cache
from recombine.training._checkpoints import Checkpoints
from recombine.training._errors import LearnerError
from recombine.training._fit import Fit, checked, train
from recombine.training._history import History, Seconds
from recombine.training._learner import Learner
from recombine.training._progress import Progress, SilentProgress, make_progress
from recombine.training._seeds import NEVER, Compiler, check_step, choose_runner, take_seed
from recombine.training._stopping import StopRequest

Watch = Callable[[int, int, dict[str, np.ndarray]], bool]
"""From a learner's number, the steps made and its metrics, one value per seed, to an early end."""


class OneOfMany(NamedTuple):
    """What became of one of several learners that were trained together."""

    fit: Fit
    ended: Literal["last step", "stopped", "not finite"]
    step: int
    """The last step, the one after which it was stopped, or the first bad one."""


def fit_many(
    learners: Sequence[Learner],
    *,
    steps: int,
    eval_every: int,
    seeds: Sequence[int] = (0,),
    checkpoints: Checkpoints | str | Path | None = None,
    progress: Progress | bool = True,
    vectorize: bool | None = None,
    will_inspect: bool = False,
    watch: Watch | None = None,
) -> list[OneOfMany]:
    """Trains learners that differ only in the numbers of their array leaves, each with every seed.

    On an accelerator all of them are one vectorised program, as seeds are in `fit`; on a CPU they
    take turns, chunk by chunk, with one compiled program. A learner's numbers are those of `fit`
    on it alone: to rounding where vectorised, bit for bit where they take turns.

    A learner whose metrics stop being finite ends by itself, and one that `watch` stops does too;
    the others go on. What ended costs nothing more where learners take turns. One program goes on
    with all, until all have ended.

    Args:
        learners: alike; `group_alike` finds those that are.
        steps: as for `fit`.
        eval_every: as for `fit`.
        seeds: as for `fit`.
        checkpoints: as for `fit`; they hold the states of all learners, in their order.
        progress: as for `fit`.
        vectorize: whether all share one program; by default, on accelerators.
        will_inspect: as for `fit`; alike learners share that program too.
        watch: called after every evaluation but the last for every learner that is still going.

    Raises:
        Interrupted: Ctrl-C, after the chunk was finished; without `checkpoints` nothing is saved.
        LearnerError: the learners are not alike, or break their contract.

    Example:
        >>> import equinox as eqx, jax.numpy as jnp
        >>> class Shrink(eqx.Module):
        ...     factor: jnp.ndarray
        ...     def init(self, key):
        ...         return jnp.float32(1.0)
        ...     def step(self, state, key):
        ...         return state * self.factor, {"loss": state}
        ...     def evaluate(self, state, key):
        ...         return {"value": state}
        >>> both = [Shrink(jnp.float32(0.5)), Shrink(jnp.float32(0.25))]
        >>> found = fit_many(both, steps=2, eval_every=1, progress=False)
        >>> [one.fit.final["value"].tolist() for one in found]
        [[0.25], [0.0625]]
    """
    seeds = checked(steps, eval_every, seeds)
    learners = list(learners)
    if not learners:
        raise ValueError("`learners` is empty; there is nothing to train")
    strangers = [n for n, one in enumerate(learners) if not are_alike(learners[0], one)]
    if strangers:
        raise LearnerError(
            f"learners that are trained together may differ only in the numbers of their array "
            f"leaves; number {strangers[0]} differs from the first in more. `group_alike` sorts "
            f"them into groups"
        )
    if isinstance(checkpoints, str | Path):
        checkpoints = Checkpoints(checkpoints)
    if isinstance(progress, bool):
        progress = make_progress() if progress else SilentProgress()
    enable_compilation_cache()
    check_step(learners[0], seeds[0])
    compiler = Compiler(progress.compiling)
    owners = [learner for learner in learners for _ in seeds]
    all_seeds = seeds * len(learners)
    runner = choose_runner(owners, all_seeds, vectorize, compiler)
    ended: dict[int, tuple[Literal["stopped", "not finite"], int]] = {}

    def columns(number: int) -> slice:
        return slice(number * len(seeds), (number + 1) * len(seeds))

    def look(step: int, metrics: dict[str, np.ndarray], first_bad_step: np.ndarray) -> bool:
        for number in [n for n in range(len(learners)) if n not in ended]:
            mine = columns(number)
            bad = [at for at in first_bad_step[mine].tolist() if at != NEVER]
            own = {name: values[mine] for name, values in metrics.items()}
            if bad:
                ended[number] = ("not finite", min(bad))
            elif watch is not None and step < steps and watch(number, step, own):
                ended[number] = ("stopped", step)
            if number in ended:
                runner.stop(range(mine.start, mine.stop))
        return len(ended) == len(learners)

    with progress, StopRequest() as stop:
        progress.start(steps=steps, seeds=all_seeds)
        together = train(
            *(learners[0], runner, steps, eval_every, all_seeds, checkpoints, progress, stop),
            will_inspect=will_inspect,
            watch=look,
            bears_bad_steps=True,
        )
    share = Seconds(
        compile=together.seconds.compile / len(learners), run=together.seconds.run / len(learners)
    )
    return [
        OneOfMany(
            _own_fit(together, columns(number), seeds, share),
            *ended.get(number, ("last step", steps)),
        )
        for number in range(len(learners))
    ]


def _own_fit(together: Fit, mine: slice, seeds: tuple[int, ...], seconds: Seconds) -> Fit:
    """Cuts out what belongs to one learner; the time is its share."""
    history = History(
        seeds,
        list(together.history.steps),
        {name: [row[mine] for row in rows] for name, rows in together.history.metrics.items()},
        {name: values[mine] for name, values in together.history.final.items()},
    )
    return Fit(take_seed(together.state, mine), history, seconds)
