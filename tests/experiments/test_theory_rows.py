"""The theory rows: their quick variants must show what they claim, and all can be drawn."""

import dataclasses
import json

import jax
import jax.random as jr
import numpy as np
import pytest
from matplotlib.figure import Figure

from recombine.engines import RunRequest, run_row
from recombine.experiments.agreement._known_values import KnownValues
from recombine.experiments.agreement._theory_rows import LINREG, THEORY
from recombine.report import make_lines
from recombine.results import read_records

ROWS = {row.id: row for group in (THEORY, LINREG) for row in group.rows}
BY_DEFAULT = ("ilc/theory/prop1", "ilc/theory/prop3")


def line_of(row, variant, folder):
    run_row(RunRequest.of(row, variant), folder, progress=False)
    [line] = make_lines([row], read_records(folder))
    assert line.record is not None
    return line


def draw_all(line):
    assert line.folder is not None
    inspected = line.folder.read_inspect()
    for picture in line.row.pictures:
        assert set(picture.needs) <= set(inspected)
        figure = Figure()
        picture.draw(figure.add_subplot(), inspected)
        figure.draw_without_rendering()
        assert any(axes.has_data() for axes in figure.axes)


def test_every_row_says_what_it_claims_and_its_config_survives_json():
    assert set(ROWS) >= {f"ilc/theory/{name}" for name in ("patchwork", "prop1", "prop2", "prop3")}
    for row in ROWS.values():
        assert row.claim.endswith(".")
        assert row.paper.source
        assert row.paper.mean is not None or row.paper.words
        for variant in filter(None, (row.full, row.quick, row.tiny)):
            assert variant.steps % variant.eval_every == 0
            config = dataclasses.asdict(variant.config)
            assert type(variant.config)(**json.loads(json.dumps(config))) == variant.config


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in BY_DEFAULT else pytest.mark.slow)
        for name in ROWS
        if "linreg" not in name and ROWS[name].quick
    ],
)
def test_the_quick_variant_shows_the_effect(name, tmp_path):
    line = line_of(ROWS[name], "quick", tmp_path)
    assert line.verdict.word == "effect shown", line.verdict.reason
    draw_all(line)


def test_the_printed_bound_is_a_visible_miss(tmp_path):
    line = line_of(ROWS["ilc/theory/prop3-printed"], "full", tmp_path)
    assert line.verdict.word == "missed", line.verdict.reason


@pytest.mark.parametrize("name", ["arithmetic", "and-mask", "geometric"])
def test_the_linear_rows_end_where_the_notebook_does(name, tmp_path):
    line = line_of(ROWS[f"ilc/linreg/{name}"], "full", tmp_path)
    assert line.verdict.word == "reproduced", line.verdict.reason
    assert line.folder is not None
    of_all, of_some = line.folder.read_inspect()["weights"]
    if name == "arithmetic":
        np.testing.assert_allclose(of_all, [0.31915] * 4 + [0.12766], atol=1e-4)
        np.testing.assert_allclose(of_some, [0.32609, 0.32609, 0, 0, 0.06522], atol=1e-4)
    else:
        for weights in (of_all, of_some):
            np.testing.assert_allclose(weights, [0, 0, 0, 0, 2.9994], atol=1e-4)
    draw_all(line)


@pytest.mark.parametrize(
    "name", [pytest.param("landscape", marks=pytest.mark.slow), "patchwork", "prop2"]
)
def test_the_tiny_variant_measures_and_draws(name, tmp_path):
    row = ROWS[f"ilc/theory/{name}"]
    line = line_of(row, "tiny", tmp_path)
    for metric in (row.metric, *row.also):
        assert np.isfinite(line.record.values(metric.name)).all()
    draw_all(line)


def test_masked_weights_of_the_linear_toy_only_decay():
    """1,001 rates from 0.3 down: the decay of a masked weight is their product."""
    row = ROWS["ilc/linreg/and-mask"]
    learner = row.make_learner(row.full.config, row.full.steps)
    rates = 0.3 * 0.9995 ** np.arange(1, 1002)
    assert np.prod(1 - 0.01 * rates) == pytest.approx(0.093972, abs=1e-6)
    start = learner.init(jr.key(0))
    start = start._replace(of_all=start.of_all.at[0].set(0.01))
    moved, _ = learner.step(start, jr.key(0))
    assert float(moved.of_all[0]) == pytest.approx(0.01 * (1 - 0.01 * rates[0]))


def test_a_learner_that_is_made_again_is_equal_and_compiles_nothing_anew():
    for row in ROWS.values():
        one, other = (row.make_learner(row.tiny.config, row.tiny.steps) for _ in range(2))
        assert jax.tree.structure(one) == jax.tree.structure(other)  # settings are part of it


def test_known_values_name_what_is_off():
    rule = KnownValues((("a", 1.0, 0.1), ("b", 2.0, 0.1)))
    finals = {"a": np.array([1.05, 0.95]), "b": np.array([2.0, 2.3])}
    judged = rule.judge("a", finals, lambda _: None)
    assert judged.holds is False
    assert judged.reason == "b 2.3, must be within 0.1 of 2"
    assert rule.judge("a", finals | {"b": np.array([2.0])}, lambda _: None).holds is True
    assert rule.judge("a", {"a": finals["a"]}, lambda _: None).holds is None
    with_nan = rule.judge("a", finals | {"b": np.array([np.nan])}, lambda _: None)
    assert with_nan.holds is False
