"""Seeds that are trained apart give the record of a run that trains them all."""

import pytest
from same_runs import assert_same_runs

from made_up import folder_of, make_record
from recombine.engines import RunFailedError, RunRequest, run_row
from recombine.engines._parts import (
    join_parts,
    make_plan,
    part_folder,
    read_plan,
    run_part,
    write_failure,
    write_plan,
    write_unfinished,
)
from recombine.experiments import find_row
from recombine.results import read_records
from recombine.training import SilentProgress

pytestmark = pytest.mark.usefixtures("quick_compilation")

ROW = find_row("ilc/synthetic/and-mask")
SETTINGS = {"progress": False, "checkpoint_seconds": 0.0}


def tiny(*changes, num_seeds=3):
    return RunRequest.of(ROW, "tiny", num_seeds=num_seeds, changes=("eval_every=2", *changes))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run in one go."""
    runs = tmp_path_factory.mktemp("whole")
    run_row(tiny(), runs, **SETTINGS)
    return runs


def begin(runs, request, plan):
    folder = request.folder(runs)
    folder.path.mkdir(parents=True)
    write_plan(folder, plan)
    return folder


def test_joined_parts_are_the_run(tmp_path, whole):
    request, plan = tiny(), make_plan((0, 1, 2), 2)
    folder = begin(tmp_path, request, plan)
    for seeds in reversed(plan):
        run_part(request, folder, seeds, **SETTINGS)
        [(_, record)] = read_records(tmp_path)
        assert record.status == "running"
        assert record.seeds == (0, 1, 2), "a part is no record of its own"
    joined = join_parts(request, folder, plan)
    assert set(joined.seconds) == {"compile", "run"}
    assert read_plan(folder) is None
    assert_same_runs(request, tmp_path, whole)


class StopInTheMiddle(SilentProgress):
    def report(self, step, metrics):
        if step == 4:
            raise KeyboardInterrupt  # as good as a kill: nothing is written after it


def test_this_process_goes_on_where_tasks_have_stopped(tmp_path, whole):
    request, plan = tiny(), make_plan((0, 1, 2), 1)
    folder = begin(tmp_path, request, plan)
    run_part(request, folder, (1,), **SETTINGS)
    finished = part_folder(folder, (1,)).read()
    with pytest.raises(KeyboardInterrupt):
        run_part(request, folder, (0,), progress=StopInTheMiddle(), checkpoint_seconds=0.0)
    assert list(part_folder(folder, (0,)).checkpoints.iterdir())
    with pytest.raises(RunFailedError, match="2 of its 3 parts are not done"):
        join_parts(request, folder, plan)
    assert run_part(request, folder, (1,), **SETTINGS) == finished, "it was run again"
    run_row(request, tmp_path, **SETTINGS)
    assert_same_runs(request, tmp_path, whole)


def test_a_part_that_fails_is_the_end_of_the_run_and_its_reason(tmp_path):
    request, plan = tiny("batch_size=999", num_seeds=2), ((0,), (1,))
    folder = begin(tmp_path, request, plan)
    with pytest.raises(RunFailedError, match="`batch_size` is per environment"):
        run_row(request, tmp_path, **SETTINGS)
    record = folder.read()
    assert record is not None
    assert record.status == "failed"
    assert "`batch_size` is per environment" in (record.error or "")
    assert record.seeds == (0, 1)


def test_a_run_that_was_stopped_keeps_the_curves_that_all_seeds_have(tmp_path):
    request, plan = tiny(num_seeds=2), ((0,), (1,))
    folder = begin(tmp_path, request, plan)
    for seeds in plan:
        run_part(request, folder, seeds, **SETTINGS)
    write_unfinished(request, folder, plan)
    record = folder.read()
    assert record is not None
    assert record.status == "interrupted"
    assert "resumes" in (record.error or "")
    curves = folder.read_curves()
    assert all(curve.shape[1:] in ((), (2,)) for curve in curves.values())
    write_unfinished(request, folder, plan, error="its worker died 6 times")
    record = folder.read()
    assert record is not None
    assert (record.status, record.error) == ("failed", "its worker died 6 times")


def test_a_run_whose_worker_died_is_noted_as_failed_but_never_a_finished_one(tmp_path):
    running, done = make_record(status="running"), make_record()
    for record, expected in ((running, "failed"), (done, "done")):
        folder = folder_of(tmp_path, record)
        write_failure(folder, "its worker died 6 times")
        now = folder.read()
        assert now is not None
        assert now.status == expected
