import dataclasses

import pytest

from made_up import folder_of, make_record
from recombine.experiments import find_row
from recombine.report import line_to_json, make_lines, to_markdown
from recombine.report._lines import changes
from recombine.results import read_records

AND_MASK, PLAIN = find_row("ilc/synthetic/and-mask"), find_row("ilc/synthetic/baseline")


def lines_of(tmp_path, *records):
    for record in records:
        folder_of(tmp_path, record)
    return make_lines([AND_MASK], read_records(tmp_path))


def test_a_row_without_a_record_is_a_line():
    [line] = make_lines([AND_MASK], [])
    assert line.verdict.word == "not run"
    assert line.ours is None


def test_mean_and_spread_are_over_seeds(tmp_path):
    [line] = lines_of(tmp_path, make_record(final={"test_accuracy": (0.5, 1.0)}, seeds=(0, 1)))
    assert line.ours is not None
    assert line.ours.mean == 0.75
    assert line.ours.sd == pytest.approx(0.5**0.5 / 2)
    assert line.ours.n == 2


def test_a_quick_run_needs_its_baseline_to_be_judged(tmp_path):
    [line] = lines_of(tmp_path, make_record())
    assert line.verdict.word == "not judged"
    assert "ilc/synthetic/baseline must be run" in line.verdict.reason
    baseline = make_record(
        row=PLAIN.id, final={"test_accuracy": (0.5, 0.52, 0.51), "train_accuracy": (1.0, 1.0, 1.0)}
    )
    folder_of(tmp_path, baseline)
    both = make_lines([AND_MASK, PLAIN], read_records(tmp_path))
    assert [line.verdict.word for line in both] == ["effect shown", "effect shown"]


@pytest.mark.parametrize(
    ("values", "word"), [((1.0, 1.0, 0.5), "reproduced"), ((0.9, 0.98, 1.0), "missed")]
)
def test_a_full_run_is_judged_by_the_rows_rule(tmp_path, values, word):
    [line] = lines_of(tmp_path, make_record(variant="full", final={"test_accuracy": values}))
    assert line.verdict.word == word
    assert "median" in line.verdict.reason


def test_changed_settings_are_not_judged(tmp_path):
    [line] = lines_of(tmp_path, make_record(variant="full", changed={"l2": 0.0}))
    assert (line.verdict.word, line.verdict.reason) == (
        "not judged",
        "settings differ from the row's: l2=0.0",
    )


def test_a_change_that_the_row_has_taken_over_is_none(tmp_path):
    config = make_record(variant="full").config
    asked = make_record(variant="full", changed={"l2": config["l2"]})
    [line] = lines_of(tmp_path, asked)
    assert (line.status, line.verdict.word) == ("full", "reproduced")


def test_a_run_made_before_the_row_changed_is_not_judged(tmp_path):
    record = make_record(variant="full")
    old = dataclasses.replace(record, config=record.config | {"l2": 0.5}, steps=record.steps + 1)
    [line] = lines_of(tmp_path, old)
    assert (line.status, line.verdict.word) == ("full, changed", "not judged")
    assert f"l2=0.5, steps={old.steps}" in line.verdict.reason


def test_settings_within_settings_are_compared_one_by_one(tmp_path):
    row = find_row("ldt/mujoco/swimmer/search-model-free")
    record = make_record(row=row.id, variant="full")
    before = dict(record.config["base"])
    del before["keep"]
    unknown = dataclasses.replace(record, config=record.config | {"base": before})
    assert changes(row, unknown) == {}
    other = dataclasses.replace(record, config=record.config | {"base": before | {"hidden": [4]}})
    assert changes(row, other) == {"base": {"hidden": [4]}}


def test_a_setting_younger_than_a_run_had_its_default_there():
    row = find_row("ldt/mujoco/walker2d/ldt")
    record = make_record(row=row.id, variant="full")
    assert record.config["longest_meta_gradient"] == 3.0
    old = {name: value for name, value in record.config.items() if name != "ascending"}
    assert changes(row, dataclasses.replace(record, config=old)) == {}  # the row has the default
    del old["longest_meta_gradient"]
    older = dataclasses.replace(record, config=old)
    assert changes(row, older) == {"longest_meta_gradient": None}


def test_a_run_by_other_settings_is_no_baseline(tmp_path):
    final = {"test_accuracy": (0.5, 0.52, 0.51), "train_accuracy": (1.0, 1.0, 1.0)}
    folder_of(tmp_path, make_record(row=PLAIN.id, changed={"l2": 0.5}, final=final))
    [line] = lines_of(tmp_path, make_record())
    assert "ilc/synthetic/baseline must be run" in line.verdict.reason


@pytest.mark.parametrize(
    ("status", "word"),
    [("running", "unfinished"), ("interrupted", "unfinished"), ("failed", "failed")],
)
def test_unfinished_and_failed_runs_are_shown_as_such(tmp_path, status, word):
    [line] = lines_of(tmp_path, make_record(status=status, final={}, error="it broke"))
    assert line.verdict.word == word
    assert line.ours is None


def test_a_run_that_is_held_is_running(tmp_path):
    folder = folder_of(tmp_path, make_record(status="running", final={}))
    with folder.claim():
        [line] = make_lines([AND_MASK], read_records(tmp_path))
    assert line.verdict.word == "running"


def test_the_finished_record_with_more_seeds_wins(tmp_path):
    lines = lines_of(
        tmp_path,
        make_record(),
        make_record(seeds=(0,), final={"test_accuracy": (0.1,)}),
        make_record(seeds=(0, 1, 2, 3), status="failed", final={}),
    )
    [line] = lines
    assert line.ours is not None
    assert line.ours.n == 3


def test_variants_have_lines_of_their_own(tmp_path):
    lines = lines_of(tmp_path, make_record(), make_record(variant="full"))
    assert [line.status for line in lines] == ["full", "quick"]


def test_json_and_markdown_tell_the_same(tmp_path):
    [line] = lines_of(tmp_path, make_record(variant="full"))
    data = line_to_json(line)
    assert data["paper"] == {"mean": 1.0, "sd": None, "n": 50}
    assert data["ours"]["n"] == 3
    assert data["seconds"] == 3.0
    assert data["device"] == "imaginary chip"
    table = to_markdown([line]).splitlines()
    assert len(table) == 3
    assert "| 99.00 ± 1.00 % |" in table[2]
