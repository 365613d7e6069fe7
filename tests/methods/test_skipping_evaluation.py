import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from recombine.methods.skipping import (
    Batch,
    LearnedReaderShape,
    Rollout,
    Skips,
    SquaredError,
    as_floats,
    as_trajectories,
    evaluation_depth,
    pad_trajectories,
    read_free_run,
    read_matched_run,
    reader_loss,
    score_outcomes,
)
from recombine.tasks import funnel_board, room_runner
from recombine.tasks.funnel_board import PlatformReader, PlatformStateReader
from recombine.tasks.room_runner import RoomReader, RoomStateReader


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """This module compiles much and computes little."""


class SignReader(eqx.Module):
    """Tells whether a number went beyond 10 or below -10; it is lost beyond 100."""

    num_classes: int = eqx.field(static=True, default=2)

    def look(self, first, context):
        return None

    def evidence(self, memory, frame):
        return jnp.stack([frame[0] > 10, frame[0] < -10]).astype(jnp.float32)

    def probabilities(self, evidence):
        return (evidence + 1e-3) / (jnp.sum(evidence) + 2e-3)

    def is_present(self, frame):
        return jnp.abs(frame[0]) <= 100


FIRST = jnp.array([[1.0], [-1.0], [2.0]])
LABELS = jnp.array([0, 1, 1])


def test_the_depth_is_a_high_percentile_and_one_more():
    counts = np.array([[20, 20], [21, 23], [18, 19], [28, 32], [0, 0]])
    known = np.array([True] * 4 + [False])
    expected = round(np.percentile(counts[:4].mean(axis=1), 99)) + 1
    assert int(evaluation_depth(jnp.asarray(counts), jnp.asarray(known))) == expected == 31
    assert int(evaluation_depth(jnp.zeros((3, 2), int), jnp.zeros(3, bool))) == 1


