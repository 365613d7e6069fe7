import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "examples" / "own_language.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("own_language", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.usefixtures("quick_compilation")
def test_the_example_runs_and_new_words_cannot_be_guessed(example):
    _, scores = example.compare(random_state=1, steps=5, verbose=False)
    for row in scores.values():
        assert row["guessed"] < 0.2


@pytest.mark.slow
def test_the_example_shows_that_new_words_are_learned_from_what_is_shown(example):
    _, scores = example.compare(random_state=1, steps=1500, verbose=False)
    for row in scores.values():
        assert row["taught"] > 0.7
        assert row["taught another language"] < 0.2
        assert row["guessed"] < 0.2
