import importlib.util
from pathlib import Path

import pytest

PATH = Path(__file__).parents[2] / "examples" / "own_trajectories.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("own_trajectories", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
