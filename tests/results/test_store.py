import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest

from made_up import folder_of, make_record
from recombine.results import (
    FORMAT,
    RecordError,
    RecordWarning,
    RunFolder,
    RunHeldError,
    RunsFolderError,
    evidence_folder,
    read_records,
    run_hash,
)


def test_a_record_comes_back_as_it_was(tmp_path):
    record = make_record(final={"a": (1 / 3, 1e-300, 0.1 + 0.2)})
    assert folder_of(tmp_path, record).read() == record


def test_what_is_not_a_number_is_null_in_the_file(tmp_path):
    folder = folder_of(tmp_path, make_record(final={"a": (math.nan, math.inf, 1.0)}))
    written = json.loads((folder.path / "record.json").read_text())
    assert written["final"]["a"] == [None, None, 1.0]
    read = folder.read()
    assert read is not None
    assert np.isnan(read.values("a")[:2]).all()


def test_the_hash_names_settings_and_nothing_else():
    same = make_record(status="running", final={}, seconds={}, started="later")
    assert make_record().hash == same.hash
    assert make_record(seeds=(0, 1)).hash != make_record().hash
    assert make_record(config={"l2": 2e-4, "decay_at": [0.5]}).hash != make_record().hash
    assert run_hash("r", {"a": 1, "b": 2}, 1, 1, [0]) == run_hash("r", {"b": 2, "a": 1}, 1, 1, [0])


def test_curves_and_pictures_come_back(tmp_path):
    folder = folder_of(tmp_path, make_record())
    folder.write_curves([0, 5], {"step/loss": np.array([[1.0], [2.0]])})
    folder.write_inspect({"grid": np.eye(3)})
    curves = folder.read_curves()
    assert curves["steps"].tolist() == [0, 5]
    assert curves["step/loss"].tolist() == [[1.0], [2.0]]
    assert folder.read_inspect()["grid"].tolist() == np.eye(3).tolist()
    assert RunFolder(tmp_path / "nowhere").read_curves() == {}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "cut off or not JSON"),
        ('{"format": 1, "row": "x"', "cut off or not JSON"),
        ("[1, 2]", "not a record"),
        ('{"hello": 1}', "not a record"),
        (json.dumps({"format": FORMAT + 1}), "upgrade recombine"),
        (json.dumps({"format": FORMAT, "row": "x"}), "damaged"),
        (json.dumps(make_record().to_json() | {"steps": 99}), "edited"),
        (json.dumps(make_record().to_json() | {"final": 3}), "damaged"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_a_foreign_file_is_passed_over_by_name(tmp_path, content, reason):
    good = make_record()
    folder_of(tmp_path, good)
    strange = tmp_path / "other" / "record.json"
    strange.parent.mkdir()
    strange.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.warns(RecordWarning, match=reason) as warned:
        records = read_records(tmp_path)
    assert str(strange) in str(warned[0].message)
    assert [record for _, record in records] == [good]


def test_truncated_curves_are_passed_over_by_name(tmp_path):
    folder = folder_of(tmp_path, make_record())
    folder.write_curves([0], {"a": np.zeros((1, 3))})
    path = folder.path / "curves.npz"
    path.write_bytes(path.read_bytes()[:40])
    with pytest.warns(RecordWarning, match=r"curves\.npz was passed over"):
        assert folder.read_curves() == {}


def test_pickled_arrays_are_never_loaded(tmp_path):
    folder = folder_of(tmp_path, make_record())
    np.savez(folder.path / "inspect.npz", bad=np.array([{}], dtype=object), allow_pickle=True)
    with pytest.warns(RecordWarning, match="passed over"):
        assert folder.read_inspect() == {}


def test_no_runs_folder_means_no_records(tmp_path):
    assert read_records(tmp_path / "nowhere") == []


WRITE_MANY = """
import sys
import numpy as np
from made_up import make_record
from recombine.results import RunFolder
runs, worker = sys.argv[1], int(sys.argv[2])
for index in range(12):
    record = make_record(seeds=(worker, 100 + index))
    folder = RunFolder.of(runs, row=record.row, variant=record.variant, run_hash=record.hash)
    with folder.claim():
        folder.write(make_record(seeds=record.seeds, status="running", final={}))
        folder.write_curves([0], {"a": np.full((1, 2), worker)})
        folder.write(record)
"""


def start(program, *arguments):
    """Starts a Python process that can import what this one can."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_eight_processes_write_to_one_folder_and_lose_nothing(tmp_path):
    workers = [start(WRITE_MANY, tmp_path, worker) for worker in range(8)]
    for worker in workers:
        worker.communicate(timeout=120)
        assert worker.returncode == 0
    found = read_records(tmp_path)
    assert {record.seeds for _, record in found} == {
        (worker, 100 + index) for worker in range(8) for index in range(12)
    }
    assert all(record.is_done for _, record in found)
    assert all(folder.read_curves()["a"][0, 0] == record.seeds[0] for folder, record in found)
    assert not list(tmp_path.rglob("*.part"))


HOLD = """
import sys, time
from recombine.results import RunFolder
with RunFolder(sys.argv[1]).claim():
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the run in `tmp_path`."""
    with start(HOLD, tmp_path) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_told_who_holds_the_run(tmp_path, holder):
    folder = RunFolder(tmp_path)
    assert folder.is_held()
    with pytest.raises(RunHeldError, match=f"process {holder.pid} on"), folder.claim(wait=False):
        pass


def test_a_holder_that_died_is_noticed(tmp_path, holder):
    folder = RunFolder(tmp_path)
    holder.kill()
    holder.wait()
    assert not folder.is_held()
    with folder.claim(wait=False):
        assert folder.is_held()


def test_a_second_process_waits_until_the_first_is_gone(tmp_path, holder):
    told = []

    def end_the_holder(who):
        told.append(who)
        holder.kill()

    with RunFolder(tmp_path).claim(on_wait=end_the_holder):
        assert len(told) == 1
        assert f"process {holder.pid}" in told[0]


def test_an_unwritable_folder_is_refused_before_anything_is_run(tmp_path):
    (tmp_path / "file").write_text("in the way")
    folder = RunFolder(tmp_path / "file" / "run")
    with pytest.raises(RunsFolderError, match=r"cannot be written.*--runs"), folder.claim():
        pass


def test_a_folder_without_permission_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    with pytest.raises(RunsFolderError, match="no permission"), RunFolder(tmp_path / "r").claim():
        pass


def test_a_full_disk_keeps_the_record_before(tmp_path, monkeypatch):
    record = make_record(status="running", final={})
    folder = folder_of(tmp_path, record)

    def no_space(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        folder.write(make_record())
    assert folder.read() == record


def test_an_empty_record_file_next_to_nothing_is_an_error_when_asked_for(tmp_path):
    (tmp_path / "record.json").write_text("{")
    with pytest.raises(RecordError):
        RunFolder(tmp_path).read()


def test_the_evidence_is_part_of_the_project():
    assert evidence_folder().is_dir()
