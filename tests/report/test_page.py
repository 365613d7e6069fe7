"""The page as text: what the records say is what it shows."""

import dataclasses
import errno
import itertools
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from runs_by_hand import PROVENANCE

from made_up import folder_of, make_record
from recombine.experiments import SYSTEMS, Group, Metric, Paper, System, find_row, match_rows
from recombine.report import render_page, write_page
from recombine.results import RecordWarning, read_records

AND_MASK, PRINTED, PLAIN = (
    "ilc/synthetic/and-mask",
    "ilc/synthetic/and-mask-printed",
    "ilc/synthetic/baseline",
)


class Outline(HTMLParser):
    """Gathers the lines of the tables as texts by column, and what else a test may ask for."""

    def __init__(self, page: str):
        super().__init__()
        self.lines: list[dict[str, str]] = []
        self.headings: list[int] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self._column: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.tags.append(tag)
        if "id" in found:
            self.ids.append(found["id"])
        if re.fullmatch(r"h\d", tag):
            self.headings.append(int(tag[1]))
        if tag == "tbody":
            self.lines.append({"id": found["data-row"]})
        elif tag in ("td", "th") and self.lines:
            self._column = found.get("data-label", "story")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._column = None

    def handle_data(self, data: str) -> None:
        if self._column:
            line = self.lines[-1]
            line[self._column] = " ".join(f"{line.get(self._column, '')} {data}".split())


def page_of(tmp_path: Path) -> str:
    return render_page(read_records(tmp_path / "runs"))


def lines_of(tmp_path: Path) -> list[dict[str, str]]:
    """The lines of the rows that these tests write runs of."""
    ours = (AND_MASK, PRINTED, PLAIN)
    return [line for line in Outline(page_of(tmp_path)).lines if line["id"] in ours]


def test_a_page_without_records_shows_every_row_as_not_run():
    lines = Outline(render_page([])).lines
    assert [line["id"] for line in lines] == [row.id for row in match_rows("*")]
    assert {line["verdict"] for line in lines} == {"· not run"}
    assert {line["run"] for line in lines} == {"not run"}
    assert {line["ours"] for line in lines} == {"–"}


def test_the_numbers_are_those_of_the_records(write_run, tmp_path):
    write_run(AND_MASK, final={"test_accuracy": [0.98, 1.0, 0.999], "train_accuracy": [1.0] * 3})
    line = lines_of(tmp_path)[0]
    assert line["paper"] == "100.00 % n = 50"
    assert line["ours"] == "99.30 ± 1.13 %"  # the standard deviation divides by n - 1
    assert line["difference"] == "−0.70"
    assert line["verdict"].startswith("✓ reproduced")
    assert "median test_accuracy 0.999, must be at least 0.99" in line["verdict"]
    assert (line["run"], line["seeds"]) == ("full", "3")
    assert (line["device"], line["time"]) == ("NVIDIA H200", "1 min 15 s")


def test_a_missed_row_stays_in_the_table(write_run, tmp_path):
    write_run(AND_MASK, final={"test_accuracy": [0.5, 0.5]})
    line = lines_of(tmp_path)[0]
    assert line["verdict"].startswith("✕ missed")
    assert line["difference"] == "−50.00"


def test_full_and_quick_runs_are_lines_of_their_own(write_run, tmp_path):
    write_run(AND_MASK, "quick", final={"test_accuracy": [0.96, 0.96]})
    write_run(AND_MASK, "full", final={"test_accuracy": [1.0, 1.0]})
    lines = [line for line in lines_of(tmp_path) if line["id"] == AND_MASK]
    assert [(line["run"], line["ours"]) for line in lines] == [
        ("full", "100.00 ± 0.00 %"),
        ("quick", "96.00 ± 0.00 %"),
    ]
    assert "threshold 0.8 with rescaling" in lines[0]["story"]  # how the full run departs
    assert "128 hidden units in place of 256" in lines[1]["story"]


def test_claim_source_and_words_of_the_paper_are_shown():
    for line, row in zip(Outline(render_page([])).lines, match_rows("*"), strict=True):
        assert row.claim in line["story"]
        assert row.paper.source in line["story"]
        assert row.paper.words in line["story"]


def test_unfinished_and_failed_runs_show_so_with_their_error(write_run, tmp_path):
    write_run(AND_MASK, status="failed", error="the loss of seed 7 is not finite at step 320")
    write_run(PRINTED, status="interrupted", error="stopped at step 200; run it again to resume")
    write_run(PLAIN, status="running", finished=None, seconds={})  # by a process that is gone
    failed, interrupted, gone = lines_of(tmp_path)[:3]
    assert failed["verdict"] == "✕ failed"
    assert failed["ours"] == "–"
    assert "seed 7 is not finite at step 320" in failed["story"]
    assert interrupted["verdict"] == "… unfinished"
    assert "stopped at step 200" in interrupted["story"]
    assert gone["verdict"] == "… unfinished"
    assert "is gone" in gone["story"]
    assert gone["time"] == "–"


