import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import seq2seq_golden as golden

from recombine.methods.seq2seq import MetaSeq2SeqConfig, Numerics, episode_loss

SMALL = MetaSeq2SeqConfig(15, 8, size=6)


# Compiled once for all tests.
loss_of = eqx.filter_jit(partial(episode_loss, key=None, support_loss=False))
all_loss_of = eqx.filter_jit(partial(episode_loss, key=None, support_loss=True))
logits_of = eqx.filter_jit(lambda model, support, queries: model.logits(support, queries, None))
read = eqx.filter_jit(lambda model, episode: look(model, episode))
predict = eqx.filter_jit(lambda model, support, inputs: model.predict(support, inputs, 12))
matches = eqx.filter_jit(lambda model, support, queries: model.matches(support, queries))
attention = eqx.filter_jit(lambda model, support, inputs, y: model.attention(support, inputs, y))


def look(model, episode):
    memory = model.remember(episode.support)
    return memory, *model.read(memory, episode.queries.inputs)


def build(**changes):
    config = dataclasses.replace(SMALL, **changes)
    model, number = golden.fill_meta(config.make(key=jr.key(0)))
    assert number == (49 if config.attends else 47)
    return model


@pytest.mark.parametrize(
    ("changes", "loss"),
    [
        ({}, 2.58467984),
        ({"mask_decoder_attention": True}, 2.64127375),
        ({"attends": False}, 2.54664625),
    ],
)
def test_golden_losses(changes, loss):
    found = loss_of(build(**changes), golden.episode())
    np.testing.assert_allclose(found, loss, rtol=2e-6)


def test_golden_memory_and_context():
    model, episode = build(), golden.episode()
    memory, context, weights = read(model, episode)

    def check(found, wanted):
        np.testing.assert_allclose(found, wanted, atol=2e-6)

    check(memory.keys[0], [0.639143, -0.093266, 0.162176, -0.391917, 0.513696, -0.312761])
    check(memory.values[3], [0.279550, 0.279101, -0.682959, 0.165167, 0.187705, 0.089050])
    check(weights[1, 0], [0.258049, 0.245304, 0.254222, 0.242426])
    check(context.message[0], [0.530541, -0.580034, -0.542092, 0.391545, -0.627083, -0.265390])
    check(context.steps[0, 4], [0.523817, -0.758253, -0.729636, -0.287638, -0.649412, -0.154527])


def test_golden_logits_and_decoder_attention():
    model, episode = build(), golden.episode()
    logits = logits_of(model, episode.support, episode.queries)
    wanted = [-0.358927, -2.481412, -0.604654, -1.244406, 1.029863, 1.466870, -1.065784, -2.219656]
    np.testing.assert_allclose(logits[1, 0], wanted, atol=5e-6)
    found = attention(
        model, episode.support, episode.queries.inputs, episode.queries.outputs.tokens
    )
    wanted = [0.132554, 0.132159] + [0.147057] * 5
    np.testing.assert_allclose(found["decoder_attention"][0, 0], wanted, atol=2e-6)


@pytest.mark.parametrize(
    ("sizes", "encoder", "with_attention", "without"),
    [
        ((6, 6), 3_295_400, 4_021_206, 3_941_006),
        ((15, 8), 3_297_600, 4_024_208, 3_944_008),
        ((17, 10), 3_298_400, 4_025_810, 3_945_610),
        ((35, 28), 3_305_600, 4_040_228, 3_960_028),
    ],
)
def test_parameter_counts(sizes, encoder, with_attention, without):
    def shapes(**changes):
        config = MetaSeq2SeqConfig(*sizes, **changes)
        return jax.eval_shape(lambda: config.make(key=jr.key(0)))

    assert golden.count(shapes().encoder) == encoder
    assert golden.count(shapes()) == with_attention
    assert golden.count(shapes(attends=False)) == without


def test_shapes():
    model, episode = build(), golden.episode()
    memory, context, weights = read(model, episode)
    assert memory.keys.shape == memory.values.shape == (4, 6)
    assert context.steps.shape == (2, 7, 6)
    assert weights.shape == (2, 7, 4)
    assert logits_of(model, episode.support, episode.queries).shape == (2, 6, 8)


