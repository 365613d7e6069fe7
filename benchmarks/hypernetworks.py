"""A meta-step of every learner of the hyperteacher, and the memory of a meta-gradient.

Time: milliseconds of a meta-step for each seed, with several seeds in one program, against one
seed, and by the precision of matrix products. Memory: what the compiler says a meta-gradient needs
at once with so many inner steps, with and without rematerialisation. On an accelerator networks,
tasks and numbers of seeds are the published ones; on a CPU they are small, to be done in minutes.
"""

from collections.abc import Callable
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

INNER_STEPS = (1, 10, 100, 1_000)
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
    seeds, steps = ((1, 2), 3) if on_cpu else ((1, 4, 16), 20)
    learners = ("linear-hnet", "maml") if on_cpu else LEARNERS
    precisions = () if on_cpu else ("highest", "bfloat16")
    lines = []
    for name in learners:
        # What MAML keeps of 16 seeds, all parameters before each inner step, is 75 GB.
        few = seeds[:-1] if name == "maml" and not on_cpu else seeds
        lines += _times(name, few, steps, precisions, on_cpu=on_cpu)
    return lines + _memory(on_cpu=on_cpu)


def _times(
    name: str, seeds: tuple[int, ...], steps: int, precisions: tuple[str, ...], *, on_cpu: bool
) -> list[dict]:
    """Returns the time of a meta-step: several seeds together, and other precisions."""
    row = find_row(f"modular/hyperteacher/compositional/{name}")
    config = replace(row.full.config, **SMALL) if on_cpu else row.full.config
    learner = row.make_learner(config, row.full.steps)
    calls = {f"{count} seeds": _program(learner, count, steps) for count in seeds}
    for precision in precisions:
        other = row.make_learner(replace(config, precision=precision), row.full.steps)
        calls[precision] = _program(other, 1, steps)
    taken = {what: time / steps for what, time in side_by_side(calls, rounds=3).items()}
    size = f"{config.num_tasks} tasks of {config.num_support} + {config.num_query}"
    alone = taken[f"{seeds[0]} seeds"]
    aim = f"published {PUBLISHED_MS[name]:g} ms, aim a third" if name in PUBLISHED_MS else ""
    lines = [
        {
            "name": f"{name} meta-step, {size}, for each of {count} seeds together",
            "seconds": taken[f"{count} seeds"] / count,
            "against": "one seed alone",
            "against_seconds": alone,
            "ratio": taken[f"{count} seeds"] / count / alone,
            "target": "" if on_cpu else aim,
        }
        for count in seeds
    ]
    lines += [
        {
            "name": f"{name} meta-step, {size}, products in {precision}",
            "seconds": taken[precision],
            "against": "the device's own precision",
            "against_seconds": alone,
            "ratio": taken[precision] / alone,
            "target": "",
        }
        for precision in precisions
    ]
    return lines


def _program(learner: Any, num_seeds: int, steps: int) -> Callable[[], None]:
    """Compiles steps of so many seeds as one program; returns a call that waits for its end."""
    keys = jr.split(jr.key(0), num_seeds)
    state = eqx.filter_jit(eqx.filter_vmap(learner.init))(keys)
    arrays, static = eqx.partition(state, eqx.is_array)

    def train(arrays: Any, key: jax.Array) -> Any:
        def step(carry: Any, key: jax.Array) -> tuple[Any, None]:
            state, _ = learner.step(eqx.combine(carry, static), key)
            return eqx.filter(state, eqx.is_array), None

        return jax.lax.scan(step, arrays, jr.split(key, steps))[0]

    compiled = jax.jit(jax.vmap(train)).lower(arrays, keys).compile()
    return partial(_finish, compiled, arrays, keys)


def _finish(compiled: Any, *arguments: Any) -> None:
    jax.block_until_ready(compiled(*arguments))


def _memory(*, on_cpu: bool) -> list[dict]:
    """Returns what a meta-gradient through so many inner steps needs at once."""
    num_tasks, rows, width = (2, 32, 32) if on_cpu else (16, 256, 128)
    config = HyperNetworkConfig(num_templates=32, width=width, num_hidden=1 if on_cpu else 3)
    model = config.make(key=jr.key(0))
    input_key, target_key = jr.split(jr.key(1))
    inputs = jr.normal(input_key, (num_tasks, rows, 16))
    targets = jr.normal(target_key, (num_tasks, rows, 8))
    needs = {
        (steps, keep): _meta_gradient_bytes(model, inputs, targets, steps, keep)
        for steps in INNER_STEPS
        for keep in ("segments", "everything")
    }
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
