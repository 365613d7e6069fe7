"""The results page says what the records say."""

from pathlib import Path

import pytest

from recombine.results import Provenance, Record, RunFolder, read_records
from scripts import load_script

DOCS = Path(__file__).parents[2] / "docs"


make_results = load_script("docs/make_results.py")


def write_record(runs: Path, *, accuracies: tuple[float, ...], commit: str | None) -> Record:
    record = Record(
        row="ilc/synthetic/and-mask",
        variant="full",
        changed={},
        config={"threshold": 0.8},
        steps=930,
        eval_every=10,
        seeds=tuple(range(len(accuracies))),
        status="done",
        started="2024-01-01T00:00:00Z",
        finished="2024-01-01T00:01:00Z",
        provenance=Provenance("a device", 2, {"recombine": "0.1.0", "jax": "0.10.0"}, commit),
        seconds={"compile": 1.25, "run": 30.0},
        final={"test_accuracy": accuracies},
    )
    folder = RunFolder.of(runs, row=record.row, variant="full", run_hash=record.hash)
    folder.path.mkdir(parents=True)
    folder.write(record)
    return record


def test_page_and_evidence_agree():
    evidence = make_results.EVIDENCE
    fresh = make_results.render(read_records(evidence), make_results.read_benchmarks(evidence))
    assert make_results.PAGE.read_text() == fresh, "run `make results`, and commit docs/results.md"


def test_rows_without_a_record_are_shown_as_not_run(tmp_path: Path):
    page = make_results.render(read_records(tmp_path))
    assert "`ilc/synthetic/and-mask` (not run): **not run**; no record." in page
    assert "Where they come from" not in page


def test_a_record_shows_value_verdict_reason_and_provenance(tmp_path: Path):
    record = write_record(tmp_path, accuracies=(1.0, 1.0, 0.25), commit="0123456789abcdef-modified")
    page = make_results.render(read_records(tmp_path))
    assert "| 75.00 ± 43.30 % | reproduced | full | 3 | a device | 31 s |" in page
    assert "(full): **reproduced**; median test_accuracy 1, must be at least 0.99." in page
    assert "| a device × 2 | 0 to 2 | 1.2 s | 30.0 s | 2024-01-01T00:01:00Z |" in page
    assert "`0123456789ab-modified`, recombine 0.1.0, jax 0.10.0" in page
    assert f"`full-{record.hash}`" in page


def test_a_missed_row_stays_on_the_page(tmp_path: Path):
    write_record(tmp_path, accuracies=(0.5, 0.5), commit=None)
    page = make_results.render(read_records(tmp_path))
    assert "(full): **missed**; median test_accuracy 0.5, must be at least 0.99." in page
    assert "`unknown`" in page


def test_check_tells_a_stale_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(make_results, "PAGE", tmp_path / "results.md")
    monkeypatch.setattr(make_results, "EVIDENCE", tmp_path / "evidence")
    assert make_results.main([]) == 0
    assert make_results.main(["--check"]) == 0
    write_record(tmp_path / "evidence", accuracies=(1.0,), commit=None)
    assert make_results.main(["--check"]) == 1
    assert "run `make results`" in capsys.readouterr().err


def test_benchmarks_are_shown_as_they_were_measured(tmp_path: Path):
    line = {
        "name": "this",
        "seconds": 2.0,
        "against": "that",
        "against_seconds": 0.5,
        "ratio": 4.0,
        "target": "",
    }
    machine = {"device": "a device", "versions": {"jax": "0.10"}, "commit": None}
    page = make_results.render([], [{"machine": machine, "results": [line]}])
    assert "| this | 2 s | that | 500 ms | 4 |  |" in page
