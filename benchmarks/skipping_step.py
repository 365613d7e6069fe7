"""One training step with adaptive skips, against the model's own work in it.

How much the matching costs, how much of the device's throughput on the model's convolutions is
left, what leaving out finished trajectories gains, and whether faster convolutions change what is
matched. On an accelerator the task and the models are those of the published run on Funnel board
and of our own shorter one, with convolutions in bfloat16; on a CPU they are small, to be done in a
minute.
"""

import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from _measure import side_by_side

from recombine.experiments import find_row
from recombine.methods.skipping import (
    BINARY_CROSS_ENTROPY,
    SkipLearner,
    Skips,
    VideoModel,
    _rolling as rolling_module,
    as_floats,
    flip_coins,
    free_run,
    skip_loss,
)

MANY = 256  # images at a time, for the throughput of convolutions
PRECISIONS = ("highest", "default", "bfloat16")


class Comparison(NamedTuple):
    """Two calls that are timed side by side, and the line of the table that comes of it."""

    this: Callable[[], Any]
    that: Callable[[], Any]
    line: Callable[[float, float], dict]


class Begun(NamedTuple):
    """A run that has made a few steps."""

    learner: SkipLearner
    step: Callable[..., Any]
    state: Any
    late: Any
    """The same as late as the run ends: no exploration, little truth, and the model decides."""
    size: str


def measure() -> list[dict]:
    on_cpu = jax.default_backend() == "cpu"
    kinds = ("asi-published",) if on_cpu else ("asi-published", "asi")
    with ThreadPoolExecutor() as pool:
        runs = list(pool.map(partial(_begin, on_cpu=on_cpu), kinds))
    many = MANY // 16 if on_cpu else MANY
    comparisons = [one for run in runs for one in (_overhead(run), _throughput(run, many))]
    comparisons.append(_early_exit(runs[0]))
    chosen = {name: partial(_chosen_by, runs[-1], name) for name in PRECISIONS}
    calls = [call for one in comparisons for call in (one.this, one.that)]
    with ThreadPoolExecutor() as pool:  # compiling takes longer than all that is measured
        list(pool.map(lambda call: call(), [*calls, *chosen.values()]))
    lines = []
    for one in comparisons:
        times = side_by_side({"this": one.this, "that": one.that}, rounds=2 if on_cpu else 10)
        lines.append(one.line(times["this"], times["that"]))
    matches = {name: call() for name, call in chosen.items()}
    return [*lines, *_equal_matches(matches, f"{runs[-1].size}, after {_steps(on_cpu)} steps")]


def _steps(on_cpu: bool) -> int:
    return 10 if on_cpu else 200


def _begin(kind: str, *, on_cpu: bool) -> Begun:
    row = find_row(f"asi/{'room-runner' if on_cpu else 'funnel-board'}/{kind}")
    config = dataclasses.replace(row.full.config, num_train=8, num_validation=2)
    if on_cpu:
        config = dataclasses.replace(config, kernels=4)
    learner = row.make_learner(config, row.full.steps)
    jit: Any = eqx.filter_jit
    step = partial(jit(lambda learner, state, key: learner.step(state, key)[0]), learner)
    state = learner.init(jr.key(0))
    for number in range(_steps(on_cpu)):
        state = step(state, jr.key(number))
    late = state._replace(step=jnp.int32(row.full.steps))
    size = (
        f"{config.task}, {config.architecture} model with {config.kernels} kernels, batches of "
        f"{config.batch_size}"
    )
    return Begun(learner, step, state, late, size)


def _overhead(run: Begun) -> Comparison:
    """A whole step beside forward and backward passes of as many predictions."""
    learner, step, state = run.learner, run.step, run.late
    made = step(state, jr.key(1))
    num_steps = int(made.padded_evaluations - state.padded_evaluations) // learner.batch_size
    place = int(state.step) % learner.steps_per_epoch
    num_frames = float(jnp.sum(made.advances[place]))
    alone = _model_alone(num_steps)
    first = as_floats(learner.phases[0].train.frames[: learner.batch_size, 0])

    def line(seconds: float, model: float) -> dict:
        rate = num_frames / seconds
        return {
            "name": f"step with adaptive skips, {run.size}; {rate:.0f} true frames a second",
            "seconds": seconds,
            "against": f"forward and backward passes of the same {num_steps} predictions alone",
            "against_seconds": model,
            "ratio": seconds / model,
            "target": "at most 1.15",
            "frames_per_second": rate,
        }

    return Comparison(
        lambda: jax.block_until_ready(step(state, jr.key(1))),
        lambda: jax.block_until_ready(alone(state.model, first)),
        line,
    )