def test_changed_settings_are_shown_and_not_judged(write_run, tmp_path):
    write_run(AND_MASK, changed={"threshold": 0.5}, final={"test_accuracy": [0.9]})
    line = lines_of(tmp_path)[0]
    assert line["run"] == "full, changed"
    assert line["verdict"].startswith("· not judged")
    assert "threshold = 0.5" in line["story"]


def test_an_error_text_cannot_become_markup(write_run, tmp_path):
    write_run(AND_MASK, status="failed", error="<script>alert('x')</script> & \"more\"")
    page = page_of(tmp_path)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; &#34;more&#34;" in page
    assert Outline(page).tags.count("script") == 1


def test_equal_records_give_equal_pages(write_run, tmp_path):
    curves = np.linspace(0, 1, 60).reshape(20, 3)
    write_run(
        AND_MASK,
        final={"test_accuracy": [1.0] * 3},
        curves={"test_accuracy": curves, "train_accuracy": curves},
        inspect={"probe_logits": np.linspace(-3, 3, 144).reshape(12, 12, 1)},
    )
    first = page_of(tmp_path)
    assert first.count('<svg class="plot"') == 3
    assert first == page_of(tmp_path)


def test_identifiers_are_unique_and_headings_in_order(write_run, tmp_path):
    curves = np.random.default_rng(0).random((20, 3))
    logits = np.linspace(-3, 3, 144).reshape(12, 12, 1)
    for row in (AND_MASK, PRINTED, PLAIN):
        write_run(
            row,
            final={"test_accuracy": [1.0] * 3},
            curves={"test_accuracy": curves, "train_accuracy": curves},
            inspect={"probe_logits": logits},
        )
    outline = Outline(page_of(tmp_path))
    assert len(outline.ids) == len(set(outline.ids))
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(outline.headings))


def test_a_metric_that_is_no_share_and_a_paper_without_a_number(tmp_path, monkeypatch):
    model = find_row(AND_MASK)
    rows = tuple(
        dataclasses.replace(
            model,
            id=f"made-up/{number}",
            metric=Metric("loss", "loss", higher_is_better=False, percent=False),
            also=(Metric("step/kept", "share kept"),),
            paper=Paper(source="Fig. 1"),
        )
        for number in range(9)
    )
    system = System("made-up", "Made up", "", (Group("made-up/one", "One", "Fig. 1", rows),))
    monkeypatch.setattr("recombine.report._page.SYSTEMS", {"made-up": system})
    record = make_record(variant="full", seeds=(0, 1), final={"loss": (0.2, 0.3)})
    for row in rows:
        folder = folder_of(tmp_path / "runs", dataclasses.replace(record, row=row.id))
        folder.write_curves([1, 2], {"loss": np.ones((2, 2)), "step/kept": np.ones((2, 2))})
    page = page_of(tmp_path)
    line = Outline(page).lines[0]
    assert (line["paper"], line["ours"], line["difference"]) == ("–", "0.2500 ± 0.0707", "–")
    assert "Fig. 1: no number is printed." in line["story"]
    assert page.count('<svg class="plot"') == 2


def test_a_picture_that_fails_becomes_a_note(write_run, tmp_path):
    write_run(
        AND_MASK,
        final={"test_accuracy": [1.0]},
        inspect={"probe_logits": np.zeros(3)},  # not a plane
    )
    page = page_of(tmp_path)
    assert "This picture could not be drawn." in page
    assert '<svg class="plot"' not in page


def test_a_picture_without_its_arrays_is_left_out(write_run, tmp_path):
    write_run(AND_MASK, final={"test_accuracy": [1.0]}, inspect={"something_else": np.zeros(3)})
    assert "<figure" not in page_of(tmp_path)


def test_damaged_curves_are_named_in_a_warning_and_the_page_is_written(write_run, tmp_path):
    write_run(AND_MASK, final={"test_accuracy": [1.0]}, curves={"test_accuracy": np.ones((4, 1))})
    next((tmp_path / "runs").rglob("curves.npz")).write_bytes(b"PK but no more")
    with pytest.warns(RecordWarning, match=r"curves\.npz"):
        assert "reproduced" in page_of(tmp_path)


