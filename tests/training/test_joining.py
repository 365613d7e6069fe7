"""States of seeds that were trained apart are joined to the state of all."""

import equinox as eqx
import numpy as np
import pytest
from tiny_learners import noisy_walk

from recombine.training import CheckpointError, SilentProgress, fit, join_checkpoints


def train(seeds, folder, progress=False):
    return fit(
        noisy_walk(), steps=5, eval_every=2, seeds=seeds, checkpoints=folder, progress=progress
    )


class NothingToDo(SilentProgress):
    def advance(self, steps):
        raise AssertionError("the checkpoint is not that of the last step")


def test_joined_checkpoints_are_those_of_all_seeds(tmp_path):
    whole = train((3, 0, 7), tmp_path / "whole")
    for number, seeds in enumerate([(3, 0), (7,)]):
        train(seeds, tmp_path / str(number))
    joined = join_checkpoints([tmp_path / "0", tmp_path / "1"], tmp_path / "joined", step=5)
    assert joined == tmp_path / "joined" / "5"
    resumed = train((3, 0, 7), tmp_path / "joined", NothingToDo())
    assert eqx.tree_equal(resumed.state, whole.state)  # with a key and an empty array in it
    assert resumed.history.steps == whole.history.steps
    for name, curve in whole.history.curves().items():
        np.testing.assert_array_equal(resumed.history.curves()[name], curve)
    assert {k: v.tolist() for k, v in resumed.final.items()} == {
        k: v.tolist() for k, v in whole.final.items()
    }


def test_a_part_that_is_not_there_is_named(tmp_path):
    train((0,), tmp_path / "0")
    with pytest.raises(CheckpointError, match="1/5 cannot be read"):
        join_checkpoints([tmp_path / "0", tmp_path / "1"], tmp_path / "joined", step=5)
    assert not (tmp_path / "joined").exists()
