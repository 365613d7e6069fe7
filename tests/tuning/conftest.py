"""The toy rows, for every test of a search."""

from pathlib import Path

import pytest

from recombine.experiments import Row, find_row, load_systems
from recombine.tuning import StudyRequest

PLUGIN = str(Path(__file__).with_name("toy_rows.py"))


@pytest.fixture
def plugin() -> str:
    return PLUGIN


def toy_row(name: str) -> Row:
    return find_row(f"toy/{name}", load_systems([PLUGIN]))


@pytest.fixture
def make_request():
    """Returns a function that asks for a search of a toy row."""

    def make(name: str = "walk", variant: str = "tiny", **settings) -> StudyRequest:
        settings = {"trials": 4, "sampler": "random", **settings}
        return StudyRequest.of(toy_row(name), variant, plugins=(PLUGIN,), **settings)

    return make
