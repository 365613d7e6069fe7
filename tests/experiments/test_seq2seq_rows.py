"""The rows of meta seq2seq, and what they draw."""

from dataclasses import replace

import jax
import jax.random as jr
import numpy as np
import pytest

from recombine.experiments import find_row
from recombine.experiments.seq2seq import _pictures
from recombine.experiments.seq2seq._learners import make_seq2seq_learner
from recombine.methods.seq2seq import exact_matches
from recombine.methods.seq2seq._learner import State
from recombine.methods.seq2seq._loss import episode_loss
from recombine.methods.seq2seq._optimizer import apply_gradients
from recombine.tasks import mutual_exclusivity, scan


def learner_of(row_id):
    row = find_row(row_id)
    return make_seq2seq_learner(row.full.config, row.full.steps)


def test_pictures_know_the_symbols_of_the_tasks():
    assert mutual_exclusivity.VOCABULARY.inputs.names == _pictures.PSEUDOWORDS
    assert mutual_exclusivity.VOCABULARY.outputs.names == _pictures.COLOURS
    assert scan.WORDS == _pictures.SCAN_WORDS
    assert len(scan.ACTIONS) == len(_pictures.SCAN_ACTIONS)


def test_the_settings_are_those_of_the_paper():
    learner = learner_of("scan/add-jump/permutation/meta")
    assert learner.architecture.size == 200
    assert learner.architecture.dropout == 0.5
    assert (learner.architecture.num_inputs, learner.architecture.num_outputs) == (15, 8)
    assert learner.optimizer.drop_at == 5_000
    assert learner.optimizer.clip_norm == 50.0
    assert learner.source.test_queries.shape == (7706,)


def test_lesions_take_away_one_thing_each():
    whole = learner_of("scan/add-jump/augmentation/meta")
    assert (whole.architecture.num_inputs, whole.architecture.num_outputs) == (35, 28)
    assert whole.support_loss
    assert not learner_of("scan/add-jump/augmentation/meta-no-support-loss").support_loss
    blind = learner_of("scan/add-jump/augmentation/meta-no-attention")
    assert not blind.architecture.attends
    assert blind.support_loss


def test_baselines_see_their_own_split_only():
    for split, size in (("add-jump", 14_670), ("around-right", 15_225), ("length", 16_990)):
        source = learner_of(f"scan/{split}/standard/seq2seq").source
        assert source.train_rows.shape == (size,)
        trained, asked = (
            set(np.asarray(r).tolist()) for r in (source.train_rows, source.test_rows)
        )
        assert not trained & asked


def test_syntactic_attention_has_the_released_sizes():
    learner = learner_of("scan/add-jump/standard/synatt")
    assert (learner.architecture.meaning_size, learner.architecture.syntax_size) == (120, 200)
    assert learner.source.batch_size == 1
    assert learner.source.train_rows.shape == (11_736,)
    assert learner.optimizer.clip_norm is None
    assert learner.optimizer.drop_at is None


@pytest.mark.slow
@pytest.mark.usefixtures("quick_compilation")
def test_one_episode_is_learned_by_heart_at_full_size():
    """The published network and rate, without dropout: 120 steps are enough for one episode."""
    row = find_row("me/meta")
    learner = make_seq2seq_learner(replace(row.full.config, dropout=0.0, unroll=1), 10_000)
    episode = learner.source.sample(learner.source.begin(jr.key(0)), jr.key(1))

    @jax.jit
    def train(state):
        def step(state, _):
            loss, grads = jax.value_and_grad(episode_loss)(
                state.model, episode, None, support_loss=True
            )
            model, optimizer, _ = apply_gradients(
                learner.optimizer, state.model, state.optimizer, grads, state.step
            )
            return State(model, optimizer, state.held, state.step + 1), loss

        return jax.lax.scan(step, state, length=120)

    state, losses = train(learner.init(jr.key(2)))
    assert losses[-1] < 0.01
    assert exact_matches(state.model, jax.tree.map(lambda x: x[None], episode)).all()
