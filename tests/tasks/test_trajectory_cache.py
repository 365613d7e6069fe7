import ast
import importlib
import json
import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from recombine.tasks.funnel_board import _falls
from recombine.tasks.room_runner import _runs
from recombine.tasks.trajectories import (
    SPLITS,
    code_version,
    enlarge,
    first_kept,
    item_generator,
    keep_or_make,
    save_animation,
    save_picture,
)


class Maker:
    """Makes arrays, and counts how often."""

    def __init__(self, value=1.0):
        self.calls, self.value = 0, value

    def __call__(self):
        self.calls += 1
        return {"numbers": np.full(3, self.value), "names": np.array(["a", "b"])}


def load(folder, maker, parameters=None, version="1"):
    return keep_or_make("demo", parameters or {"seed": 0}, version, maker, folder=folder)


def test_what_was_made_is_read_the_next_time(tmp_path):
    maker = Maker()
    first, second = load(tmp_path, maker), load(tmp_path, maker)
    assert maker.calls == 1
    assert first["numbers"].tolist() == second["numbers"].tolist()
    assert second["names"].tolist() == ["a", "b"]


def test_other_parameters_or_other_code_are_made_anew(tmp_path):
    maker = Maker()
    load(tmp_path, maker)
    load(tmp_path, maker, {"seed": 1})
    load(tmp_path, maker, version="2")
    assert maker.calls == 3
    load(tmp_path, maker)
    assert maker.calls == 3


def test_the_manifest_says_what_lies_beside_it(tmp_path):
    load(tmp_path, Maker(), {"seed": 5, "num_items": 2})
    (path,) = (tmp_path / "demo").glob("*.json")
    manifest = json.loads(path.read_text())
    assert manifest["request"]["parameters"] == {"seed": 5, "num_items": 2}
    assert manifest["request"]["code_version"] == "1"
    assert manifest["arrays"]["numbers"] == "float64[3]"
    assert manifest["words"] == {"names": ["a", "b"]}
    assert len(manifest["sha256"]) == 64


def test_damaged_or_exchanged_files_are_made_anew(tmp_path):
    maker = Maker()
    load(tmp_path, maker)
    (arrays,) = (tmp_path / "demo").glob("*.npz")
    arrays.write_bytes(arrays.read_bytes()[:-20])
    load(tmp_path, maker)
    assert maker.calls == 2
    np.savez(arrays, numbers=np.zeros(3), names=np.array(["a", "b"]))  # another's numbers
    assert load(tmp_path, maker)["numbers"].tolist() == [1, 1, 1]
    assert maker.calls == 3
    arrays.with_suffix(".json").write_text("{")
    load(tmp_path, maker)
    assert maker.calls == 4


def test_nothing_half_written_is_left_behind(tmp_path):
    load(tmp_path, Maker())
    assert {path.suffix for path in (tmp_path / "demo").iterdir()} == {".npz", ".json"}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.warns(UserWarning, match="RECOMBINE_CACHE"):
        assert load(tmp_path, Maker())["numbers"].tolist() == [1, 1, 1]


def test_a_file_in_the_way_is_a_warning(tmp_path):
    (tmp_path / "demo").write_text("not a folder")
    with pytest.warns(UserWarning, match="RECOMBINE_CACHE"):
        assert load(tmp_path, Maker())["numbers"].tolist() == [1, 1, 1]


def test_the_version_of_code_changes_with_what_it_does(tmp_path):
    file = tmp_path / "code.py"
    versions = []
    for text in ("x = 1\n", "x = 1  # a comment\n", "x = 2\n"):
        file.write_text(text)
        versions.append(code_version([file]))
    assert versions[0] == versions[1] != versions[2]


def test_streams_of_items_differ():
    drawn = {
        item_generator(seed, split, index, attempt).random()
        for seed in (0, 1)
        for split in SPLITS
        for index in (0, 1)
        for attempt in (0, 1)
    }
    assert len(drawn) == 2 * 3 * 2 * 2


def test_items_are_tried_until_each_has_one_success():
    def try_items(items, attempt):
        return items <= attempt, [(int(item), attempt) for item in items]

    kept, attempts = first_kept(4, try_items, lambda outcomes, place: outcomes[place])
    assert kept == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert attempts.tolist() == [0, 1, 2, 3]
    with pytest.raises(RuntimeError, match="failed 200 times"):
        first_kept(1, lambda items, attempt: (items < 0, None), lambda outcomes, place: None)


def test_pictures_and_animations_can_be_opened(tmp_path):
    frames = np.zeros((5, 6, 4, 3), np.uint8)
    frames[:, :, :, 0] = 50 * np.arange(5)[:, None, None]
    with Image.open(save_picture(frames[:2], tmp_path / "two.png", scale=3)) as picture:
        assert picture.size == (4 * 3 * 2 + 4, 6 * 3)
    with Image.open(save_animation(frames, tmp_path / "five.gif", scale=2)) as animation:
        assert (animation.size, animation.n_frames) == ((8, 12), 5)
        assert animation.info["loop"] == 0


def test_bad_pictures_are_refused(tmp_path):
    with pytest.raises(ValueError, match="`frames` must be bytes"):
        save_picture(np.zeros((2, 4, 4, 3)), tmp_path / "x.png")
    with pytest.raises(ValueError, match="`frames_per_second` must be positive"):
        save_animation(np.zeros((2, 4, 4, 3), np.uint8), tmp_path / "x.gif", frames_per_second=0)
    with pytest.raises(ValueError, match="`scale` must be at least 1"):
        enlarge(np.zeros((4, 4, 3), np.uint8), 0)


@pytest.mark.parametrize("task", [_falls, _runs], ids=["funnel board", "room runner"])
def test_the_version_of_a_generator_covers_all_of_our_code_that_it_runs(task):
    known = {Path(file) for file in task.SOURCES}
    for file in known:
        for imported in _ours_that_is_imported(file):
            assert imported in known, f"{file.name} uses {imported}"


def _ours_that_is_imported(file):
    """Yields the files in which the functions and constants stand that a file imports from us."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module.startswith("recombine"):
            room = importlib.import_module(node.module)
            if room.__file__.endswith("__init__.py"):  # which re-exports
                found = (getattr(room, name.name) for name in node.names)
                rooms = {one.__module__ for one in found if callable(one)} - {"typing"}
            else:
                rooms = {node.module}
            yield from (Path(importlib.import_module(one).__file__) for one in rooms)