def test_order_of_the_support_does_not_matter():
    model, episode = build(), golden.episode()
    shuffled = jax.tree.map(lambda x: x[jnp.array([2, 0, 3, 1])], episode.support)
    logits = logits_of(model, episode.support, episode.queries)
    other = logits_of(model, shuffled, episode.queries)
    np.testing.assert_allclose(logits, other, atol=1e-5)


def test_padding_symbols_are_never_read():
    model, episode = build(), golden.episode()

    def scribble(sequences):
        width = sequences.tokens.shape[1]
        is_real = jnp.arange(width)[None] < sequences.lengths[:, None]
        return sequences._replace(tokens=jnp.where(is_real, sequences.tokens, 3))

    changed = jax.tree.map(scribble, episode, is_leaf=lambda x: isinstance(x, golden.Sequences))
    for loss in (loss_of, all_loss_of):
        np.testing.assert_allclose(loss(model, episode), loss(model, changed), rtol=1e-6)


def test_extra_padding_changes_nothing_only_if_attention_is_masked():
    def losses(model):
        return [loss_of(model, golden.episode(*widths)) for widths in [(7, 6), (10, 9)]]

    narrow, wide = losses(build(mask_decoder_attention=True))
    np.testing.assert_allclose(narrow, wide, rtol=1e-6)
    narrow, wide = losses(build())
    assert abs(narrow - wide) > 1e-4


def test_memory_attention_sums_to_one_and_is_uniform_at_padding():
    model, episode = build(), golden.episode()
    _, _, weights = read(model, episode)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, atol=1e-6)
    np.testing.assert_allclose(weights[0, 2:], 0.25, atol=1e-6)


def test_absent_support_items_are_not_attended_to():
    model, episode = build(), golden.episode()

    def lengthen(sequences):
        extra = jnp.zeros((2, sequences.tokens.shape[1]), sequences.tokens.dtype)
        lengths = jnp.concatenate([sequences.lengths, jnp.zeros(2, jnp.int32)])
        return golden.Sequences(jnp.concatenate([sequences.tokens, extra]), lengths)

    support = golden.Pairs(*map(lengthen, episode.support))
    logits = logits_of(model, episode.support, episode.queries)
    np.testing.assert_allclose(logits, logits_of(model, support, episode.queries), atol=1e-5)


def test_greedy_decoding_equals_teacher_forcing_on_its_own_answers():
    model, episode = build(), golden.episode()
    answers = predict(model, episode.support, episode.queries.inputs)
    own = golden.Sequences(answers, jnp.full(2, 12))
    logits = logits_of(model, episode.support, episode.queries._replace(outputs=own))
    best = np.argmax(logits, axis=-1)
    for row, answer in zip(best, np.asarray(answers), strict=True):
        ends = np.flatnonzero(answer == 7)
        length = ends[0] + 1 if len(ends) else 12
        np.testing.assert_array_equal(row[:length], answer[:length])
        assert np.all(answer[length:] == 7)


def test_matches_finds_exactly_the_answers_that_predict_gives():
    model, episode = build(), golden.episode()
    answers = np.array(predict(model, episode.support, episode.queries.inputs))
    answers[:, -1] = 7
    lengths = jnp.asarray(np.argmax(answers == 7, axis=1) + 1)
    right = episode.queries._replace(outputs=golden.Sequences(jnp.asarray(answers), lengths))
    changed = answers.copy()
    changed[1, lengths[1] - 2] = (changed[1, lengths[1] - 2] + 1) % 6
    wrong = episode.queries._replace(outputs=golden.Sequences(jnp.asarray(changed), lengths))
    expected = np.asarray(lengths) < 12  # an answer that never ended is wrong
    np.testing.assert_array_equal(matches(model, episode.support, right)[1], expected[1])
    assert not matches(model, episode.support, wrong)[1]


def test_bfloat16_products_stay_close_and_keep_float32_results():
    coarse = build(numerics=Numerics("bfloat16"))
    loss = loss_of(coarse, golden.episode())
    assert loss.dtype == jnp.float32
    np.testing.assert_allclose(loss, 2.58467984, rtol=3e-2)
    assert loss != loss_of(build(), golden.episode())


def test_refuses_nonsense():
    with pytest.raises(ValueError, match="`dropout`"):
        MetaSeq2SeqConfig(15, 8, dropout=1.0)
    with pytest.raises(ValueError, match="`precision`"):
        Numerics("float16")
