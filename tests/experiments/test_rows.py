"""A contract that every row keeps."""

import dataclasses
import json

import numpy as np
import pytest
from matplotlib.figure import Figure

from recombine.engines import RunRequest, run_row
from recombine.experiments import SYSTEMS, find_row, match_rows
from recombine.report import make_lines
from recombine.results import read_records

ROWS = match_rows("*")

# Compiling a network takes most of the time of a tiny run: by default one row of each kind is run.
TRIED = {
    *("ilc/synthetic/and-mask", "ilc/synthetic/baseline", "me/meta"),
    *("ilc/synthetic/dann", "ilc/synthetic/envs/64/baseline"),
    *("ilc/gradcorr/and", "asi/room-runner/asi"),
    "modular/hyperteacher/compositional/linear-hnet",
    *("ldt/toy-a/none", "ldt/mujoco/hopper/search-model-free"),
}
TINY_RUNS = [
    pytest.param(row, id=row.id, marks=() if row.id in TRIED else pytest.mark.slow) for row in ROWS
]


def test_ids_are_unique_and_belong_to_their_group():
    assert len({row.id for row in ROWS}) == len(ROWS)
    for name, system in SYSTEMS.items():
        assert system.id == name
        for group in system.groups:
            assert all(row.id.startswith(group.id + "/") for row in group.rows)
        assert set(system.demo) <= {row.id for row in system.rows if row.quick}


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=lambda system: system.id)
def test_the_demo_needs_no_other_rows_to_be_judged(system):
    class Anything(dict):
        def __missing__(self, name):
            return np.array([0.5])

        def __contains__(self, name):
            return True

    needed = set()

    def others(name):
        needed.add(name)
        return Anything()

    # A verdict alone would not tell: a bound that is missed outweighs a row that was not run.
    for name in system.demo:
        row = find_row(name)
        row.variant("quick").rule.judge(row.metric.name, Anything(), others)
    assert needed <= set(system.demo)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_says_what_it_claims_and_where_it_is_printed(row):
    assert row.claim.endswith(".")
    assert row.paper.source
    assert row.paper.mean is not None or row.paper.words
    for variant in filter(None, (row.full, row.quick, row.tiny)):
        assert variant.steps % variant.eval_every == 0  # one compiled program on accelerators
        config = dataclasses.asdict(variant.config)
        assert type(variant.config)(**json.loads(json.dumps(config))) == variant.config


@pytest.mark.parametrize("row", TINY_RUNS)
def test_the_tiny_variant_runs_and_measures_what_the_row_promises(row, tmp_path):
    record = run_row(RunRequest.of(row, "tiny"), tmp_path, progress=False)
    assert record.is_done
    for metric in (row.metric, *row.also):
        assert np.isfinite(record.values(metric.name)).all()
        assert len(record.values(metric.name)) == row.tiny.num_seeds
    [line] = make_lines([row], read_records(tmp_path))
    assert line.ours is not None
    assert line.folder is not None
    inspected = line.folder.read_inspect()
    for picture in row.pictures:
        assert set(picture.needs) <= set(inspected)
        figure = Figure()
        picture.draw(figure.add_subplot(), inspected)
        assert any(axes.has_data() for axes in figure.axes)


def test_patterns_are_globs_or_prefixes():
    ids = [row.id for row in match_rows("ilc/synthetic/baseli*")]
    assert ids == ["ilc/synthetic/baseline"]
    ids = [row.id for row in match_rows("ilc/synthetic/search")]
    assert ids == [
        f"ilc/synthetic/search/{name}" for name in ("and-mask", "standard", "irm", "dann")
    ]


def test_an_unknown_row_gets_the_nearest_names():
    with pytest.raises(LookupError, match="try ilc/synthetic/baseline"):
        match_rows("ilc/synthetic/baselin")
    with pytest.raises(LookupError, match="no row is called 'ilc/x'"):
        find_row("ilc/x")


def test_a_row_without_a_quick_variant_says_so():
    with pytest.raises(LookupError, match="no quick variant"):
        find_row("ilc/synthetic/and-mask-printed").variant("quick")
