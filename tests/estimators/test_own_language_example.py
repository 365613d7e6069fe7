import pytest

from scripts import load_script


@pytest.fixture(scope="module")
def example():
    return load_script("examples/own_language.py")


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
