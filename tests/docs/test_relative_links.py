"""Relative links lead somewhere; the site's own links are checked by its strict build."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in kept}


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(name: str):
    for target, anchor in LINK.findall(FENCED.sub("", (ROOT / name).read_text())):
        path = ROOT / target if target else ROOT / name
        assert path.exists(), f"{name} links to {target}, which is not there"
        if anchor:
            assert anchor in anchors(path.read_text()), f"{target} has no heading #{anchor}"


def test_the_readme_names_the_two_commands():
    text = (ROOT / "README.md").read_text()
    assert "$ make demo\n$ make test\n" in text


@pytest.mark.parametrize("path", re.findall(r"`(examples/\S+?)`", (ROOT / "README.md").read_text()))
def test_examples_that_the_readme_names_exist(path: str):
    assert (ROOT / path).exists()


def test_every_room_is_in_the_readme():
    text = (ROOT / "README.md").read_text()
    rooms = [path.parent for path in (ROOT / "src" / "recombine").glob("*/__init__.py")]
    assert rooms
    assert [room.name for room in rooms if f"  {room.name}/ " not in text] == []
