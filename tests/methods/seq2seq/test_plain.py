from functools import partial

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import pytest
import seq2seq_golden as golden

from recombine.methods.seq2seq import PlainSeq2SeqConfig, episode_loss


def test_golden_loss():
    model, number = golden.fill_plain(PlainSeq2SeqConfig(15, 8, size=6).make(key=jr.key(0)))
    assert number == 30
    loss = eqx.filter_jit(partial(episode_loss, key=None, support_loss=False))
    found = loss(model, golden.episode())
    np.testing.assert_allclose(found, 3.07610853, rtol=2e-6)


@pytest.mark.parametrize(
    ("sizes", "count"),
    [((6, 6), 2_333_406), ((15, 8), 2_336_008), ((17, 10), 2_337_210), ((35, 28), 2_348_028)],
)
def test_parameter_counts(sizes, count):
    config = PlainSeq2SeqConfig(*sizes)
    assert golden.count(jax.eval_shape(lambda: config.make(key=jr.key(0)))) == count
