"""Every public name is documented, in its docstring and on a page of the API."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import recombine

ROOT = Path(__file__).parents[2]
NOT_ROOMS = ("recombine.__main__", "recombine.cli")
"""The command has a page of its own."""

API = "\n".join(path.read_text() for path in sorted((ROOT / "docs" / "api").glob("*.md")))
DIRECTIVES = set(re.findall(r"^::: (\S+)$", API, re.MULTILINE))
IN_WORDS = set(re.findall(r"^- `([\w.]+)`", API, re.MULTILINE))


def public_modules() -> Iterator[str]:
    yield "recombine"
    for found in pkgutil.walk_packages(recombine.__path__, "recombine."):
        parts = found.name.split(".")
        if found.name not in NOT_ROOMS and not any(part.startswith("_") for part in parts):
            yield found.name


def tree_of(module: str) -> ast.Module:
    source = importlib.import_module(module).__file__
    assert source is not None
    return ast.parse(Path(source).read_text())


def assigned_name(node: ast.stmt) -> str | None:
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def public_names(module: str) -> set[str]:
    """What a room re-exports as `X as X`, and what a module defines without an underscore."""
    tree = tree_of(module)
    names = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name
    }
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif name := assigned_name(node):
            names.add(name)
    return {name for name in names if not name.startswith("_")}


def has_constant_docstring(module: str, name: str) -> bool:
    """Looks for a string below the assignment, in the file where the name is defined."""
    tree = tree_of(module)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                if alias.asname == alias.name == name:
                    return has_constant_docstring(node.module, name)
    for node, below in zip(tree.body, tree.body[1:], strict=False):
        if assigned_name(node) == name:
            return isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
    return False


def is_code(value: Any) -> bool:
    return inspect.isclass(value) or inspect.isroutine(value) or hasattr(value, "__wrapped__")


NAMES = [(module, name) for module in public_modules() for name in sorted(public_names(module))]


def test_the_walk_finds_the_rooms():
    rooms = {module for module, _ in NAMES}
    assert {"recombine", "recombine.training", "recombine.tasks.spirals"} <= rooms
    assert ("recombine.training", "fit") in NAMES
    assert ("recombine", "InvariantClassifier") in NAMES


@pytest.mark.parametrize("module", sorted(public_modules()))
def test_every_room_says_what_it_holds(module: str):
    assert importlib.import_module(module).__doc__


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_every_public_name_has_a_docstring(module: str, name: str):
    value = getattr(importlib.import_module(module), name)
    if is_code(value) and not hasattr(value, "__origin__"):
        assert inspect.getdoc(value), f"{module}.{name} has no docstring"
    else:
        described = has_constant_docstring(module, name) or f"{module}.{name}" in IN_WORDS
        assert described, (
            f"{module}.{name} needs a docstring below it, or a line that starts with "
            f"- `{module}.{name}` on its page in docs/api"
        )


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_every_public_name_has_a_place_in_the_api(module: str, name: str):
    assert f"{module}.{name}" in DIRECTIVES | IN_WORDS, (
        f"add `::: {module}.{name}` to a page in docs/api"
    )


def test_the_api_has_no_name_that_is_gone():
    known = {f"{module}.{name}" for module, name in NAMES} | set(public_modules())
    assert DIRECTIVES - known == set()
    assert IN_WORDS - known == set()
