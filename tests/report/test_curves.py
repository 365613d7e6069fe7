"""Learning curves: which runs are drawn, and how."""

import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from recombine.experiments import find_row, match_rows
from recombine.report import make_lines
from recombine.report._curves import (
    DASHES,
    MAX_POINTS,
    Pen,
    _draw_metric,
    draw_curves,
    mean_and_spread,
    read_curves,
    thinned,
)
from recombine.results import read_records

AND_MASK, PLAIN = "ilc/synthetic/and-mask", "ilc/synthetic/baseline"


def lines_in(tmp_path):
    return make_lines(match_rows("ilc/synthetic"), read_records(tmp_path / "runs"))


def curve(value: float, num_seeds: int = 2) -> dict[str, np.ndarray]:
    return {"test_accuracy": np.full((5, num_seeds), value)}


def test_mean_and_spread_leave_out_what_is_not_finite():
    values = np.array([[1.0, 3.0, np.nan], [2.0, np.inf, np.nan], [np.nan] * 3])
    mean, spread = mean_and_spread(values)
    np.testing.assert_array_equal(mean, [2.0, 2.0, np.nan])
    np.testing.assert_allclose(spread, [2.0**0.5, 0.0, 0.0])


def test_thinning_keeps_both_ends_and_all_of_a_short_curve():
    assert thinned(7).tolist() == list(range(7))
    kept = thinned(10_000)
    assert len(kept) == MAX_POINTS
    assert (kept[0], kept[-1]) == (0, 9_999)


def test_the_full_run_is_drawn_before_the_quick_one(write_run, tmp_path):
    write_run(AND_MASK, "quick", final={"test_accuracy": [0.9, 0.9]}, curves=curve(0.9))
    write_run(AND_MASK, "full", final={"test_accuracy": [1.0, 1.0]}, curves=curve(1.0))
    (drawn,) = read_curves(lines_in(tmp_path))
    assert drawn.label == "AND-mask: full, 2 seeds"


def test_a_finished_quick_run_is_drawn_before_an_unfinished_full_one(write_run, tmp_path):
    write_run(AND_MASK, "quick", final={"test_accuracy": [0.9, 0.9]}, curves=curve(0.9))
    write_run(AND_MASK, "full", status="failed", error="why", curves=curve(0.5, 1))
    write_run(PLAIN, "full", status="failed", error="why", curves=curve(0.5, 1))
    quick, failed = read_curves(lines_in(tmp_path))
    assert quick.label == "AND-mask: quick, 2 seeds"
    assert failed.label == "plain mean of gradients: full, 1 seed, failed"


def test_a_row_keeps_its_pen_whichever_others_were_run(write_run, tmp_path):
    write_run(PLAIN, final={"test_accuracy": [0.5, 0.5]}, curves=curve(0.5))
    (alone,) = read_curves(lines_in(tmp_path))
    write_run(AND_MASK, final={"test_accuracy": [1.0, 1.0]}, curves=curve(1.0))
    assert read_curves(lines_in(tmp_path))[1].pen == alone.pen


def test_pens_differ():
    assert len({Pen.number(index) for index in range(12)}) == 12
    assert Pen.number(0).dash == DASHES[0]


def test_arrays_that_are_no_curves_are_left_out(write_run, tmp_path):
    odd = {"test_accuracy": np.ones(5), "train_accuracy": np.ones((5, 2))}
    write_run(AND_MASK, final={"test_accuracy": [1.0, 1.0]}, curves=odd)
    figures = draw_curves(read_curves(lines_in(tmp_path)), name="here")
    assert [figure.metric.name for figure in figures] == ["train_accuracy"]


