import pytest

from scripts import load_script


@pytest.fixture(scope="module")
def example():
    return load_script("examples/own_trajectories.py")


@pytest.mark.usefixtures("quick_compilation")
def test_the_example_runs_and_skipping_spares_evaluations(example):
    skipping, fixed = example.compare(1, steps=20, methods=("skipping", "every frame")).values()
    assert skipping.depth < fixed.depth
    assert skipping.training_evaluations < fixed.training_evaluations


@pytest.mark.slow
def test_the_example_shows_skipping_right_where_fixed_steps_guess(example):
    skipping, fixed = example.compare(1, steps=700, methods=("skipping", "every frame")).values()
    assert skipping.accuracy > 0.6
    assert skipping.accuracy > fixed.accuracy + 0.1
    assert skipping.depth < fixed.depth / 2
    assert skipping.training_evaluations < fixed.training_evaluations / 2