def test_a_record_of_an_unknown_row_is_named(write_run, tmp_path):
    record = write_run(AND_MASK, final={"test_accuracy": [1.0]})
    folder_of(tmp_path / "runs", dataclasses.replace(record, row="ilc/from-the-future"))
    assert "<code>ilc/from-the-future</code>" in page_of(tmp_path)


def test_versions_commit_and_device_of_the_records_are_in_the_header(write_run, tmp_path):
    write_run(AND_MASK, final={"test_accuracy": [1.0]})
    header = page_of(tmp_path).partition("</header>")[0]
    for text in ("0.1.0", "0.10.2", "3.11.7", "0123456789", "NVIDIA H200"):
        assert text in header


def test_many_commits_are_counted_and_folded_away(write_run, tmp_path):
    for number in range(5):
        made = dataclasses.replace(PROVENANCE, commit=f"{number}" * 40)
        write_run(AND_MASK, final={"test_accuracy": [1.0] * (number + 1)}, provenance=made)
    header = page_of(tmp_path).partition("</header>")[0]
    assert "<summary>5 different ones</summary>0000000000 1111111111" in header
    assert "<dd>NVIDIA H200</dd>" in " ".join(header.split()).replace("<dd> ", "<dd>")


def test_verdicts_are_counted_in_the_same_order_everywhere(write_run, tmp_path):
    write_run(AND_MASK, final={"test_accuracy": [0.5]})  # missed, before anything is reproduced
    write_run(PLAIN, final={"test_accuracy": [0.5], "train_accuracy": [1.0]})
    overview = page_of(tmp_path).partition('class="overview"')[2]
    counts = re.findall(r'badge \w+">\d+ ([\w ]+)<', overview)[:3]
    assert counts == ["reproduced", "missed", "not run"]


def test_the_page_refers_to_nothing_outside_itself(write_run, tmp_path):
    write_run(AND_MASK, final={"test_accuracy": [1.0]})
    page = page_of(tmp_path)
    assert not re.search(r"""(?:src|href)=["'](?!#|data:)""", page)
    assert "@import" not in page
    assert "url(http" not in page


def test_every_system_and_group_has_its_place():
    page = render_page([])
    for system in SYSTEMS.values():
        assert f'id="{system.id}"' in page
        assert all(f'id="{group.id}-title"' in page for group in system.groups)


def test_fifty_seeds_with_long_curves_stay_below_a_megabyte(write_run, tmp_path):
    rng = np.random.default_rng(0)
    for row in (AND_MASK, PRINTED, PLAIN):
        curves = rng.random((5000, 50))
        write_run(
            row,
            final={"test_accuracy": [1.0] * 50},
            curves={"test_accuracy": curves, "train_accuracy": curves},
            inspect={"probe_logits": rng.normal(size=(96, 96, 1)).cumsum(axis=0)},
        )
    assert len(page_of(tmp_path).encode()) < 1_000_000


def test_write_page_writes_what_render_page_returns(write_run, tmp_path):
    write_run(AND_MASK, final={"test_accuracy": [1.0]})
    records = read_records(tmp_path / "runs")
    write_page(tmp_path / "report.html", records)
    assert (tmp_path / "report.html").read_text() == render_page(records)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere; make it first"):
        write_page(tmp_path / "nowhere" / "report.html", [])


def test_a_folder_in_the_file_s_place_is_named(tmp_path):
    with pytest.raises(IsADirectoryError, match="add a file name"):
        write_page(tmp_path, [])


def test_an_unwritable_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write anywhere
    with pytest.raises(PermissionError, match="no permission to write in"):
        write_page(tmp_path / "report.html", [])


def test_a_full_disk_leaves_the_old_page(tmp_path, monkeypatch):
    (tmp_path / "report.html").write_text("old")

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match=r"report\.html: No space left on device"):
        write_page(tmp_path / "report.html", [])
    assert (tmp_path / "report.html").read_text() == "old"
    assert list(tmp_path.iterdir()) == [tmp_path / "report.html"]


def test_neither_jax_nor_pyplot_is_loaded(write_run, tmp_path):
    write_run(
        AND_MASK,
        final={"test_accuracy": [1.0]},
        curves={"test_accuracy": np.ones((4, 1))},
        inspect={"probe_logits": np.ones((4, 4, 1))},
    )
    code = (
        "import sys; from recombine.report import render_page;"
        "from recombine.results import read_records;"
        f"page = render_page(read_records({str(tmp_path / 'runs')!r}));"
        "assert page.count('<svg class=\"plot\"') == 2;"
        "assert 'jax' not in sys.modules, 'JAX';"
        "assert 'matplotlib.pyplot' not in sys.modules, 'pyplot'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
