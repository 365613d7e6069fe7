import numpy as np
import pytest

from scripts import load_script


@pytest.fixture(scope="module")
def example():
    return load_script("examples/own_tasks.py")


def test_unseen_combinations_are_made_of_parts_that_are_known(example):
    known, unseen = example.split_combinations(np.random.default_rng(1))
    assert len(known) + len(unseen) == 41
    assert len(unseen) == 10
    assert not set(known) & set(unseen)
    assert {part for parts in known for part in parts} == set(range(6))
    task = example.Workshop(np.random.default_rng(0)).sample_task((0, 3))
    assert task.x_support.shape[1:] == (8,)
    assert task.y_query.shape == (32, 4)


@pytest.mark.slow
def test_the_example_shows_modules_ahead_on_unseen_combinations(example):
    modular, anil = example.compare(1, learners=("hypernetwork", "anil")).values()
    assert modular["unseen combinations"] > anil["unseen combinations"] + 0.05
    assert modular["unseen combinations"] > 0.75
