import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import seq2seq_golden as golden

from recombine.methods.seq2seq import LSTM, MetaSeq2SeqConfig, Numerics, _decoder, episode_loss
from recombine.methods.seq2seq._wavefront import in_wavefront, layer_after_layer, run_two_layers

STEPS, ITEMS, SIZE = 5, 3, 4


def problem(key, dtype, *, drops):
    """Draws two layers with their inputs, and what to weigh their outputs by."""
    keys = jr.split(key, 9)
    layers = LSTM(2, SIZE, 1, key=keys[0]), LSTM(SIZE, SIZE, 1, key=keys[1])
    gates = jr.normal(keys[2], (STEPS, 1, ITEMS, 4 * SIZE))
    states = [jr.normal(key, (1, ITEMS, SIZE)) for key in keys[3:7]]
    start = (states[0], states[1]), (states[2], states[3])
    passed = jr.bernoulli(keys[7], 0.5, (STEPS, ITEMS, SIZE)) / 0.5 if drops else None
    weighed = jr.normal(keys[8], (STEPS, ITEMS, SIZE))
    found = layers, gates, start, passed, weighed
    return jax.tree.map(lambda leaf: leaf.astype(dtype), found)


def outputs_and_gradients(way, drawn, numerics):
    *trained, passed, weighed = drawn

    def loss(trained):
        outputs = way(*trained, passed, numerics)
        return jnp.sum(outputs * weighed), outputs

    return jax.value_and_grad(loss, has_aux=True)(trained)


def compare(dtype, atol, *, drops, unroll):
    keys = jr.split(jr.key(0), 2)
    models = jax.jit(jax.vmap(lambda key: problem(key, dtype, drops=drops)))(keys)
    numerics = Numerics("highest", unroll=unroll)

    def by(way):
        return jax.jit(jax.vmap(lambda model: outputs_and_gradients(way, model, numerics)))(models)

    found, wanted = by(in_wavefront), by(layer_after_layer)
    leaves = jax.tree.leaves(found), jax.tree.leaves(wanted)
    assert len(leaves[0]) == 2 + 8 + 1 + 4  # loss and outputs; of the layers, gates and states
    for a, b in zip(*leaves, strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a, b, atol=atol)


@pytest.mark.parametrize("drops", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_wavefront_is_one_layer_after_the_other(drops):
    with jax.enable_x64(True):
        compare(jnp.float64, 1e-13, drops=drops, unroll=1)


@pytest.mark.slow
@pytest.mark.parametrize("unroll", [2, 5])
@pytest.mark.parametrize("drops", [True, False])
def test_a_wavefront_is_one_layer_after_the_other_in_float32(drops, unroll):
    compare(jnp.float32, 2e-6, drops=drops, unroll=unroll)


def test_only_a_cpu_takes_layer_after_layer():
    drawn = jax.eval_shape(lambda: problem(jr.key(1), jnp.float32, drops=True))
    traced = jax.jit(lambda x: outputs_and_gradients(run_two_layers, x, Numerics())).trace(drawn)
    loops = {
        platform: traced.lower(lowering_platforms=(platform,)).as_text().count("stablehlo.while")
        for platform in ("cpu", "cuda", "rocm", "tpu")
    }
    assert loops == {"cpu": 4, "cuda": 2, "rocm": 2, "tpu": 2}  # forward and backward


def test_golden_losses_in_a_wavefront(monkeypatch):
    monkeypatch.setattr(_decoder, "run_two_layers", in_wavefront)
    config = MetaSeq2SeqConfig(15, 8, size=6)
    model, _ = golden.fill_meta(config.make(key=jr.key(0)))
    loss = jax.jit(lambda model: episode_loss(model, golden.episode(), None, support_loss=False))
    np.testing.assert_allclose(loss(model), 2.58467984, rtol=2e-6)
