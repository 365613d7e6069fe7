import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from seq2seq_golden import Episode, Pairs, Sequences, episode

from recombine.methods.seq2seq import (
    MetaSeq2SeqConfig,
    OptimizerConfig,
    PlainSeq2SeqConfig,
    Seq2SeqLearner,
    SyntacticAttentionConfig,
    exact_matches,
)


class Held(NamedTuple):
    number: jax.Array


class OneEpisode(eqx.Module):
    """A source whose episodes are all the same; the one test repeats it."""

    episode: Episode
    num_tests: int = eqx.field(static=True, default=2)

    def begin(self, key):
        return Held(jr.randint(key, (), 0, 10))

    def sample(self, held, key):
        return self.episode

    def validation(self, held):
        return jax.tree.map(lambda x: x[None], self.episode)

    def tests(self, held, key):
        def repeat(x):
            return jnp.broadcast_to(x[None], (self.num_tests, *x.shape))

        return {"test": jax.tree.map(repeat, self.episode)}


def without_support(episode):
    return Episode(jax.tree.map(lambda x: x[:0], episode.support), episode.queries)


META = Seq2SeqLearner(OneEpisode(episode()), MetaSeq2SeqConfig(15, 8, size=8))
PLAIN = Seq2SeqLearner(
    OneEpisode(without_support(episode())), PlainSeq2SeqConfig(15, 8, size=8), support_loss=False
)
SYNTACTIC = Seq2SeqLearner(
    OneEpisode(without_support(episode())),
    SyntacticAttentionConfig(15, 8, meaning_size=4, syntax_size=4),
    OptimizerConfig(drop_at=None, clip_norm=None),
    support_loss=False,
)
LEARNERS = {"meta": META, "plain": PLAIN, "syntactic": SYNTACTIC}

init = eqx.filter_jit(lambda learner, key: learner.init(key))
step = eqx.filter_jit(lambda learner, state, key: learner.step(state, key))
measure = eqx.filter_jit(
    lambda learner, state, key: (learner.evaluate(state, key), learner.final(state, key))
)
inspect = eqx.filter_jit(lambda learner, state, key: learner.inspect(state, key))


@pytest.mark.parametrize(
    "name", ["meta", "plain", pytest.param("syntactic", marks=pytest.mark.slow)]
)
def test_every_learner_keeps_the_contract(name):
    learner = LEARNERS[name]
    state = init(learner, jr.key(0))
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(state))
    after, metrics = step(learner, state, jr.key(1))
    assert jax.tree.structure(after) == jax.tree.structure(state)
    shapes = jax.tree.map(lambda x: (x.shape, x.dtype), (after, state))
    assert jax.tree.leaves(shapes[0]) == jax.tree.leaves(shapes[1])
    assert int(after.step) == 1
    same, _ = step(learner, state, jr.key(1))
    other, _ = step(learner, state, jr.key(2))
    assert eqx.tree_equal(after, same)
    assert not eqx.tree_equal(after, other)  # the dropout differs
    for found in (metrics, *measure(learner, state, jr.key(3))):
        assert all(value.shape == () and jnp.isfinite(value) for value in found.values())


def test_equal_settings_share_one_compilation():
    again = Seq2SeqLearner(OneEpisode(episode()), MetaSeq2SeqConfig(15, 8, size=8))
    assert jax.tree.structure(META) == jax.tree.structure(again)
    assert hash(jax.tree.structure(META)) == hash(jax.tree.structure(again))


@pytest.mark.slow
def test_seeds_can_be_run_together():
    keys = jr.split(jr.key(5), 2)

    states = [init(META, key) for key in keys]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    _, together = jax.jit(jax.vmap(lambda state, key: META.step(state, key)))(stacked, keys)
    for i in range(2):
        _, metrics = step(META, states[i], keys[i])
        np.testing.assert_allclose(together["loss"][i], metrics["loss"], rtol=1e-5)


@pytest.mark.slow
def test_one_episode_is_learned_by_heart():
    config = MetaSeq2SeqConfig(15, 8, size=48, dropout=0.0)
    optimizer = OptimizerConfig(learning_rate=3e-3, drop_at=None)
    learner = Seq2SeqLearner(OneEpisode(episode()), config, optimizer, chunk_size=3)

    @eqx.filter_jit
    def run(learner, key):
        keys = jr.split(key, 100)
        state, metrics = jax.lax.scan(lambda s, k: learner.step(s, k), learner.init(key), keys)
        return metrics["loss"], learner.final(state, key)

    losses, after = run(learner, jr.key(0))
    assert losses[0] > 1.5
    assert losses[-1] < 0.05
    assert after["test_accuracy"] == 1.0


class Reciter:
    """A model that knows the answers to commands of two words and no others."""

    def matches(self, support, queries):
        return (queries.inputs.lengths == 3) & (queries.outputs.lengths > 0)


@pytest.mark.parametrize("chunk_size", [1, 2, 3, 5, 100])
def test_chunks_of_any_size_give_the_same_matches(chunk_size):
    lengths = jnp.array([[3, 2, 3, 3, 2], [2, 2, 2, 2, 3]])
    sequences = Sequences(jnp.zeros((2, 5, 4), jnp.int32), lengths)
    pairs = Pairs(sequences, sequences)
    found = exact_matches(Reciter(), Episode(pairs, pairs), chunk_size)
    np.testing.assert_array_equal(found, lengths == 3)


def test_inspect_returns_both_attentions():
    learner = dataclasses.replace(META, num_inspected=2)
    found = inspect(learner, init(learner, jr.key(0)), jr.key(1))
    assert found["memory_attention"].shape == (2, 7, 4)
    assert found["decoder_attention"].shape == (2, 6, 7)
    np.testing.assert_allclose(found["decoder_attention"].sum(axis=-1), 1.0, rtol=1e-5)
    assert found["answers"].shape == (2, 6)


def test_support_items_are_asked_only_with_the_support_loss():
    state = init(META, jr.key(0))
    for support_loss in (True, False):
        learner = dataclasses.replace(META, support_loss=support_loss)
        shapes = jax.make_jaxpr(lambda state, learner=learner: learner.step(state, jr.key(1)))
        num_asked = 6 if support_loss else 2
        assert f"f32[{num_asked},6,8]" in str(shapes(state))  # one row of logits per pair
