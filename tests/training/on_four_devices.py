"""Checks that need several devices: run in a process of its own, which is given four."""

import signal
import sys
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
from tiny_learners import NoisyWalk, noisy_walk

from recombine.training import Checkpoints, Interrupted, SilentProgress, fit, fit_many
from recombine.training._seeds import Compiler, Together


def train(seeds, *, vectorize=True, **settings):
    return fit(
        noisy_walk(),
        **{"steps": 6, "eval_every": 2, "progress": False, **settings},
        seeds=seeds,
        vectorize=vectorize,
    )


def state_after_a_chunk(num_seeds):
    runner = Together(noisy_walk(), tuple(range(num_seeds)), Compiler(lambda now: None))
    return runner.advance(runner.init(), 0, 2, lambda: None).state.position


def seeds_are_spread():
    for num_seeds, num_devices, filled in ((6, 4, 8), (3, 3, 3)):
        spread = state_after_a_chunk(num_seeds)
        assert len(spread.sharding.device_set) == num_devices, num_seeds
        assert spread.shape[0] == filled
        assert [shard.data.shape[0] for shard in spread.addressable_shards] == (
            [filled // num_devices] * num_devices
        )


def numbers_do_not_depend_on_devices():
    turns = train(range(6), vectorize=False)
    for seeds in (range(6), range(3)):
        spread = train(seeds)
        assert spread.state.position.shape == (len(seeds), 3, 3)
        for name, curve in spread.history.curves().items():
            expected = turns.history.curves()[name][:, : len(seeds)]
            np.testing.assert_allclose(curve, expected, rtol=1e-4, atol=1e-5)


class Stop(SilentProgress):
    def report(self, step, metrics):
        signal.raise_signal(signal.SIGINT)


def what_was_spread_resumes(folder):
    straight = train(range(6))
    checkpoints = Checkpoints(folder, every_seconds=0)
    for _ in range(2):
        try:
            train(range(6), checkpoints=checkpoints, progress=Stop())
        except Interrupted:
            continue
        raise AssertionError("it was not stopped")
    resumed = train(range(6), checkpoints=checkpoints)
    assert eqx.tree_equal(resumed.state, straight.state)


def trials_are_spread():
    drifts = [noisy_walk().drift * factor for factor in (0.5, 1.0, 1.5)]
    learners = [NoisyWalk(drift) for drift in drifts]
    settings = {"steps": 4, "eval_every": 2, "seeds": (0, 1), "progress": False}
    for one, learner in zip(fit_many(learners, vectorize=True, **settings), learners, strict=True):
        alone = fit(learner, vectorize=False, **settings)
        np.testing.assert_allclose(one.fit.final["mean"], alone.final["mean"], atol=1e-5)


if __name__ == "__main__":
    assert len(jax.local_devices()) == 4
    seeds_are_spread()
    numbers_do_not_depend_on_devices()
    what_was_spread_resumes(Path(sys.argv[1]))
    trials_are_spread()
    print("as it should be")
