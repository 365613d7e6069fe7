"""Pictures as files of their own, from the library and from `recombine show`."""

from pathlib import Path

import numpy as np
import pytest
from runs_by_hand import write_run_to

from recombine.cli import main
from recombine.experiments import find_row
from recombine.report import make_lines, save_pictures
from recombine.results import read_records

AND_MASK = "ilc/synthetic/and-mask"
LOGITS = np.linspace(-3, 3, 25).reshape(5, 5, 1)


def lines_of(runs: Path):
    return make_lines([find_row(AND_MASK)], read_records(runs))


def test_a_run_s_pictures_become_png_files(tmp_path):
    write_run_to(tmp_path / "runs", AND_MASK, inspect={"probe_logits": LOGITS})
    folder = tmp_path / "deep" / "pictures"
    paths = save_pictures(lines_of(tmp_path / "runs"), folder)
    assert [path.parent for path in paths] == [folder]
    assert paths[0].name.startswith("ilc-synthetic-and-mask-")
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert list(folder.iterdir()) == paths, "no parts are left behind"


def test_without_arrays_no_folder_is_made(tmp_path):
    write_run_to(tmp_path / "runs", AND_MASK)
    assert save_pictures(lines_of(tmp_path / "runs"), tmp_path / "pictures") == []
    assert not (tmp_path / "pictures").exists()


def test_show_writes_pictures_and_says_where(tmp_path, capsys):
    runs, folder = tmp_path / "runs", tmp_path / "pictures"
    write_run_to(runs, AND_MASK, inspect={"probe_logits": LOGITS})
    with pytest.raises(SystemExit) as stopped:
        main(["show", AND_MASK, "--runs", str(runs), "--pictures", str(folder)])
    assert stopped.value.code == 0
    (path,) = folder.iterdir()
    assert f"picture: {path.resolve()}" in capsys.readouterr().err


def test_show_says_when_there_is_nothing_to_draw(tmp_path, capsys):
    arguments = ["--runs", str(tmp_path / "runs"), "--pictures", str(tmp_path / "pictures")]
    with pytest.raises(SystemExit) as stopped:
        main(["show", AND_MASK, *arguments])
    assert stopped.value.code == 0
    assert "no picture" in capsys.readouterr().err


def show(*arguments: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["show", *arguments])
    assert stopped.value.code == 0


def test_a_task_can_be_shown_before_anything_was_run(tmp_path, capsys):
    folder = tmp_path / "pictures"
    runs = ["--runs", str(tmp_path / "runs")]
    show("asi/room-runner/fixed-1", *runs, "--pictures", str(folder))
    names = {path.name: path for path in folder.iterdir()}
    stem = "asi-room-runner-fixed-1-a-trajectory"
    assert set(names) == {f"{stem}.png", f"{stem}.gif"}
    assert names[f"{stem}.png"].read_bytes().startswith(b"\x89PNG")
    assert names[f"{stem}.gif"].read_bytes().startswith(b"GIF89a")
    assert str(names[f"{stem}.gif"].resolve()) in capsys.readouterr().err


def test_truth_and_prediction_move_side_by_side(tmp_path):
    from PIL import Image, ImageSequence

    frames = np.arange(5, dtype=np.uint8)[None, :, None, None, None] * np.ones(
        (1, 5, 6, 4, 3), np.uint8
    )
    inspect = {
        "frames": frames * 50,
        "lengths": np.array([4]),
        "predictions": np.full((1, 4, 6, 4, 3), 255, np.uint8),
        "matched": np.array([[2, 3, -1, -1]]),
        "costs": np.where(np.arange(3) == 1, 0.0, 1.0) * np.ones((1, 4, 3)),
    }
    write_run_to(tmp_path / "runs", "asi/room-runner/asi", inspect=inspect)
    row = find_row("asi/room-runner/asi")
    paths = save_pictures(make_lines([row], read_records(tmp_path / "runs")), tmp_path / "here")
    assert sorted(path.suffix for path in paths) == [".gif", ".gif", ".png", ".png"]  # two of each
    (both,) = (path for path in paths if "truth-and-prediction" in path.name)
    with Image.open(both) as moving:
        seen = []
        for frame in ImageSequence.Iterator(moving):
            image = np.asarray(frame.convert("RGB"))
            seen.append((int(image[4, 4, 0]), int(image[4, -4, 0])))
    assert seen == [(0, 0), (50, 0), (100, 255), (150, 255)]  # the first frame, then predictions


def test_wide_pictures_get_a_line_of_their_own(tmp_path):
    from recombine.report._gallery import draw_pictures

    frames = np.zeros((1, 40, 8, 8, 3), np.uint8)
    inspect = {
        "frames": frames,
        "lengths": np.array([40]),
        "predictions": frames[:, 1:],
        "matched": np.arange(1, 40)[None],
        "costs": np.zeros((1, 39, 1)),
    }
    write_run_to(tmp_path / "runs", "asi/room-runner/asi", inspect=inspect)
    write_run_to(tmp_path / "runs", AND_MASK, inspect={"probe_logits": LOGITS})
    rows = [find_row("asi/room-runner/asi"), find_row(AND_MASK)]
    drawn = draw_pictures(make_lines(rows, read_records(tmp_path / "runs")), name="here")
    wide = {comparison.title: comparison.pictures[0].is_wide for comparison in drawn}
    assert wide["what was matched with what"]
    assert list(wide.values())[-1] is False  # that of the other row
