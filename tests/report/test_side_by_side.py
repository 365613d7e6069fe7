import json

import numpy as np
import pytest

from made_up import folder_of, make_record
from recombine.experiments import find_row
from recombine.report import (
    ComparisonError,
    choose_runs,
    compare_runs,
    comparison_table,
    comparison_to_json,
    comparison_to_markdown,
    make_lines,
    save_comparison,
)
from recombine.results import read_records

AND_MASK, PLAIN, IRM = (f"ilc/synthetic/{name}" for name in ("and-mask", "baseline", "irm"))
HIGH, LOW = (0.99, 1.0, 0.98, 1.0, 0.99, 1.0), (0.5, 0.52, 0.51, 0.49, 0.5, 0.48)


def run_of(tmp_path, row, values, *, first=0, metric="test_accuracy", **fields):
    """Leaves a record, and returns its line."""
    record = make_record(
        **{
            "row": row,
            "final": {metric: tuple(values)},
            "seeds": tuple(range(first, first + len(values))),
            **fields,
        }
    )
    return make_lines([find_row(row)], [(folder_of(tmp_path, record), record)])[0]


def test_runs_stand_beside_the_first(tmp_path):
    found = compare_runs([run_of(tmp_path, AND_MASK, HIGH), run_of(tmp_path, PLAIN, LOW)])
    ours, plain = found.runs
    assert found.reference == ours.label == AND_MASK
    assert ours.difference is None
    assert plain.difference.mean == pytest.approx(np.mean(LOW) - np.mean(HIGH))
    assert plain.difference.low < plain.difference.mean < plain.difference.high < -0.4
    assert plain.difference.pairs == 6
    assert found.notes == ()
    assert plain.summary.sd == pytest.approx(np.std(LOW, ddof=1))


def test_the_table_shows_percentages_and_says_what_they_stand_on(tmp_path):
    found = compare_runs([run_of(tmp_path, AND_MASK, HIGH), run_of(tmp_path, PLAIN, LOW)])
    heads, first, second = comparison_table(found)
    assert heads[2] == "test accuracy"
    assert heads[5] == "95 % interval"
    assert first == (AND_MASK, "quick", "99.33 ± 0.82 %", "6", "reference", "", "")
    assert second[4] == "−49.33"
    assert second[6] == "6 pairs"
    markdown = comparison_to_markdown(found)
    assert markdown.splitlines()[1] == "| " + " | ".join(["---"] * len(heads)) + " |"
    assert "less that of ilc/synthetic/and-mask, in percentage points" in markdown


def test_another_reference_can_be_named_by_row_or_folder(tmp_path):
    lines = [run_of(tmp_path, AND_MASK, HIGH), run_of(tmp_path, PLAIN, LOW)]
    found = compare_runs(lines, reference=PLAIN)
    assert found.reference == PLAIN
    assert found.runs[0].difference.mean > 0.4
    assert compare_runs(lines, reference=lines[1].folder.path) == found
    with pytest.raises(ComparisonError, match="not among the runs compared; try ilc/synthetic/ba"):
        compare_runs(lines, reference="ilc/synthetic/baselin")


def test_runs_of_one_row_are_told_apart(tmp_path):
    changed = run_of(tmp_path, AND_MASK, LOW, changed={"threshold": 0.5})
    found = compare_runs([run_of(tmp_path, AND_MASK, HIGH), changed])
    first, second = found.runs
    assert first.label != second.label
    assert first.label.startswith(f"{AND_MASK}/quick-")
    assert (first.run, second.run) == ("quick", "quick, threshold=0.5")
    with pytest.raises(ComparisonError, match="could be any of"):
        compare_runs([first.line, second.line], reference=AND_MASK)


def test_notes_say_what_the_table_hides(tmp_path):
    found = compare_runs(
        [
            run_of(tmp_path, AND_MASK, HIGH),
            run_of(tmp_path, PLAIN, LOW[:2]),
            run_of(tmp_path, IRM, (0.5, float("nan"), 0.4), first=20, variant="full"),
        ]
    )
    notes = "\n".join(found.notes)
    assert "different variants are compared: quick, full" in notes
    assert f"{IRM}: 1 of 3 seeds without a number" in notes
    assert "over those that both have" in notes
    assert f"no seed is shared, so runs are not paired: {IRM}" in notes
    assert "from 2 pairs" in notes
    assert "no more than 50 % of cases" in notes
    assert [row[-1] for row in comparison_table(found)[2:]] == ["2 pairs", "unpaired"]
    assert found.runs[2].values == {20: 0.5, 22: 0.4}


def test_one_pair_has_no_interval(tmp_path):
    found = compare_runs([run_of(tmp_path, AND_MASK, HIGH[:1]), run_of(tmp_path, PLAIN, LOW[:1])])
    assert comparison_table(found)[2][4:] == ("−49.00", "none", "1 pair")
    assert "has no spread and so no interval" in found.notes[0]


