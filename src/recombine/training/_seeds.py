"""How several runs share a machine: one after the other, or as one vectorised program.

A run is a seed of a learner; the runs of a call are seeds of one learner, or of several that differ
only in numbers.

On an accelerator many seeds cost little more than one, so they are `vmap`ped and spread over all
local devices. On a CPU the same `vmap` is 2-3 times slower per seed than taking turns.

Turns use one program for every number of steps (the trip count is an argument), so that a seed's
numbers cannot depend on how training is cut into chunks. Accelerators get the trip count as a
constant, which spares the device a question to the host in every iteration.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Int, PRNGKeyArray, PyTree

from recombine.training._alike import split_shared
from recombine.training._errors import LearnerError
from recombine.training._learner import Learner
from recombine.training._programs import (
    IN_TURNS,
    NEVER,
    TOGETHER,
    Compiler,
    compiled_with,
    map_arrays,
    options_of,
)


class SeedKeys(NamedTuple):
    """The three independent streams of one seed."""

    init: PRNGKeyArray
    step: PRNGKeyArray  # folded with the number of the step
    evaluate: PRNGKeyArray  # folded with the number of steps made


class Advance(NamedTuple):
    """The outcome of a chunk; arrays have a leading axis of seeds."""

    state: Any
    metrics: dict[str, np.ndarray]  # of the last step
    first_bad_step: Int[np.ndarray, " seeds"]  # `NEVER` where all metrics were finite


def seed_keys(seed: int) -> SeedKeys:
    """Turns a seed into keys; the only place that does."""
    return SeedKeys(*jr.split(jr.key(seed), 3))


class TakeTurns:
    """Makes the runs one after the other; a state is a list with one entry per run.

    Args:
        learner: of all runs, or a list with one for each run, all alike.
        seeds: one for each run.
        compiler: keeps the time.
    """

    def __init__(
        self, learner: Learner | list[Learner], seeds: tuple[int, ...], compiler: Compiler
    ):
        self.learners = _one_each(learner, seeds)
        self.programs = compiled_with(IN_TURNS, options_of(self.learners[0]))
        self.keys = [seed_keys(seed) for seed in seeds]
        self.compiler = compiler
        self._stopped: frozenset[int] = frozenset()

    def stop(self, runs: Iterable[int]) -> None:
        """Spares these runs from here on; what they would have measured is NaN."""
        self._stopped |= frozenset(runs)

    def init(self) -> list[Any]:
        """Returns the state before the first step."""
        return [
            self.compiler(self.programs.init, learner, keys.init)
            for learner, keys in zip(self.learners, self.keys, strict=True)
        ]

    def prepare(self, state: list[Any], length: int, measures: Sequence[str]) -> None:
        """Compiles everything that a run will call; one program serves every length."""
        learner, keys, number = self.learners[0], self.keys[0], jnp.int32(0)
        _, advance, measure = self.programs
        self.compiler.prepare(
            (advance, learner, state[0], keys.step, number, number),
            *((measure, what, learner, state[0], keys.evaluate, number) for what in measures),
        )

    def advance(
        self, state: list[Any], start: int, length: int, on_seed: Callable[[], None]
    ) -> Advance:
        """Makes `length` steps in every run."""
        states, metrics, bad = list(state), [], []
        for run, (learner, keys) in enumerate(zip(self.learners, self.keys, strict=True)):
            if run in self._stopped:
                metrics.append(None)
                bad.append(NEVER)
            else:
                outcome = self.compiler(
                    *(self.programs.advance, learner, state[run], keys.step),
                    *(jnp.int32(start), jnp.int32(length)),
                )
                states[run] = outcome[0]
                measured, first_bad = jax.device_get(outcome[1:])
                metrics.append(measured)
                bad.append(first_bad)
            on_seed()
        return Advance(states, _columns(metrics), np.asarray(bad))

    def measure(self, what: str, state: list[Any], step: int) -> dict[str, np.ndarray]:
        """Calls the learner's `evaluate` or `final` in every run."""
        program, number = self.programs.measure, jnp.int32(step)
        measured = [
            None
            if run in self._stopped
            else self.compiler(program, what, learner, state[run], keys.evaluate, number)
            for run, (learner, keys) in enumerate(zip(self.learners, self.keys, strict=True))
        ]
        return _columns([jax.device_get(metrics) for metrics in measured])

    def stack(self, state: list[Any]) -> PyTree[Any]:
        """Returns one pytree with a leading axis of seeds."""
        return stack_states(state)

    def unstack(self, stacked: PyTree[Any]) -> list[Any]:
        """Undoes `stack`."""
        return [take_seed(stacked, index) for index in range(len(self.keys))]


