"""The code in the docstrings, on the pages and in the README runs."""

import ast
import doctest
import importlib
import pkgutil
import re
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

import recombine

pytestmark = pytest.mark.usefixtures("quick_compilation")

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(python|pycon|text)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)

PAGES = {
    "README": ["README.md"],
    "start": ["docs/index.md"],
    "concepts": ["docs/concepts.md"],
    "estimators": ["docs/estimators.md"],
    "agreement": ["docs/systems/agreement.md"],
    "seq2seq": ["docs/systems/seq2seq.md"],
    "hypernetworks": ["docs/systems/hypernetworks.md"],
    "skipping": ["docs/systems/skipping.md"],
    "distillation": ["docs/systems/distillation.md"],
    "compare": ["docs/compare.md"],
    "searching": ["docs/searching.md"],
    "consistency": ["docs/api/methods-consistency.md"],
    "extend": ["docs/extend/method.md", "docs/extend/task.md", "docs/extend/row.md"],
}
"""Pages that are read one after the other share their names."""


class Block(NamedTuple):
    page: str
    line: int
    kind: str
    code: str


def blocks_of(pages: list[str]) -> list[Block]:
    found = []
    for page in pages:
        text = (ROOT / page).read_text()
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(page, line, match[1], match[2]))
    return found


def run_doctest(block: Block, names: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(
        block.code, names, f"{block.page}:{block.line}", block.page, block.line
    )
    assert test.examples
    runner = doctest.DocTestRunner(verbose=False)
    report: list[str] = []
    runner.run(test, out=report.append, clear_globs=False)
    assert not report, "".join(report)
    names.update(test.globs)


def run_script(block: Block, names: dict[str, Any]) -> None:
    tree = ast.parse(block.code)
    ast.increment_lineno(tree, block.line)
    exec(compile(tree, str(ROOT / block.page), "exec"), names)


def readers_own_table() -> dict[str, Any]:
    """What the README's reader brings along."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = (X[:, 0] > 0).astype(int)
    return {"X": X, "y": y, "site": np.repeat(["a", "b", "c"], 20), "X_new": X[:5]}


LONG_PAGE = "estimators"  # trains one of every kind, for a minute; so do the pages of the systems


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param(pages, id=name, marks=pytest.mark.slow if name == LONG_PAGE else ())
        for name, pages in PAGES.items()
    ],
)
def test_the_code_of_the_pages_runs(
    pages: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__page__"}
    if pages == ["README.md"]:
        names |= readers_own_table()
    printed = ""
    for block in blocks_of(pages):
        if block.kind == "pycon":
            run_doctest(block, names)
        elif block.kind == "python":
            run_script(block, names)
            printed = capsys.readouterr().out
        elif printed:  # the output of the script above
            assert block.code == printed, f"{block.page}:{block.line}"
            printed = ""
    assert not printed, "a script prints what its page does not show"


def test_no_page_with_code_is_left_out():
    run = {page for pages in PAGES.values() for page in pages}
    texts = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    with_code = {
        path.relative_to(ROOT).as_posix()
        for path in texts
        if any(kind != "text" for kind, _ in FENCE.findall(path.read_text()))
    }
    assert with_code == run


def modules() -> list[str]:
    found = pkgutil.walk_packages(recombine.__path__, "recombine.")
    return ["recombine", *(module.name for module in found if module.name != "recombine.__main__")]


LONG_EXAMPLE = "recombine.estimators._meta_seq2seq"  # its page trains one, too


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n == LONG_EXAMPLE else ()) for n in modules()],
)
def test_the_examples_of_docstrings_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    module: ModuleType = importlib.import_module(name)
    runner = doctest.DocTestRunner(verbose=False)
    report: list[str] = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        runner.run(test, out=report.append)
    assert not report, "".join(report)
