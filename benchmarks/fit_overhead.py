"""`fit` against a bare, hand-written scan of the same step and evaluation."""

import statistics
import tempfile
import time

import equinox as eqx
import jax
import jax.random as jr
from _measure import seconds

from recombine.experiments import find_row
from recombine.training import Checkpoints, PlainProgress, fit

CHUNK_SECONDS = 1.0
CHUNKS = 8


def measure() -> list[dict]:
    row = find_row("ilc/synthetic/and-mask")
    learner = row.make_learner(row.full.config, row.full.steps)

    @eqx.filter_jit
    def bare_chunk(learner, state, key, start, length):
        def body(state, number):
            state, _ = learner.step(state, jr.fold_in(key, number))
            return state, None

        return jax.lax.scan(body, state, start + jax.numpy.arange(length))[0]

    init = eqx.filter_jit(lambda learner, key: learner.init(key))
    evaluate = eqx.filter_jit(lambda learner, state, key: learner.evaluate(state, key))

    def bare(length):
        state = init(learner, jr.key(0))
        jax.device_get(evaluate(learner, state, jr.key(2)))
        for chunk in range(CHUNKS):
            state = bare_chunk(learner, state, jr.key(1), chunk * length, length)
            jax.device_get(evaluate(learner, state, jr.key(2)))

    def ours(length):
        with tempfile.TemporaryDirectory() as folder:
            started = time.perf_counter()
            fitted = fit(
                learner,
                steps=CHUNKS * length,
                eval_every=length,
                checkpoints=Checkpoints(folder),
                progress=PlainProgress("bench", every_seconds=3600),
                vectorize=jax.default_backend() != "cpu",
            )
            return time.perf_counter() - started - fitted.seconds.compile

    length = 8
    while (taken := _second_time(bare, length)) < CHUNKS * CHUNK_SECONDS:
        growth = 1.05 * CHUNKS * CHUNK_SECONDS / taken
        length = int(length * min(growth, 20)) + 1  # short chunks say little about long ones
    ours(length)
    pairs = [(ours(length), seconds(lambda: bare(length))) for _ in range(3)]
    ours_seconds, bare_seconds = (statistics.median(times) for times in zip(*pairs, strict=True))
    return [
        {
            "name": f"fit, {CHUNKS} chunks of {length} steps, last state saved",
            "seconds": ours_seconds,
            "against": "bare scan of the same steps and evaluations",
            "against_seconds": bare_seconds,
            "ratio": ours_seconds / bare_seconds,
            "target": "at most 1.05 at chunks of one second",
        }
    ]


def _second_time(call, length: int) -> float:
    """Returns the time of a call that compiles nothing."""
    call(length)
    return seconds(lambda: call(length))
