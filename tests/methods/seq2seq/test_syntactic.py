import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import seq2seq_golden as golden

from recombine.methods.seq2seq import SyntacticAttentionConfig, token_loss


def build():
    config = SyntacticAttentionConfig(15, 8, meaning_size=4, syntax_size=6)
    model, number = golden.fill_syntactic(config.make(key=jr.key(0)))
    assert number == 28
    return model


def second_query(width=7):
    return jax.tree.map(lambda x: x[1:], golden.episode(width).queries)


def test_golden_loss_and_first_look():
    model, queries = build(), second_query()
    loss = token_loss(model.logits(None, queries, None), queries.outputs)
    np.testing.assert_allclose(loss, 2.42627332, rtol=2e-6)
    streams = model.encoder(queries.inputs, 0.0, None, model.config.numerics)
    wanted = [0.783229, 1.839911, 0, 0, 0, 0, 1.123006, 0.484088, 0, 0, 1.432703, 0]
    np.testing.assert_allclose(streams.first[0], wanted, atol=2e-6)


def test_batches_and_padding_change_nothing():
    model, queries = build(), golden.episode().queries
    together = model.logits(None, queries, None)
    alone = model.logits(None, second_query(12), None)
    np.testing.assert_allclose(together[1], alone[0], atol=1e-5)


def test_parameter_count():
    config = SyntacticAttentionConfig(15, 8)
    assert golden.count(jax.eval_shape(lambda: config.make(key=jr.key(0)))) == 2_253_288


def test_answers_end_at_the_first_eos():
    model, queries = build(), golden.episode().queries
    answers = np.asarray(model.predict(None, queries.inputs, 9))
    free = np.argmax(model._answer(queries.inputs, 9, None)[0], axis=-1)
    for answer, symbols in zip(answers, free, strict=True):
        ends = np.flatnonzero(symbols == 7)
        length = ends[0] if len(ends) else 9
        np.testing.assert_array_equal(answer[:length], symbols[:length])
        assert np.all(answer[length:] == 7)
    assert not jnp.any(model.matches(None, queries))
