"""Runs are the same when everything but times and places is."""

import dataclasses

import equinox as eqx
import numpy as np

from recombine.training import SilentProgress, fit


def without_times(record):
    return dataclasses.replace(
        record, seconds={}, started="", finished="", provenance=record.provenance.device
    )


def assert_same_runs(request, runs, other_runs):
    """Compares records, curves, what is worth drawing, and the states behind them."""
    one, other = request.folder(runs), request.folder(other_runs)
    records = [one.read(), other.read()]
    assert all(record and record.is_done for record in records)
    assert without_times(records[0]) == without_times(records[1])
    for read in ("read_curves", "read_inspect"):
        mine, theirs = getattr(one, read)(), getattr(other, read)()
        assert list(mine) == list(theirs)
        for name in mine:
            np.testing.assert_array_equal(mine[name], theirs[name])
            assert mine[name].dtype == theirs[name].dtype
    assert eqx.tree_equal(saved_state(request, one), saved_state(request, other))
    kept = [sorted(path.name for path in folder.path.glob("[!.]*")) for folder in (one, other)]
    assert kept[0] == kept[1]


def saved_state(request, folder):
    """Resumes at the last step, which trains nothing."""

    class NoTraining(SilentProgress):
        def advance(self, steps):
            raise AssertionError("the run was not finished")

    variant = request.variant
    return fit(
        request.row.make_learner(variant.config, variant.steps),
        steps=variant.steps,
        eval_every=variant.eval_every,
        seeds=request.seeds,
        checkpoints=folder.checkpoints,
        progress=NoTraining(),
    ).state
