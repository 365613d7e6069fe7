from dataclasses import replace

import numpy as np
import pytest
from runs_by_hand import write_run_to

from recombine.experiments import SYSTEMS, Metric, find_row
from recombine.report import line_to_json, make_lines, selected_text
from recombine.report._selected import values_selected
from recombine.results import RunFolder, read_records

ROW = find_row("modular/hyperteacher/compositional/maml")
OOD, LOSS = ROW.metric, Metric("valid_loss", "the validation loss", higher_is_better=False)
CURVES = {
    "ood_accuracy": np.array([[0.3, 0.4], [0.6, 0.5], [0.5, 0.7]]),
    "valid_loss": np.array([[0.9, 0.9], [0.4, 0.8], [0.5, 0.7]]),
}
FINAL = {"ood_accuracy": [0.5, 0.7]}


def folder_with(tmp_path, curves):
    write_run_to(tmp_path, ROW.id, final=FINAL, curves=curves)
    [(folder, _)] = read_records(tmp_path)
    return folder


def test_every_seed_has_the_step_of_its_own_lowest_loss(tmp_path):
    values = values_selected(folder_with(tmp_path, CURVES), OOD, LOSS)
    assert values == pytest.approx([0.6, 0.7])


def test_a_metric_that_is_better_when_higher_chooses_its_highest(tmp_path):
    by = replace(LOSS, higher_is_better=True)
    assert values_selected(folder_with(tmp_path, CURVES), OOD, by) == pytest.approx([0.3, 0.4])


def test_steps_at_which_validation_is_no_number_are_not_chosen(tmp_path):
    loss = np.array([[np.nan, 0.9], [0.4, np.nan], [np.inf, 0.7]])
    folder = folder_with(tmp_path, {**CURVES, "valid_loss": loss})
    assert values_selected(folder, OOD, LOSS) == pytest.approx([0.6, 0.7])


@pytest.mark.parametrize(
    "curves",
    [
        {"ood_accuracy": CURVES["ood_accuracy"]},
        {"valid_loss": CURVES["valid_loss"]},
        {**CURVES, "valid_loss": np.array([[np.nan, 1.0]] * 3)},
    ],
)
def test_without_both_curves_nothing_is_selected(tmp_path, curves):
    assert values_selected(folder_with(tmp_path, curves), OOD, LOSS) is None


def test_a_run_without_curves_has_nothing_to_select_from(tmp_path):
    assert values_selected(RunFolder(tmp_path), OOD, LOSS) is None


def test_a_line_has_both_numbers(tmp_path):
    write_run_to(tmp_path, ROW.id, final=FINAL, curves=CURVES)
    [line] = make_lines([ROW], read_records(tmp_path))
    assert line.ours is not None
    assert line.ours.mean == pytest.approx(0.6)
    assert line_to_json(line)["selected"]["mean"] == pytest.approx(0.65)
    assert selected_text(line) == "65.00 ± 7.07 % where the validation loss is lowest"


def test_rows_that_select_nothing_say_nothing(tmp_path):
    row = replace(ROW, selection=None)
    write_run_to(tmp_path, ROW.id, final=FINAL, curves=CURVES)
    [line] = make_lines([row], read_records(tmp_path))
    assert line.selected is None
    assert selected_text(line) == ""


def test_no_row_selects_by_what_it_is_judged_by():
    rows = [row for system in SYSTEMS.values() for row in system.rows if row.selection]
    assert rows
    for row in rows:
        assert row.selection is not None
        assert row.selection.name.startswith("valid_")
        assert row.metric.name.startswith("ood_")
