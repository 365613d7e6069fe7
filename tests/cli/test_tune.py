"""`recombine tune`, and what the other commands make of a search."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from recombine.cli import main
from recombine.experiments import find_row, load_systems
from recombine.results import read_records
from recombine.tuning import StudyRequest, TrialOutcome, run_study

pytest.importorskip("optuna", reason="searches need the extra [tune]")

PLUGIN = str(Path(__file__).parents[1] / "tuning" / "toy_rows.py")
PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """This module compiles much and computes little."""


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([*arguments])
    return int(stopped.value.code or 0)


def tune(runs: Path, *options: str, row: str = "toy/walk") -> int:
    return run("tune", row, "--plugin", PLUGIN, "--runs", str(runs), "--tiny", *options)


def answer(batch, **_):
    """Trials without training."""
    rates = [float(dict(t.split("=") for t in one)["rate"]) for one in batch.changes]
    return [
        TrialOutcome("complete", rate, {"error": (rate, rate), "test_error": (rate, rate)})
        for rate in rates
    ]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs with one search of the AND-mask, made up."""
    runs = tmp_path_factory.mktemp("searched")

    def made_up(batch, **_):
        rates = [float(dict(t.split("=") for t in one)["learning_rate"]) for one in batch.changes]
        return [
            TrialOutcome("complete", 1 - rate, {"test_accuracy": (1 - rate,)}, seconds=2.0)
            for rate in rates
        ]

    request = StudyRequest.of(find_row("ilc/synthetic/and-mask"), "quick", trials=8, batch=4)
    run_study(request, runs, run=made_up)
    return runs


def documented(shape: str) -> set[str]:
    section = re.split("```json|<!-- shape:|###", PAGE.split(f"<!-- shape: {shape} -->")[1])[0]
    return set(re.findall(r"^\| `([\w.]+)` \|", section, re.MULTILINE))


def test_a_search_prints_the_best_and_the_command(tmp_path, capsys):
    assert tune(tmp_path, "--trials", "3", "--batch", "2", "--sampler", "random") == 0
    out, err = capsys.readouterr()
    assert "toy/walk: 3 complete" in out
    assert re.search(r"best: trial \d, error [\d.]+, chosen by error", out)
    assert "trial 3/3: error" in err
    assert tune(tmp_path, "--trials", "4", "--sampler", "random", "--json") == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert set(found) == documented("tune")
    assert [trial["number"] for trial in found["trials"]] == [0, 1, 2, 3]
    assert found["best"]["value"] == min(trial["value"] for trial in found["trials"])
    assert set(found["trials"][0]) == {"number", "state", "settings", "value", "seconds", "error"}
    assert "3 of them done before" in err


@pytest.mark.parametrize(
    ("row", "options", "message"),
    [
        ("toy/plain", ["--trials", "2"], "declares no search space"),
        ("toy/walk", ["--trials", "2", "--metric", "nothing"], "knows no metric 'nothing'"),
        ("toy/walk", ["--trials", "2", "--metric", "gone"], "does not measure 'gone'"),
        ("toy/walk", ["--trials", "0"], "Invalid value for '--trials'"),
        ("toy/walk", ["--trials", "2", "--sampler", "grid"], "has no grid"),
        ("toy/walk", ["--trials", "2", "--set", "nothing=1"], "there is no setting 'nothing'"),
        ("toy/walk", ["--trials", "2", "--quick"], "choose one of"),
        ("toy/nothing", ["--trials", "2"], "no row is called"),
    ],
)
def test_bad_usage_exits_with_2(tmp_path, capsys, row, options, message):
    assert tune(tmp_path, *options, row=row) == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_a_damaged_storage_exits_with_1(tmp_path, capsys):
    request = StudyRequest.of(
        find_row("toy/walk", load_systems([PLUGIN])), "tiny", trials=1, plugins=(PLUGIN,)
    )
    folder = run_study(request, tmp_path, run=answer).folder
    (folder.path / "journal.log").write_text("nonsense\n" * 3)
    assert tune(tmp_path, "--trials", "2") == 1
    assert "line 1 of the study" in capsys.readouterr().err


def test_a_missing_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert tune(tmp_path, "--trials", "2") == 2
    assert "pip install 'recombine[tune]'" in capsys.readouterr().err


def test_a_runs_folder_that_cannot_be_written_exits_with_2(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert tune(tmp_path / "file", "--trials", "2") == 2
    assert "Choose another folder with `--runs`" in capsys.readouterr().err


def test_show_lists_the_searches_of_a_row(searched, capsys):
    row = "ilc/synthetic/and-mask"
    assert run("show", row, "--runs", str(searched)) == 0
    shown = capsys.readouterr().out
    assert "tune, quick: best" in shown
    assert "chosen by TEST data (test accuracy), as the paper's protocol does" in shown
    assert run("show", row, "--runs", str(searched), "--json") == 0
    [search] = json.loads(capsys.readouterr().out)["searches"]
    assert set(search) == documented("search")
    assert search["command"].startswith(f"recombine run {row} --quick --set")


def test_a_search_is_no_run_of_its_row(searched, capsys):
    assert run("table", "ilc/synthetic/and-mask", "--runs", str(searched), "--json") == 0
    [line] = json.loads(capsys.readouterr().out)
    assert line["verdict"] == "not run"


def test_the_report_draws_the_search_and_says_what_it_was_chosen_by(searched, tmp_path):
    assert run("report", "--runs", str(searched), "-o", str(tmp_path / "page.html")) == 0
    page = (tmp_path / "page.html").read_text()
    section = page.split('<section class="search"')[1].split("</section>")[0]
    assert section.count("<svg") == 2
    assert "Chosen by test data, as the paper’s protocol does." in section
    assert "8 complete trials (tpe, 4 at once, 1 seed each)" in section
    assert "recombine run ilc/synthetic/and-mask --quick" in section
    assert "Records of unknown rows" not in page


def test_the_best_of_a_search_can_be_compared(searched, capsys):
    [(folder, record)] = read_records(searched)
    other = searched.parent / "other"
    study: Any = run_study(
        StudyRequest.of(
            find_row("ilc/synthetic/and-mask"), "quick", trials=3, sampler="random", num_seeds=1
        ),
        other,
        run=lambda batch, **_: [
            TrialOutcome("complete", 0.5, {"test_accuracy": (0.5,)}) for _ in batch.changes
        ],
    )
    assert run("compare", str(folder.path), str(study.folder.path), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["mean"] for one in found["runs"]] == [record.values("test_accuracy")[0], 0.5]
    assert run("compare", str(folder.path), str(study.folder.path)) == 0
    assert "best of a search, quick" in capsys.readouterr().out
