from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.tasks.drawing import draw_ordered, draw_rows, first_distinct, first_true, skip_taken


def test_first_distinct_skips_what_was_seen():
    codes = jnp.array([5, 5, 2, 5, 7, 2, 9])
    assert first_distinct(codes, 4).tolist() == [0, 2, 4, 6]


def test_first_true_pads_with_the_first_position():
    accepted = jnp.array([False, True, False, True])
    assert first_true(accepted, 1).tolist() == [1]
    assert first_true(accepted, 3).tolist() == [1, 3, 0]


@pytest.mark.parametrize(("size", "count"), [(20_910, 40), (10_292, 100), (50, 40), (4, 2)])
def test_rows_are_distinct_and_cover_the_range(size, count):
    draw = jax.jit(jax.vmap(lambda key: draw_rows(key, size, count)))
    drawn = np.asarray(draw(jr.split(jr.key(0), 500)))
    assert drawn.shape == (500, count)
    assert all(len(set(row)) == count for row in drawn.tolist())
    assert drawn.min() >= 0
    assert drawn.max() < size
    assert abs(drawn.mean() / (size - 1) - 0.5) < 0.02


def test_first_and_later_rows_are_alike():
    # Two of nine by the path that skips duplicates: 72 ordered pairs, all equally likely.
    draw = jax.jit(jax.vmap(lambda key: draw_rows(key, 9, 2)))
    drawn = np.asarray(draw(jr.split(jr.key(1), 72_000)))
    counts = np.bincount(9 * drawn[:, 0] + drawn[:, 1], minlength=81).reshape(9, 9)
    assert np.all(np.diag(counts) == 0)
    others = counts[~np.eye(9, dtype=bool)]
    assert np.sum((others - 1000) ** 2 / 1000) < 130  # chi-square, 71 degrees of freedom


def test_ordered_draws_are_uniform():
    draw = jax.jit(jax.vmap(partial(draw_ordered, size=5, count=3)))
    drawn = np.asarray(draw(jr.split(jr.key(2), 60_000)))
    rows, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(rows) == 60
    assert all(len(set(row)) == 3 for row in rows.tolist())
    assert np.sum((counts - 1000) ** 2 / 1000) < 110  # chi-square, 59 degrees of freedom


def test_skip_taken_counts_only_what_is_left():
    taken = jnp.array([0, 2, 3])
    assert [int(skip_taken(jnp.array(rank), taken)) for rank in range(3)] == [1, 4, 5]


def test_refuses_to_draw_more_than_there_are():
    with pytest.raises(ValueError, match="`count` = 5"):
        draw_rows(jr.key(0), 4, 5)
