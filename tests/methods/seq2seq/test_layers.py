import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.seq2seq import Linear, Numerics, dropout, embed


@pytest.mark.parametrize("rate", [0.5, 0.2])
def test_dropout_zeroes_at_its_rate_and_keeps_the_mean(rate):
    x = jnp.ones((101, 211))
    dropped = np.asarray(jax.jit(lambda key: dropout(x, rate, key))(jr.key(0)))
    assert set(np.unique(dropped)) == {0.0, np.float32(1 / (1 - rate))}
    assert abs(np.mean(dropped == 0) - rate) < 0.02
    columns = np.mean(dropped == 0, axis=0)  # no pattern along an axis
    assert columns.std() < 1.5 * np.sqrt(rate * (1 - rate) / 101)


def test_dropout_differs_between_keys_and_is_off_without_one():
    x = jnp.arange(64.0)
    assert jnp.any(dropout(x, 0.5, jr.key(0)) != dropout(x, 0.5, jr.key(1)))
    assert jnp.all(dropout(x, 0.5, None) == x)
    assert jnp.all(dropout(x, 0.0, jr.key(0)) == x)


def test_embedding_is_a_lookup_with_its_gradient():
    table = jr.normal(jr.key(0), (5, 3))
    tokens = jnp.array([[1, 4], [1, 0]])
    np.testing.assert_array_equal(embed(tokens, table), table[tokens])
    grad = jax.grad(lambda table: embed(tokens, table).sum())(table)
    np.testing.assert_array_equal(grad[:, 0], [1, 2, 0, 0, 1])


def test_linear_maps_the_last_axis():
    layer = Linear(3, 2, key=jr.key(0))
    x = jr.normal(jr.key(1), (4, 5, 3))
    wanted = np.asarray(x) @ np.asarray(layer.weight) + np.asarray(layer.bias)
    np.testing.assert_allclose(layer(x, Numerics()), wanted, atol=1e-6)
    bound = 1 / np.sqrt(3)
    assert np.all(np.abs(layer.weight) <= bound)
