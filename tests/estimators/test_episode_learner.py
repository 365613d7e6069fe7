import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.estimators._buckets import Shape, make_buckets, pack_episode
from recombine.estimators._episode_learner import EpisodeLearner, permute_words, rename_inputs
from recombine.estimators._episodes import ParsedEpisode
from recombine.estimators._symbols import Alphabet, Alphabets
from recombine.methods.seq2seq import (
    MetaSeq2SeqConfig,
    OptimizerConfig,
    episode_loss,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

ALPHABETS = Alphabets(Alphabet(("a", "b", "c"), "inputs"), Alphabet(("A", "B"), "outputs"))
CONFIG = MetaSeq2SeqConfig(
    num_inputs=5, num_outputs=4, size=8, dropout=0.0, mask_decoder_attention=True
)
SHORT = ParsedEpisode([(("a",), ("A",)), (("b",), ("B",))], [(("a", "b"), ("A", "B"))])
LONG = ParsedEpisode([(("c",), ("B",))], [(("c",) * 9, ("B",) * 9), (("c",), ("B",))])


def make(episodes, most, permuted=()):
    bucketed = make_buckets(episodes, ALPHABETS, most=most, ask_support=True)
    arrays = jax.tree.map(jnp.asarray, tuple(bucketed.buckets))
    return EpisodeLearner(arrays, {}, CONFIG, OptimizerConfig(), permuted)


def losses(learner, num_steps):
    state = eqx.filter_jit(learner.init)(jr.key(0))
    steps = eqx.filter_jit(lambda keys: jax.lax.map(lambda key: learner.step(state, key)[1], keys))
    return np.asarray(steps(jr.split(jr.key(1), num_steps))["loss"])


def loss_of(episode, shape):
    asked = [*episode.queries, *episode.support]
    arrays = jax.tree.map(jnp.asarray, pack_episode(episode.support, asked, ALPHABETS, shape))
    return round(float(_loss(arrays)), 4)


@jax.jit
def _loss(arrays):
    return episode_loss(CONFIG.make(key=jr.key(0)), arrays, None, support_loss=False)


@pytest.mark.slow
def test_a_step_takes_any_episode_of_any_bucket_with_equal_chances():
    learner = make([SHORT] * 5 + [LONG], most=2)
    sizes = sorted(bucket.support.inputs.lengths.shape[0] for bucket in learner.buckets)
    assert sizes == [1, 5]
    found, count = np.unique(losses(learner, 300), return_counts=True)
    of_short = loss_of(SHORT, Shape(2, 3, 3, 2, 3))
    of_long = loss_of(LONG, Shape(1, 3, 10, 2, 10))
    np.testing.assert_allclose(found, sorted([of_short, of_long]), atol=2e-4)
    share = dict(zip(found < (of_short + of_long) / 2, count / 300, strict=True))
    assert share[bool(of_long < of_short)] == pytest.approx(1 / 6, abs=0.08)


def test_padding_changes_neither_the_loss_nor_makes_gradients_that_are_not_numbers():
    snug, loose = Shape(2, 3, 3, 2, 3), Shape(7, 9, 12, 5, 11)
    assert loss_of(SHORT, loose) == pytest.approx(loss_of(SHORT, snug), abs=2e-4)
    one = make([SHORT, LONG], most=1)
    assert len(one.buckets) == 1
    state = eqx.filter_jit(lambda: one.step(one.init(jr.key(0)), jr.key(1))[0])()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state))


def test_words_trade_places_within_their_group_only():
    tables = jax.vmap(lambda key: permute_words(8, ((0, 3, 5), (1, 2)), key))(
        jr.split(jr.key(0), 200)
    )
    tables = np.asarray(tables)
    assert (np.sort(tables, axis=1) == np.arange(8)[None]).all()
    assert (tables[:, [4, 6, 7]] == np.array([[4, 6, 7]])).all()
    assert {tuple(row) for row in tables[:, [0, 3, 5]].tolist()} == {
        (0, 3, 5),
        (0, 5, 3),
        (3, 0, 5),
        (3, 5, 0),
        (5, 0, 3),
        (5, 3, 0),
    }
    assert {tuple(row) for row in tables[:, [1, 2]].tolist()} == {(1, 2), (2, 1)}


def test_support_and_queries_are_renamed_alike():
    arrays = pack_episode(SHORT.support, SHORT.queries, ALPHABETS, Shape(2, 1, 3, 2, 3))
    arrays = jax.tree.map(jnp.asarray, arrays)
    renamed = rename_inputs(arrays, jnp.array([1, 0, 2, 3, 4]))
    assert np.asarray(renamed.support.inputs.tokens)[:, 0].tolist() == [1, 0]
    assert np.asarray(renamed.queries.inputs.tokens)[0].tolist() == [1, 0, 4]
    assert renamed.queries.outputs is arrays.queries.outputs


def test_permuted_words_give_the_losses_of_renamed_episodes():
    learner = make([SHORT], most=1, permuted=((0, 1, 2),))
    assert len(np.unique(losses(learner, 60))) == 6  # 3! ways