def test_a_figure_takes_its_colours_from_the_page_and_says_what_it_shows(write_run, tmp_path):
    write_run(AND_MASK, final={"test_accuracy": [1.0, 1.0]}, curves=curve(0.75))
    (figure,) = draw_curves(read_curves(lines_in(tmp_path)), name="here")
    assert "var(--series-0)" in figure.svg
    assert "#0072b2" not in figure.svg
    assert "currentColor" in figure.svg
    title = re.search("<title>(.*?)</title>", figure.svg)
    assert title is not None
    assert title[1] == (
        "test accuracy over training steps. AND-mask: full, 2 seeds, ends at 75.0 %."
    )
    assert ">step</text>" in figure.svg  # text stays text


def test_rows_that_mean_different_things_by_one_name_have_figures_of_their_own(write_run, tmp_path):
    for row in ("ilc/theory/prop1", "ilc/theory/prop3-printed"):
        write_run(row, curves={"violations": np.array([[0.0], [0.5]])})
    lines = make_lines(match_rows("ilc/theory/prop*"), read_records(tmp_path / "runs"))
    figures = draw_curves(read_curves(lines), name="theory")
    titles = [(figure.metric.label, figure.metric.percent) for figure in figures]
    assert titles == [
        ("steps that break the inequality", False),
        ("pairs that break the bound", True),
    ]


@pytest.mark.parametrize(("first", "is_log"), [(0.088, True), (0.004, False), (0.0, False)])
def test_errors_that_fall_by_decades_have_a_logarithmic_axis(write_run, tmp_path, first, is_log):
    values = np.array([[first], [0.0015]])
    write_run("ldt/mujoco/hopper/ldt", curves={"best_test_squared_error": values})
    lines = make_lines([find_row("ldt/mujoco/hopper/ldt")], read_records(tmp_path / "runs"))
    curves = read_curves(lines)
    axes = Figure().subplots()
    _draw_metric(axes, curves[0].line.row.metric, curves)
    assert axes.get_yscale() == ("log" if is_log else "linear")


def test_one_evaluation_is_seen_too(write_run, tmp_path):
    once = {"test_accuracy": np.full((1, 2), 0.5)}
    write_run(AND_MASK, final={"test_accuracy": [0.5, 0.5]}, curves=once)
    assert len(draw_curves(read_curves(lines_in(tmp_path)), name="here")) == 1


def test_curves_of_nothing_but_nan_do_not_stop_the_figure(write_run, tmp_path):
    write_run(AND_MASK, status="failed", error="NaN", curves=curve(np.nan, 1))
    assert len(draw_curves(read_curves(lines_in(tmp_path)), name="here")) == 1


def test_a_metric_can_be_drawn_against_another(write_run, tmp_path):
    row = find_row("asi/room-runner/asi")
    curves = {
        "accuracy_soft": np.array([[0.5, 0.5], [0.9, 0.7]]),
        "model_evaluations": np.array([[0.0, 0.0], [3e6, 5e6]]),
        "epoch": np.array([[0.0, 0.0], [20.0, 20.0]]),
    }
    write_run(row.id, final={"accuracy_soft": [0.9, 0.7]}, curves=curves)
    lines = make_lines([row], read_records(tmp_path / "runs"))
    figures = {f.caption: f.svg for f in draw_curves(read_curves(lines), name="here")}
    name = "probability of the true outcome against"
    assert set(figures) == {f"{name} epochs", f"{name} training calls of the model"}
    assert ">epochs</text>" in figures[f"{name} epochs"]
    by_calls = figures[f"{name} training calls of the model"]
    assert ">training calls of the model</text>" in by_calls
    assert re.search(r">[234],\d00,000</text>", by_calls)  # to 4 million, the mean over seeds
    assert not re.search(r">[5-9],\d00,000</text>", by_calls)
    assert "over training calls of the model. adaptive skips: full, 2 seeds" in by_calls


def test_a_curve_without_what_it_is_drawn_against_is_left_out(write_run, tmp_path):
    row = find_row("asi/room-runner/asi")
    write_run(row.id, curves={"accuracy_soft": np.ones((2, 1)), "epoch": np.ones((2, 1))})
    lines = make_lines([row], read_records(tmp_path / "runs"))
    assert len(draw_curves(read_curves(lines), name="here")) == 1
