"""CITATION.cff can be read, and agrees with the package."""

from pathlib import Path
from typing import Any

import pytest
import yaml  # comes with mkdocs

import recombine

FILE = Path(__file__).parents[2] / "CITATION.cff"
REFERENCE_TYPES = {"thesis", "conference-paper", "article"}


@pytest.fixture(scope="module")
def citation() -> dict[str, Any]:
    return yaml.safe_load(FILE.read_text())


def test_it_cites_this_version_of_the_software(citation: dict[str, Any]):
    assert citation["cff-version"] == "1.2.0"
    assert citation["type"] == "software"
    assert str(citation["version"]) == recombine.__version__
    assert citation["license"] == "Apache-2.0"
    assert citation["message"]
    assert citation["title"]


def test_every_work_has_a_type_a_title_and_named_authors(citation: dict[str, Any]):
    for work in [citation, *citation["references"]]:
        assert work["title"]
        assert work["authors"]
        assert all(("name" in author) != ("family-names" in author) for author in work["authors"])
    assert {work["type"] for work in citation["references"]} <= REFERENCE_TYPES
