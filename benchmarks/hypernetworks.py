"""A meta-step of every learner of the hyperteacher, and the memory of a meta-gradient.

Time: milliseconds of a meta-step for each seed, with several seeds in one program, against one
seed, and by the precision of matrix products. Memory: what the compiler says a meta-gradient needs
at once with so many inner steps, with and without rematerialisation. On an accelerator networks and
tasks are the published ones; on a CPU they are small, to be done in minutes. Programs compile at
the same time, and are timed one after another.
"""

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from _measure import side_by_side

from recombine.experiments import find_row
from recombine.methods.adaptation import adapt, differentiable_adamw
from recombine.methods.hypernetworks import HyperNetworkConfig, SquaredError

LEARNERS = ("linear-hnet", "deep-hnet", "maml", "anil")
PUBLISHED_MS = {"linear-hnet": 10.3, "anil": 43.0, "maml": 42.0}
"""Of the authors' code on an H200, one seed at a time; at least three times faster is the aim."""

SEEDS, STEPS = 4, 10
INNER_STEPS = (1, 10, 100, 1_000)
PUBLISHED_TASKS = 128
"""In a meta-step; the rows of the table take fewer."""

SMALL: dict[str, Any] = {
    "num_hidden": 2,
    "width": 32,
    "num_tasks": 4,
    "num_support": 32,
    "num_query": 32,
    "inner_steps": 5,
}


def measure() -> list[dict]:
    on_cpu = jax.default_backend() == "cpu"
    learners = ("linear-hnet", "maml") if on_cpu else LEARNERS
    with ThreadPoolExecutor() as pool:
        configs = {name: _config(name, on_cpu=on_cpu) for name in learners}
        programs = {name: _programs(name, configs[name], pool) for name in learners}
        memory = _memory(pool, on_cpu=on_cpu)
        calls = {name: {k: f.result() for k, f in programs[name].items()} for name in learners}
    lines = []
    for name in learners:
        lines += _times(name, configs[name], calls[name], on_cpu=on_cpu)
    return lines + memory


def _config(name: str, *, on_cpu: bool) -> Any:
    """Returns the row's settings without what it does for the sake of fewer tasks in a step."""
    config = find_row(f"modular/hyperteacher/compositional/{name}").full.config
    sizes = SMALL if on_cpu else {"num_tasks": PUBLISHED_TASKS}
    return replace(config, clip_tasks=None, **sizes)


def _programs(name: str, config: Any, pool: Executor) -> dict[tuple[int, str | None], Any]:
    """Starts compiling a learner's meta-steps: for one seed and for several, by precision."""
    row = find_row(f"modular/hyperteacher/compositional/{name}")
    wanted = ((1, None), (SEEDS, None), (SEEDS, "float16"), (SEEDS, "bfloat16"))
    started = {}
    for count, precision in wanted:
        learner = row.make_learner(replace(config, precision=precision), row.full.steps)
        started[count, precision] = pool.submit(_program, learner, count)
    return started


def _times(name: str, config: Any, calls: dict[Any, Any], *, on_cpu: bool) -> list[dict]:
    """Returns the time of a meta-step: several seeds together, and other precisions."""
    taken = {
        (count, precision): time / STEPS / count
        for (count, precision), time in side_by_side(calls, rounds=3).items()
    }
    size = f"{config.num_tasks} tasks of {config.num_support} + {config.num_query}"
    aim = f"published {PUBLISHED_MS[name]:g} ms, aim a third" if name in PUBLISHED_MS else ""
    alone = taken[1, None]
    return [
        {
            "name": f"{name} meta-step, {size}, for each of {count} seeds together"
            + ("" if precision is None else f", products in {precision}")
            + f"; {1 / seconds:.0f} meta-steps a second",
            "meta_steps_per_second": 1 / seconds,
            "seconds": seconds,
            "against": "one seed alone, the device's own precision",
            "against_seconds": alone,
            "ratio": seconds / alone,
            "target": "" if on_cpu else aim,
        }
        for (count, precision), seconds in taken.items()
    ]


def _program(learner: Any, num_seeds: int) -> Callable[[], None]:
    """Compiles steps of so many seeds as one program; returns a call that waits for its end."""
    keys = jr.split(jr.key(0), num_seeds)
    state = eqx.filter_jit(eqx.filter_vmap(learner.init))(keys)
    arrays, static = eqx.partition(state, eqx.is_array)

    def train(arrays: Any, key: jax.Array) -> Any:
        def step(carry: Any, key: jax.Array) -> tuple[Any, None]:
            state, _ = learner.step(eqx.combine(carry, static), key)
            return eqx.filter(state, eqx.is_array), None

        return jax.lax.scan(step, arrays, jr.split(key, STEPS))[0]

    compiled = jax.jit(jax.vmap(train)).lower(arrays, keys).compile()
    return partial(_finish, compiled, arrays, keys)


def _finish(compiled: Any, *arguments: Any) -> None:
    jax.block_until_ready(compiled(*arguments))


def _memory(pool: Executor, *, on_cpu: bool) -> list[dict]:
    """Returns what a meta-gradient through so many inner steps needs at once."""
    num_tasks, rows, width = (2, 32, 32) if on_cpu else (16, 256, 128)
    config = HyperNetworkConfig(num_templates=32, width=width, num_hidden=1 if on_cpu else 3)
    model = config.make(key=jr.key(0))
    input_key, target_key = jr.split(jr.key(1))
    inputs = jr.normal(input_key, (num_tasks, rows, 16))
    targets = jr.normal(target_key, (num_tasks, rows, 8))
    compiling = {
        (steps, keep): pool.submit(_meta_gradient_bytes, model, inputs, targets, steps, keep)
        for steps in INNER_STEPS
        for keep in ("segments", "everything")
    }
    needs = {which: found.result() for which, found in compiling.items()}
    size = f"{num_tasks} tasks of {rows}"
    lines = []
    for steps in INNER_STEPS:
        name = f"memory of a meta-gradient, {size}, {steps:,} inner steps"
        pairs = [("everything", steps, "everything kept", "")]
        if steps > 1:
            pairs.append(("segments", 1, "1 inner step", f"far below {steps:,}"))
        lines += [
            {
                "name": name,
                "bytes": needs[steps, "segments"],
                "against": against,
                "against_bytes": needs[other, keep],
                "ratio": needs[steps, "segments"] / needs[other, keep],
                "target": target,
            }
            for keep, other, against, target in pairs
        ]
    return lines


def _meta_gradient_bytes(model: Any, inputs: Any, targets: Any, steps: int, keep: Any) -> int:
    objective = SquaredError()

    def meta_loss(model: Any, inputs: jax.Array, targets: jax.Array) -> jax.Array:
        def one(inputs: jax.Array, targets: jax.Array) -> jax.Array:
            def loss(task: Any, _: Any) -> jax.Array:
                return objective.loss(model.predict(task, inputs), targets, None)

            start = model.start(inputs, targets, None, key=jr.key(0))
            found = adapt(loss, start, differentiable_adamw(0.1), num_steps=steps, keep=keep)
            return loss(found.params, None)

        return jnp.mean(jax.vmap(one)(inputs, targets))

    needs = jax.jit(jax.grad(meta_loss)).lower(model, inputs, targets).compile().memory_analysis()
    assert needs is not None
    return needs.temp_size_in_bytes
