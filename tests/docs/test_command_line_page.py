"""The command line page says what the commands do."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from recombine.cli import main
from recombine.experiments import find_row
from recombine.results import Provenance, Record, RunFolder

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
ROW = "ilc/synthetic/baseline"
TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "object": dict,
    "list": list,
    "null": type(None),
}


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    with pytest.raises(SystemExit) as stopped:
        main([*arguments, "--json"])
    assert stopped.value.code == 0
    return json.loads(capsys.readouterr().out)


def documented(shape: str) -> dict[str, list[str]]:
    """Returns the keys of a shape's table, with the types that each may have."""
    section = re.split("```json|<!-- shape:", PAGE.split(f"<!-- shape: {shape} -->")[1])[0]
    rows = re.findall(r"^\| `([\w.]+)` \| ([^|]+) \|", section, re.MULTILINE)
    return {key: kinds.strip().split(" or ") for key, kinds in rows}


def example(shape: str) -> Any:
    return json.loads(PAGE.split(f"<!-- shape: {shape} -->")[1].split("```json")[1].split("```")[0])


def lookup(data: Any, key: str) -> Any:
    for part in key.split("."):
        data = data[part]
    return data


def is_of(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, TYPES[kind])


def check(data: dict[str, Any], shape: dict[str, list[str]]) -> None:
    assert set(data) == {key for key in shape if "." not in key}
    for key, kinds in shape.items():
        value = lookup(data, key)
        assert any(is_of(value, kind) for kind in kinds), f"{key} is {value!r}, not {kinds}"


def write_run(runs: Path, row: str, final: dict[str, tuple[float, ...]]) -> None:
    variant = find_row(row).variant("quick")
    record = Record(
        row=row,
        variant="quick",
        changed={},
        config=json.loads(json.dumps(dataclasses.asdict(variant.config))),
        steps=variant.steps,
        eval_every=1,
        seeds=(0, 1),
        status="done",
        started="2024-01-01T00:00:00Z",
        provenance=Provenance("a device", 1),
        seconds={"compile": 1.0, "run": 2.0},
        final=final,
    )
    folder = RunFolder.of(runs, row=row, variant="quick", run_hash=record.hash)
    folder.path.mkdir(parents=True)
    folder.write(record)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """One finished run of `ROW`, and nothing of the other rows."""
    write_run(tmp_path, ROW, {"test_accuracy": (0.5, 0.5), "train_accuracy": (1.0, 1.0)})
    return tmp_path


def test_list_has_the_documented_shape(capsys: pytest.CaptureFixture[str]):
    for row in run_json(capsys, "list"):
        check(row, documented("list"))


def test_show_has_the_documented_shape(runs: Path, capsys: pytest.CaptureFixture[str]):
    shown = run_json(capsys, "show", ROW, "--runs", str(runs))
    check(shown, documented("list") | documented("show, on top of list"))
    assert [run["verdict"] for run in shown["runs"]] == ["not judged"]
    check(shown["runs"][0], documented("table"))
    assert {"steps", "eval_every", "seeds"} <= set(shown["settings"]["full"])


def test_table_has_the_documented_shape(runs: Path, capsys: pytest.CaptureFixture[str]):
    lines = run_json(capsys, "table", "--runs", str(runs))
    for line in lines:
        check(line, documented("table"))
    ours = {line["id"]: line["ours"] for line in lines}
    assert ours[ROW] == {"mean": 0.5, "sd": 0.0, "n": 2}
    assert ours["ilc/synthetic/and-mask"] is None


def test_compare_has_the_documented_shape(runs: Path, capsys: pytest.CaptureFixture[str]):
    other = "ilc/synthetic/and-mask"
    write_run(runs, other, {"test_accuracy": (1.0, 1.0)})
    found = run_json(capsys, "compare", other, ROW, "--runs", str(runs))
    check(found, documented("compare"))
    for run in found["runs"]:
        check(run, documented("compared run"))
    shown = example("compare")
    for mine, theirs in zip(found["runs"], shown["runs"], strict=True):
        assert re.fullmatch(r"[0-9a-f]{12}", theirs["hash"])
        mine["hash"] = theirs["hash"]  # it changes with every new setting of the rows
    assert found == shown


def test_doctor_has_the_documented_shape(capsys: pytest.CaptureFixture[str]):
    found = run_json(capsys, "doctor")
    check(found, documented("doctor"))
    check(example("doctor"), documented("doctor"))
    assert found["extras"].keys() == example("doctor")["extras"].keys()
    assert found["packages"].keys() == example("doctor")["packages"].keys()
    assert found["devices"][0].keys() == example("doctor")["devices"][0].keys()


def test_the_examples_are_what_the_commands_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    nothing = ("--runs", str(tmp_path / "none"))
    assert run_json(capsys, "list", ROW) == example("list")
    assert run_json(capsys, "show", ROW, *nothing) == example("show, on top of list")
    assert run_json(capsys, "table", ROW, *nothing) == example("table")


@pytest.mark.parametrize("arguments", [["show", "ilc/nothing"], ["list", "--no-such-option"]])
def test_bad_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2


def test_every_command_and_option_is_on_the_page():
    from typer.main import get_command

    from recombine.cli._app import app

    commands: dict[str, Any] = get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]
    for name, command in commands.items():
        assert re.search(rf"^\| `{name}\b", PAGE, re.MULTILINE), f"{name} is not on the page"
        for option in (opt for param in command.params for opt in param.opts if opt[0] == "-"):
            assert f"`{option}" in PAGE, f"{option} of {name} is not on the page"


def test_every_environment_variable_is_on_the_page():
    source = Path(__file__).parents[2] / "src"
    code = "\n".join(path.read_text() for path in source.rglob("*.py"))
    for variable in set(re.findall(r"\bRECOMBINE_[A-Z]+\b", code)):
        assert f"`{variable}`" in PAGE