class Together:
    """Makes all runs as one program, spread over the local devices; a state has an axis of runs.

    When the runs do not divide by the devices, the last one is repeated to fill the gap and the
    copies are dropped from everything that is returned. Where learners differ, the leaves that do
    have the axis as well.
    """

    def __init__(
        self, learner: Learner | list[Learner], seeds: tuple[int, ...], compiler: Compiler
    ):
        devices = jax.local_devices()[: len(seeds)]
        mesh = Mesh(np.asarray(devices), ("seeds",))
        self.num_seeds = len(seeds)
        self.compiler = compiler
        self.over_seeds = NamedSharding(mesh, PartitionSpec("seeds"))
        missing = -len(seeds) % len(devices)
        keys = [seed_keys(seed) for seed in seeds + seeds[-1:] * missing]
        self.keys = self._spread(jax.tree.map(lambda *leaves: jnp.stack(leaves), *keys))
        learners = _one_each(learner, seeds)
        self.programs = compiled_with(TOGETHER, options_of(learners[0]))
        own, shared = split_shared(learners + learners[-1:] * missing)
        arrays, static = eqx.partition(shared, eqx.is_array)
        everywhere = NamedSharding(mesh, PartitionSpec())
        self.shared = eqx.combine(jax.device_put(arrays, everywhere), static)
        self.own = self._spread(own)

    def stop(self, runs: Iterable[int]) -> None:
        """Does nothing: runs that share a program go on together."""

    def init(self) -> PyTree[Any]:
        """Returns the state before the first step."""
        return self.compiler(self.programs.init, self.shared, self.own, self.keys.init)

    def prepare(self, state: PyTree[Any], length: int, measures: Sequence[str]) -> None:
        """Compiles everything that a run will call, but for a shorter last chunk."""
        keys, number = self.keys, jnp.int32(0)
        _, advance, measure = self.programs
        self.compiler.prepare(
            (advance, self.shared, self.own, state, keys.step, number, length),
            *(
                (measure, what, self.shared, self.own, state, keys.evaluate, number)
                for what in measures
            ),
        )

    def advance(
        self, state: PyTree[Any], start: int, length: int, on_seed: Callable[[], None]
    ) -> Advance:
        """Makes `length` steps with every seed."""
        state, metrics, bad = self.compiler(
            *(self.programs.advance, self.shared, self.own, state, self.keys.step),
            *(jnp.int32(start), length),
        )
        metrics, bad = jax.device_get((metrics, bad))
        for _ in range(self.num_seeds):
            on_seed()
        return Advance(state, self._drop_copies(metrics), bad[: self.num_seeds])

    def measure(self, what: str, state: PyTree[Any], step: int) -> dict[str, np.ndarray]:
        """Calls the learner's `evaluate` or `final` on every seed."""
        metrics = self.compiler(
            *(self.programs.measure, what, self.shared, self.own, state, self.keys.evaluate),
            jnp.int32(step),
        )
        return self._drop_copies(jax.device_get(metrics))

    def stack(self, state: PyTree[Any]) -> PyTree[Any]:
        """Returns one pytree with a leading axis of seeds, without the copies."""
        return map_arrays(lambda leaf: leaf[: self.num_seeds], state)

    def unstack(self, stacked: PyTree[Any]) -> PyTree[Any]:
        """Undoes `stack`."""
        missing = self.keys.init.shape[0] - self.num_seeds
        filled = map_arrays(lambda leaf: jnp.concatenate([leaf, *[leaf[-1:]] * missing]), stacked)
        return self._spread(filled)

    def _spread(self, tree: PyTree[Any]) -> PyTree[Any]:
        return map_arrays(lambda leaf: jax.device_put(leaf, self.over_seeds), tree)

    def _drop_copies(self, metrics: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {name: values[: self.num_seeds] for name, values in metrics.items()}


def choose_runner(
    learner: Learner | list[Learner],
    seeds: tuple[int, ...],
    vectorize: bool | None,
    compiler: Compiler,
) -> TakeTurns | Together:
    """Picks the way that was measured to be faster on the default device, unless told."""
    if vectorize is None:
        vectorize = seeds_share_a_program(_one_each(learner, seeds)[0])
    return (Together if vectorize else TakeTurns)(learner, seeds, compiler)


def seeds_share_a_program(learner: Learner) -> bool:
    """Says whether `fit` would train the seeds of a learner as one program, on this device.

    A learner may know better: convolutions of several models at once are grouped ones.
    """
    return jax.default_backend() != "cpu" and getattr(learner, "vectorize_seeds", True)


def check_step(learner: Learner, seed: int) -> None:
    """Raises `LearnerError` when `step` does not return the kind of state that `init` made."""
    keys = seed_keys(seed)
    before = eqx.filter_eval_shape(learner.init, keys.init)
    outcome = eqx.filter_eval_shape(learner.step, before, keys.step)
    if not (isinstance(outcome, tuple) and len(outcome) == 2 and isinstance(outcome[1], dict)):
        raise LearnerError(
            f"`step` must return (state, metrics) with a dict of metrics; got {type(outcome)}"
        )
    after, metrics = outcome
    for name, value in metrics.items():
        if value.shape != ():
            raise LearnerError(f"the step metric {name!r} must be a scalar; got {value.shape}")
    old, new = (jax.tree_util.tree_flatten_with_path(tree) for tree in (before, after))
    if old[1] != new[1]:
        raise LearnerError(
            f"`step` must return a state of the same structure as `init`; `init` made {old[1]}, "
            f"`step` returned {new[1]}"
        )
    for (path, was), (_, now) in zip(old[0], new[0], strict=True):
        if hasattr(was, "shape") and (was.shape, was.dtype) != (now.shape, now.dtype):
            raise LearnerError(
                f"`step` changed the state's leaf {jax.tree_util.keystr(path)} from "
                f"{was.dtype}{list(was.shape)} to {now.dtype}{list(now.shape)}; they must agree"
            )


def take_seed(stacked: PyTree[Any], index: int | slice) -> PyTree[Any]:
    """Returns the state of one seed, or of a span of them, out of a stacked one."""
    return map_arrays(lambda leaf: leaf[index], stacked)


def stack_states(states: list[Any]) -> PyTree[Any]:
    """Stacks the arrays of several states along a new leading axis."""
    parts = [eqx.partition(state, eqx.is_array) for state in states]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *[arrays for arrays, _ in parts])
    return eqx.combine(stacked, parts[0][1])


def _one_each(learner: Learner | list[Learner], seeds: tuple[int, ...]) -> list[Learner]:
    return learner if isinstance(learner, list) else [learner] * len(seeds)


def _columns(rows: Sequence[Any]) -> dict[str, np.ndarray]:
    """Returns one array per metric; a run that was spared (`None`) has NaN."""
    names = next((row for row in rows if row is not None), {})
    return {
        name: np.asarray([np.nan if row is None else row[name] for row in rows]) for name in names
    }
