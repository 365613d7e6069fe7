"""Which room may import which."""

import ast
from pathlib import Path

import recombine

SOURCE = Path(recombine.__file__).parent

ALLOWED = {
    "tasks": set(),
    "methods": set(),
    "training": set(),
    "results": set(),
    "experiments": {"tasks", "methods"},
    "report": {"experiments", "results"},
    "engines": {"experiments", "training", "results"},
    "tuning": {"experiments", "training", "results"},
    "estimators": {"methods", "training", "results"},
    "cli": {"experiments", "training", "results", "report", "engines", "tuning"},
}
"""The rooms that a room may open the door to; each may always use itself."""


def imported_rooms(path: Path) -> set[str]:
    """Returns the rooms that a file imports, at its top or anywhere inside."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are written in full"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    ours = [name.split(".") for name in names if name.split(".")[0] == "recombine"]
    return {parts[1] for parts in ours if len(parts) > 1 and (SOURCE / parts[1]).is_dir()}


def test_every_room_is_in_the_plan():
    rooms = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert rooms == set(ALLOWED)


def test_imports_point_one_way():
    wrong = []
    for room, allowed in ALLOWED.items():
        for path in (SOURCE / room).rglob("*.py"):
            wrong += [
                f"{path.relative_to(SOURCE)} imports {other}"
                for other in imported_rooms(path) - allowed - {room}
            ]
    assert wrong == []


def test_nothing_is_pickled():
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
                assert not {"pickle", "cloudpickle", "dill", "joblib"} & set(names), path
