from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.seq2seq import LSTM, Numerics


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def run_plainly(layer, x, lengths, direction, hidden, cell):
    """One sequence at a time, one step at a time, real steps only."""
    w_in, w_hid = layer.input_weight[direction], layer.hidden_weight[direction]
    bias = layer.input_bias[direction] + layer.hidden_bias[direction]
    steps, items, _ = x.shape
    outputs = np.zeros((steps, items, layer.size))
    last = np.zeros((items, layer.size)), np.zeros((items, layer.size))
    for item in range(items):
        h, c = np.array(hidden[item], np.float64), np.array(cell[item], np.float64)
        order = range(lengths[item]) if direction == 0 else reversed(range(lengths[item]))
        for t in order:
            i, f, g, o = np.split(x[t, item] @ w_in + h @ w_hid + bias, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            outputs[t, item] = h
        last[0][item], last[1][item] = h, c
    return outputs, last


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("directions", [1, 2])
def test_layers_equal_a_plain_loop(directions, masked):
    layer_key, x_key, h_key, c_key = jr.split(jr.key(0), 4)
    layer = LSTM(3, 4, directions, key=layer_key)
    x = jr.normal(x_key, (6, 5, 3))
    start = np.zeros((directions, 5, 4)), np.zeros((directions, 5, 4))
    lengths = np.array([6, 1, 0, 3, 5])
    if not masked:
        start = jr.normal(h_key, (directions, 5, 4)), jr.normal(c_key, (directions, 5, 4))
        lengths = np.array([6] * 5)

    @eqx.filter_jit
    def run(layer, x, start, lengths):
        arguments = (None, lengths) if masked else (start, None)
        return layer.run(layer.gates(x, Numerics()), *arguments, Numerics())

    outputs, (hidden, cell) = run(layer, x, start, jnp.asarray(lengths))
    plain = jax.tree.map(np.asarray, layer)
    for d in range(directions):
        wanted, last = run_plainly(plain, np.asarray(x), lengths, d, start[0][d], start[1][d])
        np.testing.assert_allclose(outputs[:, d], wanted, atol=1e-5)
        np.testing.assert_allclose(hidden[d], last[0], atol=1e-5)
        np.testing.assert_allclose(cell[d], last[1], atol=1e-5)


def loop(layer, x, start, lengths):
    """The same recurrence for JAX to differentiate, without any loop of ours."""
    per_direction = []
    for d in range(x.shape[0]):
        state = [start[0][d], start[1][d]]
        outputs = [jnp.zeros(())] * x.shape[1]
        order = range(x.shape[1]) if d == 0 else reversed(range(x.shape[1]))
        for t in order:
            i, f, g, o = jnp.split(x[d, t] + state[0] @ layer.hidden_weight[d], 4, axis=-1)
            cell = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
            new = [jax.nn.sigmoid(o) * jnp.tanh(cell), cell]
            real = (t < lengths)[:, None]
            state = [jnp.where(real, a, b) for a, b in zip(new, state, strict=True)]
            outputs[t] = jnp.where(real, state[0], 0.0)
        per_direction.append((jnp.stack(outputs), *state))
    return [jnp.stack(part) for part in zip(*per_direction, strict=True)]


@pytest.mark.parametrize("masked", [True, False])
def test_the_written_gradient_is_the_derivative(masked):
    keys = jr.split(jr.key(1), 7)
    layer = LSTM(3, 4, 2, key=keys[0])
    gates = jr.normal(keys[1], (5, 2, 3, 16))
    start = jr.normal(keys[2], (2, 3, 4)), jr.normal(keys[3], (2, 3, 4))
    if masked:
        start = jax.tree.map(jnp.zeros_like, start)
    lengths = jnp.array([5, 2, 4]) if masked else jnp.array([5, 5, 5])
    weights = [
        jr.normal(key, shape)
        for key, shape in zip(keys[4:], [(5, 2, 3, 4)] + [(2, 3, 4)] * 2, strict=True)
    ]

    def ours(layer, gates, start):
        arguments = (None, lengths) if masked else (start, None)
        outputs, last = layer.run(gates, *arguments, Numerics())
        return sum(jnp.sum(a * b) for a, b in zip((outputs, *last), weights, strict=True))

    def plain(layer, gates, start):
        outputs, *last = loop(layer, jnp.swapaxes(gates, 0, 1), start, lengths)
        outputs = jnp.swapaxes(outputs, 0, 1)
        return sum(jnp.sum(a * b) for a, b in zip((outputs, *last), weights, strict=True))

    argnums = (0, 1) if masked else (0, 1, 2)
    found, wanted = (
        jax.jit(jax.grad(f, argnums=argnums))(layer, gates, start) for f in (ours, plain)
    )
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-5)


def test_projecting_symbols_once_is_projecting_their_embeddings():
    layer_key, table_key, token_key = jr.split(jr.key(2), 3)
    layer = LSTM(3, 4, 2, key=layer_key)
    table = jr.normal(table_key, (7, 3))
    tokens = jr.randint(token_key, (5, 2), 0, 7)
    once = layer.token_gates(tokens, table, Numerics())
    each = layer.gates(table[tokens], Numerics())
    np.testing.assert_allclose(once, each, atol=1e-5)


def test_unrolling_and_seeds_change_nothing():
    keys = jr.split(jr.key(3), 3)
    make = partial(LSTM, 3, 4, 2)
    x = jr.normal(jr.key(4), (5, 2, 3))
    lengths = jnp.array([5, 3])

    def last(layer, numerics):
        return layer.run(layer.gates(x, numerics), None, lengths, numerics)[1][0]

    layers = jax.vmap(lambda key: make(key=key))(keys)
    together = jax.jit(jax.vmap(lambda layer: last(layer, Numerics(unroll=2))))(layers)
    single = eqx.filter_jit(last)
    for i in range(3):
        layer = jax.tree.map(lambda leaf, i=i: leaf[i], layers)
        np.testing.assert_allclose(together[i], single(layer, Numerics()), atol=1e-6)


def test_refuses_a_start_with_lengths():
    layer = LSTM(3, 4, 1, key=jr.key(0))
    start = jnp.zeros((1, 2, 4)), jnp.zeros((1, 2, 4))
    with pytest.raises(ValueError, match="`start` must be None"):
        layer.run(jnp.zeros((5, 1, 2, 16)), start, jnp.array([5, 3]), Numerics())


def test_refuses_three_directions():
    with pytest.raises(ValueError, match="`directions`"):
        LSTM(3, 4, 3, key=jr.key(0))
