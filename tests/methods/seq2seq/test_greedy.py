import jax
import jax.numpy as jnp
import numpy as np
from seq2seq_golden import Sequences

from recombine.methods.seq2seq import decode, is_match

SOS, EOS = 3, 4
SCRIPTS = np.array([[0, 1, EOS, 2, 2, 2], [2, 2, 2, 2, 2, 2], [EOS, 0, 0, 0, 0, 0]])


def run(max_steps, targets=None, scripts=SCRIPTS):
    """Decodes with a model that recites; its state counts the steps that were taken."""
    table = jax.nn.one_hot(jnp.asarray(scripts), 5)

    def step(state, previous):
        count, first = state
        first = jnp.where(count == 0, previous, first)
        return (count + 1, first), table[:, jnp.minimum(count, 5)]

    seen = []

    def watched(state, previous):
        jax.debug.callback(lambda: seen.append(1))
        return step(state, previous)

    start = (jnp.array(0), jnp.zeros(len(scripts), jnp.int32))
    answers = decode(
        watched, start, len(scripts), sos=SOS, eos=EOS, max_steps=max_steps, targets=targets
    )
    jax.effects_barrier()
    return np.asarray(answers), len(seen)


def test_answers_end_at_the_first_eos():
    answers, steps = run(5)
    wanted = [[0, 1, EOS, EOS, EOS], [2, 2, 2, 2, 2], [EOS] * 5]
    np.testing.assert_array_equal(answers, wanted)
    assert steps == 5


def test_decoding_stops_when_all_rows_have_ended():
    _, steps = run(50, scripts=SCRIPTS[[0, 2]])
    assert steps == 3


def test_decoding_against_targets_stops_at_the_first_mistakes():
    targets = Sequences(
        jnp.array([[0, 1, EOS, SOS], [0, 0, 0, EOS], [EOS, SOS, SOS, SOS]]), jnp.array([3, 4, 1])
    )
    answers, steps = run(4, targets)
    assert steps == 3
    assert is_match(jnp.asarray(answers), targets).tolist() == [True, False, True]


def test_an_answer_without_end_is_wrong():
    targets = Sequences(jnp.array([[2, 2, 2, EOS]]), jnp.array([4]))
    answers, _ = run(4, targets, SCRIPTS[[1]])
    assert is_match(jnp.asarray(answers), targets).tolist() == [False]


def test_absent_rows_are_never_right():
    targets = Sequences(jnp.zeros((3, 4), jnp.int32), jnp.zeros(3, jnp.int32))
    answers, steps = run(4, targets)
    assert steps == 0
    assert not is_match(jnp.asarray(answers), targets).any()
