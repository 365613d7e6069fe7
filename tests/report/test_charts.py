"""Charts of a group: final values of its rows beside each other."""

import re

from recombine.experiments import SYSTEMS, Chart, Metric, Panel
from recombine.report import make_lines, render_page
from recombine.report._charts import draw_charts
from recombine.results import read_records

LINEAR, MAML = (f"modular/hyperteacher/compositional/{name}" for name in ("linear-hnet", "maml"))
GROUP = next(group for group in SYSTEMS["modular"].groups if group.rows[0].id == LINEAR)


def charts_in(tmp_path, charts=GROUP.charts):
    lines = make_lines(GROUP.rows, read_records(tmp_path / "runs"))
    return draw_charts(charts, lines, name=GROUP.id)


def test_rows_that_were_run_stand_beside_each_other(write_run, tmp_path):
    assert charts_in(tmp_path) == []
    write_run(
        LINEAR,
        final={"ood_accuracy": [0.8, 0.9], "test_accuracy": [0.9, 0.9], "decoded_mean": [0.7, 0.8]},
    )
    write_run(MAML, "quick", final={"ood_accuracy": [0.4], "decoded_mean": [-900.0]})
    [chart] = charts_in(tmp_path)
    title = re.search("<title>(.*?)</title>", chart.svg)
    assert title is not None
    assert "linear hypernetwork, compositional: accuracy, unseen combinations 0.85" in title[1]
    assert "MAML, compositional (quick): accuracy, unseen combinations 0.4" in title[1]
    assert "ANIL" not in chart.svg
    assert "Hollow: test accuracy." in chart.caption
    assert "arrow" in chart.caption


def test_the_page_shows_them(write_run, tmp_path):
    write_run(LINEAR, final={"ood_accuracy": [0.8], "decoded_mean": [0.7]})
    page = render_page(read_records(tmp_path / "runs"))
    assert "Unseen combinations, and decodability, against the learner" in page


def test_unfinished_runs_and_missing_numbers_are_left_out(write_run, tmp_path):
    write_run(LINEAR, status="failed", error="why", final={"ood_accuracy": [0.8]})
    write_run(MAML, final={"ood_accuracy": [float("nan"), 0.5]})
    loss = Panel(Metric("ood_loss", "loss", percent=False), log=True)
    [chart] = charts_in(tmp_path, (Chart("both", (GROUP.charts[0].panels[0], loss)),))
    assert "MAML, compositional: accuracy, unseen combinations 0.5." in chart.svg
    assert "linear" not in chart.svg
