import dataclasses
import signal

import pytest

from recombine.engines import RunFailedError, RunRequest, run_row
from recombine.experiments import find_row
from recombine.results import RunHeldError, read_records
from recombine.training import Interrupted, SilentProgress

ROW = find_row("ilc/synthetic/and-mask")

pytestmark = pytest.mark.usefixtures("quick_compilation")


def tiny(*changes, num_seeds=1):
    return RunRequest.of(ROW, "tiny", num_seeds=num_seeds, changes=changes)


def test_a_finished_run_is_not_run_again(tmp_path):
    first = run_row(tiny(), tmp_path, progress=False)
    assert run_row(tiny(), tmp_path, progress=False) == first
    assert first.provenance.versions["jax"]
    assert set(first.seconds) == {"compile", "run"}
    folder = tiny().folder(tmp_path)
    assert [path.name for path in folder.checkpoints.iterdir() if path.is_dir()] == ["8"]


def test_changed_settings_are_another_run(tmp_path):
    run_row(tiny(), tmp_path, progress=False)
    changed = run_row(tiny("l2=0.5"), tmp_path, progress=False)
    assert changed.changed == {"l2": 0.5}
    assert len(read_records(tmp_path)) == 2


def test_a_loss_that_is_not_finite_fails_the_run_and_keeps_its_curves(tmp_path):
    request = tiny("learning_rate=1e38", "steps=40", "eval_every=1")
    with pytest.raises(RunFailedError, match=r"seed 0 was not finite at step \d+"):
        run_row(request, tmp_path, progress=False, checkpoint_seconds=0)
    record = request.folder(tmp_path).read()
    assert record is not None
    assert record.status == "failed"
    assert "checkpoint" in (record.error or "")
    assert len(request.folder(tmp_path).read_curves()["steps"]) >= 1


class PressCtrlC(SilentProgress):
    def report(self, step, metrics):
        signal.raise_signal(signal.SIGINT)


def test_an_interrupted_run_is_shown_as_such_and_resumes(tmp_path):
    with pytest.raises(Interrupted):
        run_row(tiny(), tmp_path, progress=PressCtrlC())
    record = tiny().folder(tmp_path).read()
    assert record is not None
    assert record.status == "interrupted"
    done = run_row(tiny(), tmp_path, progress=False)
    assert done.is_done
    assert done.started == record.started
    assert done.final == run_row(tiny(), tmp_path / "other", progress=False).final


def test_a_learner_that_cannot_be_made_fails_with_its_reason(tmp_path):
    request = tiny("batch_size=999")
    with pytest.raises(RunFailedError, match="`batch_size` is per environment"):
        run_row(request, tmp_path, progress=False)
    record = request.folder(tmp_path).read()
    assert record is not None
    assert record.status == "failed"


def test_a_run_that_somebody_holds_is_not_run_twice(tmp_path):
    with tiny().folder(tmp_path).claim(), pytest.raises(RunHeldError):
        run_row(tiny(), tmp_path, progress=False, wait=False)


def test_a_damaged_record_is_written_again(tmp_path):
    folder = tiny().folder(tmp_path)
    first = run_row(tiny(), tmp_path, progress=False)
    (folder.path / "record.json").write_text("{")
    again = run_row(tiny(), tmp_path, progress=False)
    assert again.final == first.final
    assert dataclasses.replace(again, seconds={}, started="", finished="") == dataclasses.replace(
        first, seconds={}, started="", finished=""
    )
