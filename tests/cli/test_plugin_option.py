"""`--plugin`: rows of one's own in every command that knows rows."""

import json

import pytest

from recombine.cli import main

PLUGIN = '''
from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from recombine.experiments import AtLeast, Group, Metric, Paper, Row, System, Variant


@dataclass(frozen=True)
class Config:
    shift: float = 1.0


class Learner(eqx.Module):
    """Its value is a shifted draw, which two learners with one seed share."""

    shift: float = eqx.field(static=True)

    def init(self, key):
        return jr.normal(key) + self.shift

    def step(self, state, key):
        return state, {"loss": jnp.abs(state)}

    def evaluate(self, state, key):
        return {"value": state}


def row(name, shift):
    variant = Variant(Config(shift), steps=2, eval_every=1, num_seeds=3, rule=AtLeast(-9.0))
    return Row(
        id=f"mine/draws/{name}", claim="It runs.", method=name,
        make_learner=lambda config, steps: Learner(config.shift),
        metric=Metric("value", "value", percent=False), paper=Paper("none", words="none"),
        full=variant, quick=None, tiny=variant,
    )


ROWS = (row("low", 0.0), row("high", 2.0))
SYSTEM = System("mine", "Mine", "A test.", (Group("mine/draws", "Draws", "none", ROWS),))
'''


@pytest.fixture
def plugin(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN)
    return ["--plugin", str(path)]


def call(capsys, *arguments):
    """Returns exit code, standard output and error output."""
    with pytest.raises(SystemExit) as stopped:
        main(list(arguments))
    output = capsys.readouterr()
    return stopped.value.code or 0, output.out, output.err


def test_rows_of_a_plugin_go_the_way_of_all_rows(capsys, tmp_path, plugin):
    runs = ["--runs", str(tmp_path / "runs")]
    listed = json.loads(call(capsys, "list", "mine", *plugin, "--json")[1])
    assert [row["id"] for row in listed] == ["mine/draws/low", "mine/draws/high"]
    code, out, err = call(capsys, "run", "mine", *plugin, *runs, "--json")
    assert code == 0, err
    assert [line["verdict"] for line in json.loads(out)] == ["reproduced", "reproduced"]
    folders = sorted(path.parent.parent.name for path in tmp_path.rglob("record.json"))
    assert folders == ["high", "low"], "records land where all others do"
    [table] = json.loads(call(capsys, "table", "mine/*/high", *plugin, *runs, "--json")[1])
    assert table["ours"]["n"] == 3
    assert "shift" in call(capsys, "show", "mine/draws/low", *plugin, *runs)[1]
    code, out, err = call(capsys, "compare", "mine", *plugin, *runs, "--json")
    assert code == 0, err
    low, high = json.loads(out)["runs"]
    assert low["difference"] is None
    assert high["difference"] == pytest.approx(
        {"mean": 2.0, "low": 2.0, "high": 2.0, "pairs": 3, "paired": True}, abs=1e-6
    )
    page = tmp_path / "page.html"
    assert call(capsys, "report", *plugin, *runs, "-o", str(page))[0] == 0
    assert "mine/draws/high" in page.read_text()
    assert "Records of unknown rows" not in page.read_text()
    code, _, err = call(capsys, "run", "mine", *plugin, *runs)
    assert "compiling" not in err, "a finished run is not run again"


def test_without_its_plugin_a_row_is_unknown_and_its_record_stays(capsys, tmp_path, plugin):
    runs = ["--runs", str(tmp_path / "runs")]
    assert call(capsys, "run", "mine/draws/low", *plugin, *runs)[0] == 0
    assert call(capsys, "show", "mine/draws/low", *runs)[0] == 2
    assert call(capsys, "table", *runs)[0] == 0
    [record] = (tmp_path / "runs").rglob("record.json")
    code, _, err = call(capsys, "compare", str(record.parent), "ilc/synthetic/and-mask", *runs)
    assert code == 2
    assert "is a run of mine/draws/low, which is no known row; name its `--plugin`" in err


@pytest.mark.parametrize("command", ["list", "table", "report", "run", "show", "compare"])
def test_a_plugin_that_cannot_be_used_ends_the_command_and_loses_nothing(
    capsys, tmp_path, command, plugin
):
    runs = ["--runs", str(tmp_path / "runs")]
    (tmp_path / "broken.py").write_text("import nothing_of_that_name\n")
    what = ["mine/draws/low"] if command in ("run", "show", "compare") else []
    where = ["-o", str(tmp_path / "page.html")] if command == "report" else []
    place = [] if command == "list" else runs
    code, out, err = call(
        capsys, command, *what, *place, *where, *plugin, "--plugin", str(tmp_path / "broken.py")
    )
    assert code == 2
    assert out == ""
    assert err.startswith("recombine: the plugin ")
    assert "broken.py cannot be imported: ModuleNotFoundError" in err
    assert "broken.py, line 1" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.py", "mine.py"]


def test_a_clash_of_ids_is_bad_usage(capsys, tmp_path):
    path = tmp_path / "clash.py"
    path.write_text(PLUGIN.replace('id=f"mine/draws/{name}"', 'id="ilc/synthetic/baseline"'))
    code, out, err = call(capsys, "list", "--plugin", str(path))
    assert (code, out) == (2, "")
    assert "a row called 'ilc/synthetic/baseline', and there is one of that name already" in err


def test_a_broken_package_is_mentioned_and_the_command_goes_on(capsys, tmp_path, monkeypatch):
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[recombine.systems]\nbroken = no_such_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    code, out, err = call(capsys, "list", "me/meta", "--json")
    assert code == 0
    assert [row["id"] for row in json.loads(out)] == ["me/meta"]
    assert "the entry point broken = no_such_module cannot be imported" in err
