"""One iteration of learning to distill, and the memory of its meta-gradient.

An iteration is a meta-step through 96 inner steps and 24 student steps, with the networks of the
control tasks. Time: of all seeds in one program, against one seed, and against other ways to get
the same gradient: the teacher within the loop, and other choices of what is kept for the backward
pass. Memory: what the compiler says that a meta-step needs at once. The data are random numbers of
the right shapes. On a CPU networks are small and steps few, to be done in a minute or two.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from _measure import side_by_side

from recombine.experiments import find_row

ROW = "ldt/mujoco/hopper/ldt"
INNER_STEPS = (24, 96, 384)
NO_TRITON = (("xla_gpu_enable_triton_gemm", False),)
SMALL: dict[str, Any] = {
    "hidden": (16,) * 3,
    "teacher_maps": (8, 8),
    "teacher_hidden": 16,
    "batch_size": 8,
    "student_steps": 4,
    "inner_steps": 8,
}


def measure() -> list[dict]:
    on_cpu = jax.default_backend() == "cpu"
    return _times(on_cpu=on_cpu) + _memory(on_cpu=on_cpu)


def make_learner(*, on_cpu: bool, **changes: Any) -> Any:
    """Returns the learner of the row, without what is measured between iterations."""
    row = find_row(ROW)
    small = SMALL if on_cpu else {}
    sizes = {"num_test": 8, "num_selection": 8, "num_train": 400 if on_cpu else 4000}
    config = replace(row.full.config, data="random", iterations=1, **small | sizes | changes)
    return replace(row.make_learner(config, row.full.steps), watches=())


def _times(*, on_cpu: bool) -> list[dict]:
    """Returns the time of an iteration."""
    many, rounds, steps = (2, 3, 3) if on_cpu else (8, 5, 10)
    learner = make_learner(on_cpu=on_cpu)
    within = _training(learner, hoist=False)
    ways = {
        "together": (learner, many),
        "alone": (learner, 1),
        "within": (within, many),
        "everything": (make_learner(on_cpu=on_cpu, keep="everything"), many),
        "leaves": (_training(learner, packed=False), many),
        "cublas": (replace(learner, compiler_options=NO_TRITON), many),
        "segments": (make_learner(on_cpu=on_cpu, keep="segments"), many),
        "highest": (make_learner(on_cpu=on_cpu, precision="highest"), many),
    }
    if on_cpu:
        ways = {name: ways[name] for name in ("together", "alone", "within")}
    with ThreadPoolExecutor() as pool:  # compiles side by side
        programs = pool.map(lambda way: _program(way[0], way[1], steps), ways.values())
        calls = dict(zip(ways, programs, strict=True))
    taken = {name: time / steps for name, time in side_by_side(calls, rounds=rounds).items()}
    inner = learner.teacher_training.inner_steps
    what = f"iteration of {inner} inner and {learner.student_steps} student steps"
    lines = [
        {
            "name": f"{what}, {many} seeds together",
            "seconds": taken["together"],
            "against": "one seed alone",
            "against_seconds": taken["alone"],
            "ratio": taken["together"] / taken["alone"],
            "target": "" if on_cpu else "at most 120 ms, aim 60 ms",
        }
    ]
    names = {
        "within": "the teacher within the loop",
        "everything": "everything kept for the backward pass",
        "segments": "only the starts of segments kept",
        "leaves": "the student of the inner loop leaf by leaf",
        "cublas": "without Triton kernels for products",
        "highest": "products in full single precision",
    }
    lines += [
        {
            "name": f"{what}, {many} seeds together",
            "seconds": taken["together"],
            "against": names[name],
            "against_seconds": taken[name],
            "ratio": taken["together"] / taken[name],
            "target": "",
        }
        for name in ways
        if name in names
    ]
    return lines


def _training(learner: Any, **changes: Any) -> Any:
    return replace(learner, teacher_training=replace(learner.teacher_training, **changes))


def _program(learner: Any, num_seeds: int, steps: int) -> Callable[[], None]:
    """Compiles iterations of so many seeds as one program; returns a call that waits for it."""
    keys = jr.split(jr.key(0), num_seeds)
    state = eqx.filter_jit(eqx.filter_vmap(learner.init))(keys)
    arrays, static = eqx.partition(state, eqx.is_array)
    numbers, settings = eqx.partition(learner, eqx.is_array)

    def train(numbers: Any, arrays: Any, key: jax.Array) -> Any:
        def step(carry: Any, key: jax.Array) -> tuple[Any, None]:
            learner = eqx.combine(numbers, settings)
            state, _ = learner.step(eqx.combine(carry, static), key)
            return eqx.filter(state, eqx.is_array), None

        return jax.lax.scan(step, arrays, jr.split(key, steps))[0]

    program = jax.jit(jax.vmap(train, in_axes=(None, 0, 0)))
    options = dict(learner.compiler_options) if jax.default_backend() == "gpu" else {}
    compiled = program.lower(numbers, arrays, keys).compile(compiler_options=options)
    return partial(_finish, compiled, numbers, arrays, keys)


def _finish(compiled: Any, *arguments: Any) -> None:
    jax.block_until_ready(compiled(*arguments))


def _memory(*, on_cpu: bool) -> list[dict]:
    """Returns what a meta-step of one seed needs at once."""
    learner = make_learner(on_cpu=on_cpu)
    state = eqx.filter_jit(learner.init)(jr.key(0))
    ways = ("steps", "segments", "everything")
    learners = {
        (steps, keep): make_learner(on_cpu=on_cpu, inner_steps=steps, keep=keep)
        for steps in INNER_STEPS
        for keep in ways
    }
    with ThreadPoolExecutor() as pool:
        sizes = pool.map(lambda learner: meta_step_bytes(learner, state), learners.values())
        needs = dict(zip(learners, sizes, strict=True))
    kept = {"steps": "a student per step kept", "segments": "a student per segment kept"}
    return [
        {
            "name": f"memory of a meta-step, {steps} inner steps, {kept[keep]}",
            "bytes": needs[steps, keep],
            "against": "everything kept",
            "against_bytes": needs[steps, "everything"],
            "ratio": needs[steps, keep] / needs[steps, "everything"],
            "target": "",
        }
        for steps in INNER_STEPS
        for keep in kept
    ]


def meta_step_bytes(learner: Any, state: Any) -> int:
    """Returns the temporary memory of one meta-step, by the compiler's own account."""
    arrays, static = eqx.partition((learner, state), eqx.is_array)
    shape = (learner.teacher_training.inner_steps, learner.batches.batch_size)

    @jax.jit
    def meta_step(arrays: Any, rows: jax.Array) -> Any:
        learner, state = eqx.combine(arrays, static)
        return eqx.filter(learner.update_teacher(state, rows), eqx.is_array)

    needs = meta_step.lower(arrays, jnp.zeros(shape, jnp.int32)).compile().memory_analysis()
    assert needs is not None
    return needs.temp_size_in_bytes
