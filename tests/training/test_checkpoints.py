import errno
import shutil

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_learners import Halve, NoisyWalk, noisy_walk

from recombine.training import CheckpointError, Checkpoints, fit

SETTINGS = {"steps": 9, "eval_every": 3, "seeds": [0, 1], "progress": False}


def saved_run(folder):
    """Leaves the checkpoints of steps 6 and 9 behind."""
    return fit(noisy_walk(), checkpoints=Checkpoints(folder, every_seconds=0), **SETTINGS)


def damage(checkpoint):
    """Cuts every file of a checkpoint in half."""
    for path in checkpoint.rglob("*"):
        if path.is_file() and path.stat().st_size:
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_keeps_the_newest_two(tmp_path):
    saved_run(tmp_path / "c")
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["6", "9"]


def test_keys_functions_and_empty_arrays_come_back(tmp_path):
    whole = saved_run(tmp_path / "c")
    shutil.rmtree(tmp_path / "c" / "9")
    resumed = saved_run(tmp_path / "c")
    assert eqx.tree_equal(whole.state, resumed.state)
    assert resumed.state.squash is jnp.tanh
    assert resumed.state.empty.shape == (2, 0)


def test_a_damaged_checkpoint_costs_a_warning_and_the_time_since_the_one_before(tmp_path):
    whole = saved_run(tmp_path / "c")
    damage(tmp_path / "c" / "9")
    with pytest.warns(UserWarning, match="step 9 cannot be read.*moved to"):
        resumed = saved_run(tmp_path / "c")
    assert eqx.tree_equal(whole.state, resumed.state)
    assert len(list((tmp_path / "c-unreadable").iterdir())) == 1


def test_no_readable_checkpoint_is_an_error_and_nothing_is_deleted(tmp_path):
    saved_run(tmp_path / "c")
    damage(tmp_path / "c" / "6")
    damage(tmp_path / "c" / "9")
    with pytest.raises(CheckpointError, match=r"none of the 2 checkpoints.*delete it to start"):
        saved_run(tmp_path / "c")
    assert sorted(path.name for path in (tmp_path / "c").iterdir()) == ["6", "9"]


def test_checkpoints_of_other_seeds_are_refused(tmp_path):
    saved_run(tmp_path / "c")
    with pytest.raises(CheckpointError, match=r"belongs to the seeds \[0, 1\], not to \[3\]"):
        fit(noisy_walk(), checkpoints=tmp_path / "c", **{**SETTINGS, "seeds": [3]})


def test_checkpoints_of_another_learner_are_refused(tmp_path):
    saved_run(tmp_path / "c")
    with pytest.raises(CheckpointError, match="state of another shape"):
        fit(Halve(), checkpoints=tmp_path / "c", **SETTINGS)


def test_a_full_disk_says_what_is_left(tmp_path, monkeypatch):
    import orbax.checkpoint as ocp

    checkpoints = Checkpoints(tmp_path / "c", every_seconds=0)
    really_save = ocp.CheckpointManager.save

    def save(self, step, **arguments):
        if step == 6:
            raise OSError(errno.ENOSPC, "No space left on device")
        return really_save(self, step, **arguments)

    monkeypatch.setattr(ocp.CheckpointManager, "save", save)
    with pytest.raises(CheckpointError, match=r"step 6 could not be written.*No space.*c/3 is"):
        fit(noisy_walk(), checkpoints=checkpoints, **SETTINGS)
    monkeypatch.undo()
    assert eqx.tree_equal(saved_run(tmp_path / "c").state, fit(noisy_walk(), **SETTINGS).state)


def test_turns_can_be_resumed_together(tmp_path):
    whole = saved_run(tmp_path / "c")
    shutil.rmtree(tmp_path / "c" / "9")
    resumed = fit(noisy_walk(), checkpoints=tmp_path / "c", vectorize=True, **SETTINGS)
    np.testing.assert_allclose(resumed.final["mean"], whole.final["mean"], atol=1e-5)


def test_time_decides_when_one_is_due(tmp_path):
    fit(noisy_walk(), checkpoints=Checkpoints(tmp_path / "c", every_seconds=1e6), **SETTINGS)
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["9"]


def test_keep_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match="`keep`"):
        Checkpoints(tmp_path, keep=0)


def test_a_learner_with_data_of_its_own_resumes_with_the_same_data(tmp_path):
    data = NoisyWalk(jnp.eye(3) * 0.3)
    whole = fit(data, **SETTINGS)
    fit(data, checkpoints=Checkpoints(tmp_path / "c", every_seconds=0), **SETTINGS)
    shutil.rmtree(tmp_path / "c" / "9")
    resumed = fit(data, checkpoints=tmp_path / "c", **SETTINGS)
    assert eqx.tree_equal(whole.state, resumed.state)
