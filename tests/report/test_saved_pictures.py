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
