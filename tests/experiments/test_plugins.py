"""Systems from outside the package."""

import sys
from pathlib import Path

import pytest

from recombine.experiments import (
    SYSTEMS,
    PluginError,
    PluginWarning,
    find_row,
    load_systems,
    match_rows,
)

PLUGIN = """
from dataclasses import dataclass
from recombine.experiments import AtLeast, Group, Metric, Paper, Row, System, Variant

@dataclass(frozen=True)
class Config:
    rate: float = 0.1

def row(id):
    variant = Variant(Config(), steps=2, eval_every=1, num_seeds=2, rule=AtLeast(0.0))
    return Row(
        id=id, claim="It runs.", method="mine", make_learner=lambda config, steps: None,
        metric=Metric("value", "value", percent=False), paper=Paper("none", words="none"),
        full=variant, quick=None, tiny=variant,
    )

SYSTEM = System("{system}", "Mine", "A test.", (Group("{group}", "G", "none", ({rows}),),))
"""


def write_plugin(path: Path, *, system="mine", group="mine/g", rows=("mine/g/a",), more="") -> Path:
    listed = "".join(f"row({row!r})," for row in rows)
    text = PLUGIN.replace("{system}", system).replace("{group}", group)
    path.write_text(text.replace("{rows}", listed) + more)
    return path


def test_without_plugins_the_systems_are_ours():
    assert load_systems() == SYSTEMS


def test_a_file_adds_its_rows_after_ours_and_ours_stay(tmp_path):
    before = dict(SYSTEMS)
    systems = load_systems([str(write_plugin(tmp_path / "my-method.py"))])
    assert list(systems) == [*SYSTEMS, "mine"]
    assert before == SYSTEMS
    assert find_row("mine/g/a", systems).method == "mine"
    assert [row.id for row in match_rows("mine", systems)] == ["mine/g/a"]
    with pytest.raises(LookupError):
        find_row("mine/g/a")


def test_a_file_that_is_named_twice_is_imported_once(tmp_path, capsys):
    path = write_plugin(tmp_path / "twice.py", more="\nprint('imported')\n")
    again = tmp_path / "." / "twice.py"
    systems = load_systems([str(path), str(path), str(again)])
    assert load_systems([str(path)])["mine"] is systems["mine"]
    assert capsys.readouterr().out == "imported\n"


def test_files_of_one_name_in_two_folders_are_two_plugins(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        write_plugin(
            tmp_path / name / "method.py", system=name, group=f"{name}/g", rows=[f"{name}/g/x"]
        )
    systems = load_systems([str(tmp_path / name / "method.py") for name in "ab"])
    assert list(systems)[-2:] == ["a", "b"]


def test_a_module_can_be_named_too(tmp_path, monkeypatch):
    write_plugin(tmp_path / "my_own_module.py")
    monkeypatch.syspath_prepend(tmp_path)
    assert "mine" in load_systems(["my_own_module"])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("import nothing_of_that_name", r"ModuleNotFoundError: .*bad.py, line \d+"),
        ("1 / 0", r"cannot be imported: ZeroDivisionError: .*\(bad.py, line \d+\)"),
        ("def (", "cannot be imported: SyntaxError"),
        ("import sys; sys.exit(3)", "cannot be imported: SystemExit"),
        ("del SYSTEM", "has no system: assign a `recombine.experiments.System`.* `SYSTEM`"),
        ("SYSTEM = 7", "of type int; a `recombine.experiments.System` was expected"),
        ("SYSTEM = System('mine', 'Mine', '', ())", "has no rows"),
        (
            "SYSTEM = System('mine', 'Mine', '', (Group('mine/g', '', '', (7,)),))",
            "a row of type int; a `Row`",
        ),
    ],
)
def test_a_plugin_that_cannot_be_used_says_why(tmp_path, more, words):
    path = write_plugin(tmp_path / "bad.py", more=f"\n{more}\n")
    modules = set(sys.modules)
    with pytest.raises(PluginError, match=words) as caught:
        load_systems([str(path)])
    assert str(path) in str(caught.value)
    if "cannot be imported" in words:
        assert not {name for name in set(sys.modules) - modules if "bad" in name}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"system": "ilc"}, "a system called 'ilc'"),
        ({"group": "ilc/synthetic"}, "a group called 'ilc/synthetic'"),
        ({"rows": ["ilc/synthetic/and-mask"]}, "a row called 'ilc/synthetic/and-mask'"),
        ({"rows": ["mine/g/a", "mine/g/a"]}, "a row called 'mine/g/a'"),
    ],
)
def test_an_id_that_is_taken_is_refused(tmp_path, fields, words):
    path = write_plugin(tmp_path / "clash.py", **fields)
    with pytest.raises(PluginError, match=f"{words}, and there is one of that name already"):
        load_systems([str(path)])


def test_two_plugins_may_not_share_an_id(tmp_path):
    first, second = write_plugin(tmp_path / "one.py"), write_plugin(tmp_path / "two.py")
    with pytest.raises(PluginError, match=r"two\.py has a system called 'mine'"):
        load_systems([str(first), str(second)])


@pytest.mark.parametrize("row", ["", "alone", "/abs/x", "mine/../x", "mine//x", "mine/a b", "m/x/"])
def test_an_id_that_could_leave_the_runs_folder_is_refused(tmp_path, row):
    with pytest.raises(PluginError, match="an id is written like"):
        load_systems([str(write_plugin(tmp_path / "ids.py", rows=[row]))])


def test_what_is_not_there_is_named(tmp_path, monkeypatch):
    with pytest.raises(PluginError, match="is no file"):
        load_systems([str(tmp_path / "none.py")])
    with pytest.raises(PluginError, match="installed or on PYTHONPATH"):
        load_systems(["no_module_of_that_name"])
    write_plugin(tmp_path / "here.py")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PluginError, match=r"for the file in this folder write here\.py"):
        load_systems(["here"])


def install(folder: Path, name: str, value: str) -> None:
    """Makes a folder on the path look like an installed package with an entry point."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[recombine.systems]\n{name} = {value}\n")


@pytest.mark.parametrize("value", ["installed_method", "installed_method:SYSTEM"])
def test_installed_packages_offer_their_systems(tmp_path, monkeypatch, value):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "installed_method", raising=False)
    write_plugin(tmp_path / "installed_method.py")
    install(tmp_path, "installed", value)
    assert "mine" in load_systems()
    assert "mine" in load_systems(["installed_method"]), "installed and named is named once"


def test_a_broken_package_is_named_and_does_not_stop_the_others(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    write_plugin(tmp_path / "sound_method.py")
    install(tmp_path, "sound", "sound_method")
    install(tmp_path, "broken", "no_module_of_that_name")
    with pytest.warns(PluginWarning, match=r"broken = no_module.* cannot be imported.*passed over"):
        systems = load_systems()
    assert set(systems) == {*SYSTEMS, "mine"}