def test_another_metric_can_be_chosen(tmp_path):
    final = {"test_accuracy": HIGH, "train_accuracy": LOW, "step/loss": LOW}
    lines = [run_of(tmp_path, row, HIGH, final=final) for row in (AND_MASK, PLAIN)]
    assert compare_runs(lines, metric="train_accuracy").metric.label == "training accuracy"
    loss = compare_runs(lines, metric="step/loss")
    assert not loss.metric.percent
    assert comparison_table(loss)[1][2] == "0.5000 ± 0.0141"
    assert comparison_table(loss)[2][4] == "0"
    with pytest.raises(ComparisonError, match=r"did not measure 'tst_accuracy'; all have test_acc"):
        compare_runs(lines, metric="tst_accuracy")


def test_rows_that_are_judged_differently_need_a_metric(tmp_path):
    other = "ilc/gradcorr/and"
    metric = find_row(other).metric.name
    lines = [run_of(tmp_path, AND_MASK, HIGH), run_of(tmp_path, other, LOW, metric=metric)]
    with pytest.raises(ComparisonError, match="choose one with `--metric`"):
        compare_runs(lines)
    with pytest.raises(ComparisonError, match="no metric in common"):
        compare_runs(lines, metric="test_accuracy")


def test_what_cannot_be_compared_is_refused(tmp_path):
    done = run_of(tmp_path, AND_MASK, HIGH)
    with pytest.raises(ComparisonError, match="at least two runs"):
        compare_runs([done])
    with pytest.raises(ComparisonError, match="no finished run"):
        compare_runs([done, run_of(tmp_path, PLAIN, (), status="failed", error="NaN")])
    with pytest.raises(ComparisonError, match="not a number for any seed"):
        compare_runs([done, run_of(tmp_path, PLAIN, (float("nan"),))])


def test_json_is_plain_and_complete(tmp_path):
    found = compare_runs([run_of(tmp_path, AND_MASK, HIGH), run_of(tmp_path, PLAIN, LOW)])
    data = json.loads(json.dumps(comparison_to_json(found), allow_nan=False))
    assert data["runs"][0]["difference"] is None
    assert data["runs"][1]["values"]["1"] == 0.52
    assert data["runs"][1]["difference"]["pairs"] == 6
    assert data["runs"][1]["difference"]["paired"] is True


def test_the_fullest_variant_that_all_rows_have_is_chosen(tmp_path):
    rows = [find_row(row) for row in (AND_MASK, PLAIN, IRM)]
    for row, variant in ((AND_MASK, "full"), (AND_MASK, "quick"), (PLAIN, "quick")):
        run_of(tmp_path, row, HIGH, variant=variant)
    chosen = choose_runs(rows, read_records(tmp_path))
    assert [(line.row.id, line.record.variant) for line in chosen] == [
        (AND_MASK, "quick"),
        (PLAIN, "quick"),
    ]
    [full] = choose_runs(rows, read_records(tmp_path), variant="full")
    assert full.record.variant == "full"
    beside = choose_runs(rows[:1], read_records(tmp_path), beside=[chosen[1]])
    assert beside[0].record.variant == "quick"
    assert choose_runs(rows[:1], read_records(tmp_path))[0].record.variant == "full"


def test_rows_without_a_variant_in_common_are_refused(tmp_path):
    run_of(tmp_path, AND_MASK, HIGH, variant="full")
    run_of(tmp_path, PLAIN, HIGH, variant="quick")
    rows = [find_row(AND_MASK), find_row(PLAIN)]
    with pytest.raises(ComparisonError, match=r"and-mask: full; .*baseline: quick.*`--variant`"):
        choose_runs(rows, read_records(tmp_path))


def test_changed_and_unfinished_runs_are_not_chosen(tmp_path):
    run_of(tmp_path, AND_MASK, HIGH, changed={"l2": 0.0})
    run_of(tmp_path, PLAIN, (), status="interrupted")
    assert choose_runs([find_row(AND_MASK), find_row(PLAIN)], read_records(tmp_path)) == []


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.SVG", b"<?xml")])
def test_the_plot_is_a_file_and_the_same_every_time(tmp_path, name, start):
    found = compare_runs(
        [
            run_of(tmp_path, AND_MASK, HIGH),
            run_of(tmp_path, PLAIN, LOW),
            run_of(tmp_path, IRM, LOW[:1], first=9),
        ]
    )
    path = tmp_path / name
    save_comparison(found, path)
    content = path.read_bytes()
    assert content.startswith(start)
    if name.endswith("SVG"):
        assert PLAIN.encode() in content, "text stays text"
    save_comparison(found, path)
    assert path.read_bytes() == content


@pytest.mark.parametrize(("name", "word"), [("a.pdf", ".png or .svg"), ("no/a.png", "no folder")])
def test_a_plot_that_cannot_be_written_says_why(tmp_path, name, word):
    found = compare_runs([run_of(tmp_path, AND_MASK, HIGH), run_of(tmp_path, PLAIN, LOW)])
    with pytest.raises(OSError, match=word):
        save_comparison(found, tmp_path / name)
