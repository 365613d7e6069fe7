"""Short answers take short loops, and nothing but the time changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from recombine.methods.seq2seq._shortening import only_needed_steps

LONGEST = 14


def running_sum(x, steps):
    """Adds up the items' steps one after the other: each depends on those before it."""
    _, sums = jax.lax.scan(lambda total, now: (total + now,) * 2, 0.0 * x[:, 0], x[:, :steps].T)
    return sums.T[..., None]


def shortened(x, lengths):
    return only_needed_steps(lambda steps: running_sum(x, steps), lengths, LONGEST)[..., 0]


x = 2 + jnp.sin(jnp.arange(3 * LONGEST, dtype=jnp.float32)).reshape(3, LONGEST)


@pytest.mark.parametrize("longest_answer", [1, 4, 5, 9, 13, 14])
def test_all_steps_that_matter_are_there(longest_answer):
    lengths = jnp.array([1, longest_answer, 1])
    found = jax.jit(shortened)(x, lengths)
    wanted = running_sum(x, LONGEST)[..., 0]
    np.testing.assert_allclose(found[:, :longest_answer], wanted[:, :longest_answer], rtol=1e-6)


def test_no_more_steps_are_taken_than_the_next_length():
    taken = np.count_nonzero(jax.jit(shortened)(x, jnp.array([2, 5, 1])), axis=1)
    assert taken.max() == 6, "of 4, 6, 8, 10 and 14 steps, six are enough for five"


def test_gradients_are_those_of_the_long_loop():
    lengths = jnp.array([2, 5, 1])
    is_real = jnp.arange(LONGEST)[None] < lengths[:, None]

    def loss(compute):
        return lambda x: jnp.sum(jnp.where(is_real, jnp.square(compute(x)), 0.0))

    short = jax.jit(jax.grad(loss(lambda x: shortened(x, lengths))))(x)
    long = jax.jit(jax.grad(loss(lambda x: running_sum(x, LONGEST)[..., 0])))(x)
    np.testing.assert_allclose(short, long, rtol=1e-6)


def test_seeds_that_run_together_take_one_decision():
    many, lengths = jnp.stack([x, x]), jnp.array([[2, 3, 1], [9, 1, 1]])
    taken = np.count_nonzero(jax.jit(jax.vmap(shortened))(many, lengths), axis=-1)
    assert taken.max() == 10
    assert taken.min() == 10, "the seed with short answers waits for the other"
    text = str(jax.make_jaxpr(jax.vmap(shortened))(many, lengths))
    assert "cond[" in text, "a choice, not a mask over all lengths"
