import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import seq2seq_golden as golden

from recombine.methods.seq2seq import SyntacticAttentionConfig, token_loss


def build():
    config = SyntacticAttentionConfig(15, 8, meaning_size=4, syntax_size=6)
    model, number = golden.fill_syntactic(config.make(key=jr.key(0)))
    assert number == 28
    return model


logits_of = eqx.filter_jit(lambda model, queries: model.logits(None, queries, None))
loss_of = eqx.filter_jit(lambda m, queries: token_loss(logits_of(m, queries), queries.outputs))
streams_of = eqx.filter_jit(lambda m, q: m.encoder(q.inputs, 0.0, None, m.config.numerics))


def second_query(width=7):
    return jax.tree.map(lambda x: x[1:], golden.episode(width).queries)


def test_golden_loss_and_first_look():
    model, queries = build(), second_query()
    np.testing.assert_allclose(loss_of(model, queries), 2.42627332, rtol=2e-6)
    streams = streams_of(model, queries)
    wanted = [0.783229, 1.839911, 0, 0, 0, 0, 1.123006, 0.484088, 0, 0, 1.432703, 0]
    np.testing.assert_allclose(streams.first[0], wanted, atol=2e-6)


def test_batches_and_padding_change_nothing():
    model, queries = build(), golden.episode().queries
    together = logits_of(model, queries)
    alone = logits_of(model, second_query(12))
    np.testing.assert_allclose(together[1], alone[0], atol=1e-5)


def test_parameter_count():
    config = SyntacticAttentionConfig(15, 8)
    assert golden.count(jax.eval_shape(lambda: config.make(key=jr.key(0)))) == 2_253_288


def test_answers_end_at_the_first_eos():
    model, queries = build(), golden.episode().queries
    predict = eqx.filter_jit(lambda model, inputs: model.predict(None, inputs, 6))
    answers = np.asarray(predict(model, queries.inputs))
    free = np.argmax(logits_of(model, queries), axis=-1)
    for answer, symbols in zip(answers, free, strict=True):
        ends = np.flatnonzero(symbols == 7)
        length = ends[0] if len(ends) else 6
        np.testing.assert_array_equal(answer[:length], symbols[:length])
        assert np.all(answer[length:] == 7)