def test_larger_batches_do_not_cut_off_the_longest():
    counts = np.random.default_rng(0).integers(10, 100, 480)
    pairs, eights, fives = (
        int(evaluation_depth(jnp.asarray(counts.reshape(-1, n)), jnp.ones(480 // n, bool)))
        for n in (2, 8, 5)
    )
    assert pairs == eights == round(np.percentile(counts.reshape(-1, 2).mean(axis=1), 99)) + 1
    assert fives >= pairs  # some stand alone


def test_a_free_run_is_watched_for_as_long_as_asked():
    watch = jax.jit(lambda depth: read_free_run(lambda x: 3 * x, SignReader(), FIRST, depth))
    short, long = watch(3), watch(6)
    assert short.evidence.tolist() == [[1, 0], [0, 1], [2, 0]]  # 27, -27, and 18 with 54
    assert short.num_predictions.tolist() == [3, 3, 3]
    assert long.steps_present.tolist() == [4, 4, 3]  # 81, 81 and 54 are the last below 100
    scores = score_outcomes(SignReader(), long.evidence, LABELS)
    assert scores.hard.tolist() == [True, True, False]
    np.testing.assert_allclose(scores.soft, [1.0, 1.0, 0.0], atol=1e-3)


def test_who_never_moves_is_never_right():
    seen = read_free_run(lambda x: x, SignReader(), FIRST, 5)
    scores = score_outcomes(SignReader(), seen.evidence, LABELS)
    assert scores.soft.tolist() == [0.5, 0.5, 0.5]
    assert not scores.hard.any()


def replay(state, context):
    """Looks a state up in its trajectory, and returns what came next."""
    truth, _ = context
    is_here = jnp.all((truth == state[None]).reshape(len(truth), -1), axis=1)
    last = len(truth) - 1 - jnp.argmax(is_here[::-1])
    return truth[jnp.minimum(last + 1, len(truth) - 1)]


def copy(state, context):
    return state


@pytest.mark.parametrize(
    ("make", "reader"),
    [
        (lambda: room_runner.state_vectors(room_runner.load_runs(6)), RoomStateReader()),
        (lambda: funnel_board.state_vectors(funnel_board.load_falls(6)), PlatformStateReader()),
    ],
    ids=["room-runner", "funnel-board"],
)
def test_the_published_readers_trust_the_truth_and_not_a_model_that_copies(make, reader):
    vectors = make()
    frames, depth = jnp.asarray(vectors.frames), vectors.frames.shape[1] - 1

    class Shown(type(reader)):
        """The reader is told the map; the model, to replay it, the truth as well."""

        def look(self, first, context):
            return super().look(first, context[1])

    def score(model):
        seen = read_free_run(model, Shown(), frames[:, 0], depth, (frames, vectors.context))
        return score_outcomes(reader, seen.evidence, jnp.asarray(vectors.labels)), seen

    copied, seen = jax.jit(lambda: score(copy))()
    np.testing.assert_allclose(copied.soft, 1 / reader.num_classes, rtol=1e-5)
    assert not copied.hard.any()
    assert seen.steps_present.tolist() == [depth] * 6
    replayed, _ = jax.jit(lambda: score(replay))()
    assert replayed.hard.all()
    assert float(replayed.soft.min()) > 0.99


def draw_rooms(**settings):
    return room_runner.render(room_runner.load_runs(3, **settings))


def draw_board(size):
    return funnel_board.render(funnel_board.load_falls(3, size=size))


def last_frames(drawn, number):
    """The ends of trajectories: on a large board a whole fall takes a test too long."""
    many = zip(drawn.frames, drawn.lengths, strict=True)
    ends = [frames[length - number : length] for frames, length in many]
    return drawn._replace(frames=np.stack(ends), lengths=np.full(len(ends), number))


@pytest.mark.parametrize(
    ("make", "reader"),
    [
        (draw_rooms, RoomReader()),
        # With other seeds a runner may begin on the floor before a coloured room, which counts.
        (lambda: draw_rooms(cells=8, seed=1), RoomReader()),
        (lambda: last_frames(draw_board(funnel_board.WHOLE), 20), PlatformReader()),
        (lambda: draw_board(funnel_board.Size(2, 3)), PlatformReader(3)),
    ],
    ids=["room-runner", "few rooms", "funnel-board", "small board"],
)
def test_readers_of_images_trust_the_truth_and_not_a_model_that_copies(make, reader):
    drawn = make()
    frames, labels = as_floats(jnp.asarray(drawn.frames)), jnp.asarray(drawn.labels)
    depth = frames.shape[1] - 1

    def score(model):
        seen = read_free_run(model, reader, frames[:, 0], depth, (frames, None))
        return score_outcomes(reader, seen.evidence, labels)

    def look(first, others):
        memory = reader.look(first, None)
        return jnp.sum(jax.vmap(lambda frame: reader.evidence(memory, frame))(others), axis=0)

    @jax.jit
    def scores():
        true = score_outcomes(reader, jax.vmap(look)(frames[:, 0], frames[:, 1:]), labels)
        return true, score(replay), score(copy)

    true, replayed, copied = scores()
    np.testing.assert_allclose(replayed.soft, true.soft, rtol=1e-5)
    assert replayed.hard.all()
    assert float(replayed.soft.mean()) >= 0.995
    np.testing.assert_allclose(copied.soft, 1 / reader.num_classes, rtol=1e-5)
    assert not copied.hard.any()


def test_a_matched_run_ends_with_its_trajectory():
    frames = jnp.array([[0.0, 6, 12, 18, 24], [0, -6, -12, 0, 0]])[..., None]
    batch = Batch(frames, jnp.array([5, 3]))
    model = lambda x, c: x + c  # noqa: E731
    batch = batch._replace(context=jnp.array([[12.0], [-6.0]]))
    run = jax.jit(lambda b: read_matched_run(model, SignReader(), b, Skips(1, 3), SquaredError()))(
        batch
    )
    assert run.outcomes.num_predictions.tolist() == [2, 2]
    assert run.reached.tolist() == [4, 2]
    assert run.longest_skip.tolist() == [2, 1]
    assert run.outcomes.evidence.tolist() == [[2, 0], [0, 1]]


def test_a_reader_learns_to_tell_ends():
    frames = jnp.array([[0.0, 1, 2, 3, 4], [0, -1, -2, -3, -3]])[..., None]
    batch, labels = Batch(frames, jnp.array([5, 4])), jnp.array([0, 1])
    matched = jnp.array([[1, 1], [2, 2], [3, 3], [4, -1]])
    counts = jnp.array([4, 3])
    rollout = Rollout(
        matched, jnp.zeros((4, 2)), counts, counts[0], frames[:, 1:].swapaxes(0, 1), None
    )
    reader = eqx.filter_jit(LearnedReaderShape(1, 2, (16,)))(jr.key(1))
    assert reader.num_classes == 2
    optimizer = optax.sgd(0.3)

    def train(carry, key):
        reader, state = carry
        loss, grads = jax.value_and_grad(reader_loss)(reader, batch, labels, rollout, key)
        updates, state = optimizer.update(grads, state)
        return (eqx.apply_updates(reader, updates), state), loss

    (reader, _), losses = jax.jit(
        lambda r: jax.lax.scan(train, (r, optimizer.init(r)), jr.split(jr.key(2), 200))
    )(reader)
    assert losses[-1] < 0.2 * losses[0]
    evidence = jax.vmap(lambda x: reader.evidence(None, x))(jnp.array([[4.0], [-3.0], [1.0]]))
    assert evidence[0].argmax() == 0
    assert evidence[1].argmax() == 1
    assert float(evidence[2].sum()) < 0.3


def test_ragged_lists_are_padded_with_their_last_frame():
    padded = pad_trajectories([np.array([[1.0], [2.0]]), np.ones((4, 1))], labels=[1, 0])
    assert padded.frames[0, :, 0].tolist() == [1, 2, 2, 2]
    assert padded.lengths.tolist() == [2, 4]
    assert padded.labels.tolist() == [1, 0]
    longer = as_trajectories(padded, time=6)
    assert longer.frames[0, :, 0].tolist() == [1, 2, 2, 2, 2, 2]


def test_images_stay_bytes():
    images = [np.zeros((time, 2, 2, 3), np.uint8) for time in (2, 3)]
    assert pad_trajectories(images).frames.dtype == jnp.uint8


@pytest.mark.parametrize(
    ("trajectories", "labels", "message"),
    [
        ([], None, "at least one array"),
        ([np.zeros((1, 2))], None, "at least 2"),
        ([np.zeros((3, 2)), np.zeros((3, 4))], None, "one shape"),
        ([np.array([[0.0], [np.nan]])], None, "not finite"),
        ([np.zeros(3)], None, r"\(time, features\)"),
        ([np.zeros((3, 2))], [0, 1], "one outcome for each"),
        ([np.zeros((3, 2)), np.zeros((3, 2))], [0, None], "missing"),
    ],
)
def test_bad_trajectories_are_refused(trajectories, labels, message):
    with pytest.raises(ValueError, match=message):
        pad_trajectories(trajectories, labels)


def test_bad_lengths_and_readers_are_refused():
    padded = pad_trajectories([np.zeros((3, 2))])
    with pytest.raises(ValueError, match="`lengths` must have a number from 1 to 3"):
        as_trajectories(padded._replace(lengths=jnp.array([4])))
    with pytest.raises(ValueError, match="`time` must be at least 3"):
        as_trajectories(padded, time=2)
    with pytest.raises(ValueError, match="`num_classes` must be at least 2"):
        LearnedReaderShape(3, 1)
