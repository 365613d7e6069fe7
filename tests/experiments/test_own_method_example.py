"""The example of a method from outside the package."""

import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.engines import RunRequest, run_row
from recombine.experiments import find_row, load_systems

PATH = Path(__file__).parents[2] / "examples" / "own_method.py"
PAGE = Path(__file__).parents[2] / "docs" / "compare.md"


@pytest.fixture(scope="module")
def example():
    [row] = load_systems([str(PATH)])["own"].rows
    return sys.modules[row.make_learner.__module__]


def test_the_trimmed_mean_lies_between_the_mean_and_the_median(example):
    grads = jnp.array([[1.0, -8.0], [2.0, 0.0], [3.0, 1.0], [100.0, 2.0]])

    def joined(trim):
        rule = example.trimmed_mean(trim)
        return rule.update(grads, rule.init(grads[0]))[0].tolist()

    assert joined(0.0) == pytest.approx([26.5, -1.25])
    assert joined(0.25) == joined(0.5) == [2.5, 0.5]
    assert example.trimmed_mean(0.25) is example.trimmed_mean(0.25)


def test_a_seed_has_the_data_and_the_network_of_our_rows(example):
    ours = find_row("ilc/synthetic/and-mask")
    own = example.TRIMMED
    learners = [row.make_learner(row.tiny.config, row.tiny.steps) for row in (own, ours)]
    assert type(learners[0]) is type(learners[1]), "so that seeds become keys in the same way"
    for part in (lambda learner: learner.source.draw(jr.key(3)), lambda x: x.network(jr.key(4))):
        leaves = [jax.tree.leaves(eqx.filter(part(one), eqx.is_array)) for one in learners]
        for one, other in zip(*leaves, strict=True):
            assert np.array_equal(one, other)


def test_the_page_shows_the_file_as_it_is():
    code = PATH.read_text().partition('"""\n')[2].partition('"""\n')[2]
    page = PAGE.read_text()
    pieces = code.split("\n\n\n")
    assert len(pieces) > 4
    for piece in pieces:
        assert piece.strip() in page


@pytest.mark.slow
def test_the_quick_variant_shows_what_the_page_says(example, tmp_path):
    record = run_row(RunRequest.of(example.TRIMMED, "quick"), tmp_path, progress=False)
    assert record.values("test_accuracy").max() < 0.6
    assert record.values("train_accuracy").min() > 0.7