def _throughput(run: Begun, many: int) -> Comparison:
    """The model's passes inside a step beside its passes on many images at once, per image."""
    learner, state = run.learner, run.late
    frames = learner.phases[0].train.frames
    few = as_floats(frames[: learner.batch_size, 0])
    images = as_floats(frames[jnp.arange(many) % len(frames), 0])
    steps = 16
    chain, wide = _model_alone(steps), _model_alone(1)

    def line(seconds: float, wide_seconds: float) -> dict:
        chained, most = seconds / (steps * len(few)), wide_seconds / many
        flops = 3 * _flops(state.model, few[0])
        return {
            "name": f"forward and backward pass of one prediction in a chain, {run.size}",
            "seconds": chained,
            "against": f"the same in {many} images at once: {flops / most / 1e12:.3g} TFLOP/s",
            "against_seconds": most,
            "ratio": chained / most,
            "target": "",
            "tflops": flops / chained / 1e12,
        }

    return Comparison(
        lambda: jax.block_until_ready(chain(state.model, few)),
        lambda: jax.block_until_ready(wide(state.model, images)),
        line,
    )


def _early_exit(run: Begun) -> Comparison:
    """A step that is over early, with the rest left out and with the rest computed."""
    learner, state = run.learner, run.late
    batch = learner.phases[0].train.batch(jnp.arange(learner.batch_size))
    coins = flip_coins(jr.key(0), batch.frames.shape[1] - 1, learner.batch_size)

    def gradient(model: VideoModel, chunk: int) -> Any:
        def loss(model: VideoModel) -> jax.Array:
            return skip_loss(
                model, batch, coins, skips=learner.skips, exploration=1.0, truth=1.0, chunk=chunk
            )[0]

        return eqx.filter_grad(loss)(model)

    jit: Any = eqx.filter_jit
    early = jit(lambda model: gradient(model, learner.chunk))
    with _no_early_exit():
        whole = jit(lambda model: gradient(model, 1)).lower(state.model)
    compiled: list[Any] = []

    def run_whole() -> Any:
        if not compiled:
            compiled.append(whole.compile())
        return jax.block_until_ready(compiled[0](state.model))

    def line(seconds: float, whole_seconds: float) -> dict:
        return {
            "name": f"gradient of an exploring step, left when all have ended, {run.size}",
            "seconds": seconds,
            "against": f"all {batch.frames.shape[1] - 1} predictions that there could be",
            "against_seconds": whole_seconds,
            "ratio": seconds / whole_seconds,
            "target": "",
        }

    return Comparison(lambda: jax.block_until_ready(early(state.model)), run_whole, line)


def _chosen_by(run: Begun, precision: str) -> list[jax.Array]:
    """Returns what a model matches whose convolutions are rounded, for every trajectory."""
    shape: Any = run.learner.model
    data = run.learner.phases[0].train
    rounded = _rounded(run.state.model, shape, precision)
    return [
        _chosen(rounded, data.frames[item], run.learner.skips)[: int(data.lengths[item]) - 1]
        for item in range(len(data.lengths))
    ]


def _equal_matches(chosen: dict[str, list[jax.Array]], size: str) -> list[dict]:
    """How often a model whose convolutions are rounded picks the same frame."""
    count = sum(len(one) for one in chosen["highest"])

    def share(precision: str) -> float:
        pairs = zip(chosen[precision], chosen["highest"], strict=True)
        return sum(int(jnp.sum(ours == theirs)) for ours, theirs in pairs) / count

    words = {"default": "the device's own precision (TF32 on some)", "bfloat16": "bfloat16"}
    return [
        {
            "name": f"equal matches with {words[name]}, {size}",
            "share": share(name),
            "against": f"{count} matches with float32 convolutions",
            "against_share": 1.0,
            "ratio": share(name),
            "target": "",
        }
        for name in words
    ]


@eqx.filter_jit
def _chosen(model: VideoModel, frames: jax.Array, skips: Skips) -> jax.Array:
    """Returns for every frame the offset of the next frames that its prediction fits best."""
    last = len(frames) - 1

    def one(at: jax.Array) -> jax.Array:
        window = as_floats(frames[jnp.minimum(at + 1 + jnp.arange(skips.longest), last)])
        return jnp.argmin(BINARY_CROSS_ENTROPY.against(model(as_floats(frames[at])), window))

    return jax.lax.map(one, jnp.arange(last))


def _rounded(model: VideoModel, shape: Any, precision: str) -> VideoModel:
    """Returns the same weights in a model that computes with another precision."""
    like = dataclasses.replace(shape, precision=precision)(jr.key(0))
    return eqx.tree_at(lambda one: one.layers, like, model.layers)


def _model_alone(steps: int) -> Any:
    """Returns a program that predicts in a chain and goes back through it."""

    def total(model: VideoModel, first: jax.Array) -> jax.Array:
        return jnp.sum(jnp.mean(free_run(model, first, steps), axis=(1, 2, 3, 4)))

    return eqx.filter_jit(eqx.filter_grad(total))


def _flops(model: VideoModel, image: jax.Array) -> float:
    """Returns the multiplications and additions of one forward pass.

    Of the program as it is written: kernels that a GPU has for convolutions count as nothing in the
    compiled one.
    """
    costs = jax.jit(lambda image: model(image)).lower(image).cost_analysis()
    return float((costs or {}).get("flops", 0.0))


@contextmanager
def _no_early_exit() -> Iterator[None]:
    """Lets a step that nobody needs be computed all the same."""
    anyone = rolling_module.anyone
    rolling_module.anyone = lambda wanted: jnp.bool_(True)  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield
    finally:
        rolling_module.anyone = anyone
