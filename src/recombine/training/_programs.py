"""The programs of a run: its first state, a chunk of steps, a measurement; and their compilation.

Each is there for a seed alone and for many seeds at once. A learner may ask for compiler options of
its own; programs are made once for each set of options, so that later runs find what earlier ones
have compiled.
"""

import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Int, PRNGKeyArray, PyTree

from recombine.training._learner import Learner, Metrics

NEVER = -1
"""The first bad step of a seed that has none."""


class Compiler:
    """Calls jitted functions, and keeps the time of their compilation apart."""

    def __init__(self, on_compile: Callable[[bool], None]):
        self.seconds = 0.0
        self._on_compile = on_compile
        self._seen: set[tuple[Any, ...]] = set()

    def __call__(self, function: Any, *arguments: Any) -> Any:
        """Returns `function(*arguments)`."""
        self.prepare((function, *arguments))
        return function(*arguments)  # finds the program in JAX's own cache

    def prepare(self, *calls: tuple[Any, ...]) -> None:
        """Compiles what the calls need and has not been compiled yet, side by side."""
        new = {_signature(call): call for call in calls if _signature(call) not in self._seen}
        if not new:
            return
        self._on_compile(True)
        started = time.perf_counter()
        programs = [function.lower(*arguments) for function, *arguments in new.values()]
        with ThreadPoolExecutor(len(programs)) as pool:
            list(pool.map(lambda program: program.compile(), programs))
        self.seconds += time.perf_counter() - started
        self._on_compile(False)
        self._seen |= set(new)


def _signature(call: tuple[Any, ...]) -> tuple[Any, ...]:
    """Within one run only these tell programs apart: which function, and its constants."""
    function, *arguments = call
    return function, *(value for value in arguments if isinstance(value, int | str))


class Programs(NamedTuple):
    """What a run calls."""

    init: Any
    advance: Any
    measure: Any


@functools.cache  # later runs find what earlier ones have compiled
def compiled_with(functions: Programs, options: tuple[tuple[str, Any], ...]) -> Programs:
    """Returns the functions, to be compiled with these options."""
    jit: Any = eqx.filter_jit  # its annotations leave out what it passes on to `jax.jit`
    return Programs(*(jit(function, compiler_options=dict(options)) for function in functions))


def options_of(learner: Learner) -> tuple[tuple[str, Any], ...]:
    """Returns the compiler options that a learner asks for, less those of absent GPUs."""
    options = dict(getattr(learner, "compiler_options", ()))
    on_gpu = jax.default_backend() == "gpu"
    return tuple(
        (name, options[name])
        for name in sorted(options)
        if on_gpu or not name.startswith("xla_gpu_")
    )


def _init_seed(learner: Learner, key: PRNGKeyArray) -> Any:
    return _strongly_typed(learner.init(key))


def _advance_seed(
    learner: Learner,
    state: Any,
    step_key: PRNGKeyArray,
    start: Int[Array, ""],
    length: Int[Array, ""] | int,
) -> tuple[Any, Metrics, Int[Array, ""]]:
    arrays, static = eqx.partition(state, eqx.is_array)

    def one_step(arrays: Any, number: Int[Array, ""]) -> tuple[Any, Metrics]:
        state, metrics = learner.step(eqx.combine(arrays, static), jr.fold_in(step_key, number))
        return eqx.filter(state, eqx.is_array), metrics

    def body(index: Any, carry: Any) -> Any:
        arrays, _, bad = carry
        number = start + index
        arrays, metrics = one_step(arrays, number)
        finite = jnp.all(jnp.asarray([jnp.isfinite(value) for value in metrics.values()] or True))
        bad = jnp.where((bad == NEVER) & ~finite, number + 1, bad)
        return arrays, metrics, bad

    shapes = jax.eval_shape(one_step, arrays, start)[1]
    blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    carry = (arrays, blank, jnp.int32(NEVER))
    arrays, metrics, bad = jax.lax.fori_loop(0, length, body, carry)
    return eqx.combine(arrays, static), metrics, bad


def _measure_seed(
    what: str, learner: Learner, state: Any, key: PRNGKeyArray, step: Int[Array, ""]
) -> Metrics:
    return getattr(learner, what)(state, jr.fold_in(key, step))


def _init_together(shared: Any, own: Any, keys: PRNGKeyArray) -> Any:
    def init(own: Any, key: PRNGKeyArray) -> Any:
        return eqx.combine(own, shared).init(key)

    return _strongly_typed(eqx.filter_vmap(init)(own, keys))


def _advance_together(
    shared: Any, own: Any, state: Any, keys: PRNGKeyArray, start: Int[Array, ""], length: int
) -> tuple[Any, Metrics, Int[Array, " seeds"]]:
    def advance(own: Any, state: Any, key: PRNGKeyArray) -> tuple[Any, Metrics, Int[Array, ""]]:
        return _advance_seed(eqx.combine(own, shared), state, key, start, length)

    return eqx.filter_vmap(advance)(own, state, keys)


def _measure_together(
    what: str, shared: Any, own: Any, state: Any, keys: PRNGKeyArray, step: Int[Array, ""]
) -> Metrics:
    def measure(own: Any, state: Any, key: PRNGKeyArray) -> Metrics:
        return _measure_seed(what, eqx.combine(own, shared), state, key, step)

    return eqx.filter_vmap(measure)(own, state, keys)


IN_TURNS = Programs(_init_seed, _advance_seed, _measure_seed)
TOGETHER = Programs(_init_together, _advance_together, _measure_together)


def _strongly_typed(state: PyTree[Any]) -> PyTree[Any]:
    """Drops the mark of arrays made from Python numbers: `step` does, and would compile twice."""

    def strong(leaf: Any) -> Any:
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return leaf if is_key else jnp.asarray(leaf, leaf.dtype)

    return map_arrays(strong, state)


def map_arrays(function: Callable[[Any], Any], tree: PyTree[Any]) -> PyTree[Any]:
    """Applies a function to the arrays of a tree, and leaves the rest alone."""
    arrays, static = eqx.partition(tree, eqx.is_array)
    return eqx.combine(jax.tree.map(function, arrays), static)
