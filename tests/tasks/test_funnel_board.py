import hashlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from recombine.tasks import funnel_board as fb
from recombine.tasks.funnel_board import _physics

VARIANTS = {"standard": fb.STANDARD, "zero-bounce": fb.ZERO_BOUNCE}


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """This module compiles much and computes little."""


@pytest.fixture(scope="module")
def falls():
    return fb.load_falls(60, seed=2)


@pytest.fixture(scope="module")
def few(falls):
    """The first of the falls, drawn; made again alone, they are the same."""
    return fb.render(fb.load_falls(4, seed=2, keep=False))


@pytest.fixture(scope="module", params=VARIANTS)
def played(request):
    """The falls of either variant, which are on the same boards, and how things bounce there."""
    return fb.load_falls(60, seed=2, variant=request.param), VARIANTS[request.param]


def first(falls, number):
    """The first of some falls."""
    kept = jax.tree.map(lambda leaf: leaf[:number], falls._replace(size=None))
    return kept._replace(size=falls.size)


def test_boards_are_as_described(falls):
    for item in range(60):
        board = falls.board_of(item)
        assert board.start in (-2.5, 0.0, 2.5, 5.0)
        assert board.has_slider.sum(axis=1).tolist() == [4, 5, 4, 5, 4, 5]  # rows 1 to 6
        assert board.has_funnel[0].all()
        assert not board.has_funnel[1::2, 4].any()
        assert (board.slider_angle[1::2, 0] < 0).all()  # the left one tips to the right
        assert (board.slider_angle[1::2, 4] > 0).all()
        assert (np.pi / 24 - 1e-6 <= np.abs(board.slider_angle)).all()
        assert set(np.unique(board.funnel_restitution)) <= {0.02, 0.6}
        assert ((board.funnel_gap >= 0.5225 - 1e-6) & (board.funnel_gap <= 0.55)).all()
    share = np.mean(falls.boards.has_funnel[:, 2])  # of a row with five places
    assert 0.62 < share < 0.78


def test_a_funnel_is_as_wide_as_the_pitch_and_open_below():
    height, thickness, gap = np.array(1.5), np.array(0.2), np.array(0.53)
    line = fb.wall_line(height, thickness, gap)
    np.testing.assert_allclose(line[0], [(0.2 + 0.53) / 2, -0.75], atol=1e-6)
    np.testing.assert_allclose(line[-1], [2.75 / 2 - 0.1, 0.75], atol=1e-6)
    assert (np.diff(line, axis=0) > 0).all()


def test_every_ball_lands_on_exactly_one_platform(played):
    falls, _ = played
    for item, length in enumerate(falls.lengths):
        assert length <= 251
        x, y = falls.positions[item, :length].T
        assert y[:-1].min() > -10.5
        assert -10.51 < y[-1] < -10.1  # at most two steps after it touched the platform
        assert y[0] == 9.5
        bucket = np.floor(6 * (x[-1] + 6.25) / 15)
        assert bucket == falls.labels[item]
        centers = falls.boards.funnel_center[item, 0, :, 0]
        assert np.argmin(np.abs(centers - x[-1])) == falls.labels[item]


def seconds_since_the_ground(y, speed):
    """Of a ball that lies there, or was thrown up from it."""
    return (np.sqrt(speed**2 + 20 * max(y + 10.5, 0)) - speed) / 10


def test_every_ball_comes_to_the_ground_once_and_its_fall_ends_there(played):
    falls, _ = played
    for item, length in enumerate(falls.lengths):
        y, speed = falls.positions[item, :length, 1], falls.velocities[item, :length, 1]
        assert (y[:-1] > -10.5).all()
        # Without a ground the ball would be below it in the last frame.
        assert y[-2] + 0.1 * speed[-2] - 5 * 0.1**2 < -10.49
        # There it lies then, or is a little higher because it bounced since the frame before.
        assert 0 <= seconds_since_the_ground(y[-1], speed[-1]) < 0.1


def test_between_the_frames_no_ball_comes_to_the_ground_either(played, monkeypatch):
    falls, bounciness = played
    boards = [falls.board_of(item) for item in range(8)]
    monkeypatch.setattr(_physics, "STEPS_PER_FRAME", 1)
    every = fb.simulate(boards, bounciness)
    for item in range(8):
        steps, frames = every.lengths[item] - 1, falls.lengths[item]
        assert steps <= 750
        assert frames == -(-steps // 3) + 1
        path, last_speed = every.positions[item, : steps + 1], every.velocities[item, steps, 1]
        assert path[::3].tobytes() == falls.positions[item, : steps // 3 + 1].tobytes()
        assert (path[:-1, 1] > -10.5).all()
        assert 0 <= seconds_since_the_ground(path[-1, 1], last_speed) < 1 / 30


def test_no_ball_enters_a_wall(played):
    falls, bounciness = played
    boards = [falls.board_of(item) for item in range(20)]
    for things in fb.make_things(boards, bounciness):
        for item in range(20):
            path = falls.positions[item, : falls.lengths[item], None]
            segments = things.segments[item].reshape(-1, 4)
            a, edge = segments[:, :2], segments[:, 2:] - segments[:, :2]
            share = np.sum((path - a) * edge, axis=-1) / np.sum(edge**2, axis=-1)
            nearest = a + np.clip(share, 0, 1)[..., None] * edge
            distance = np.sqrt(np.sum((path - nearest) ** 2, axis=-1))
            assert distance.min() > 0.25 - 0.02


def test_falls_look_like_the_published_ones(falls):
    calm = fb.load_falls(60, seed=2, variant="zero-bounce")
    assert 110 <= falls.lengths.mean() <= 134
    assert 88 <= calm.lengths.mean() <= 107
    assert (calm.labels == falls.labels).mean() >= 0.8
    assert (calm.boards.slider_angle == falls.boards.slider_angle).all()  # the same boards
    given_up = falls.attempts.sum() / (falls.attempts.sum() + 60)
    assert 0.03 <= given_up <= 0.3


def test_a_ball_alone_falls_as_it_does_among_others(falls):
    boards = [falls.board_of(item) for item in range(6)]
    together, alone = fb.simulate(boards), fb.simulate(boards[4:5])
    length = alone.lengths[0]
    assert together.positions[4, :length].tobytes() == alone.positions[0, :length].tobytes()


def test_what_bounces_is_the_larger_of_two(falls):
    funnels, sliders, platforms = fb.make_things([falls.board_of(0)], fb.STANDARD)
    assert set(np.unique(funnels.restitution)) <= {0.2, 0.6}
    assert set(np.unique(sliders.restitution)) == {0.2}
    assert set(np.unique(platforms.restitution)) == {0.2}
    funnels, sliders, _ = fb.make_things([falls.board_of(0)], fb.ZERO_BOUNCE)
    assert set(np.unique(funnels.restitution)) == {0.05}
    assert set(np.unique(sliders.restitution)) == {0.1}


def is_cyan(frames):
    red, green, blue = (frames[..., channel].astype(int) for channel in range(3))
    return (green - red > 40) & (blue - red > 40)


def test_the_trace_is_where_the_ball_was(played):
    falls = first(played[0], 4)
    drawn = fb.render(falls)
    assert drawn.frames.shape[2:] == fb.IMAGE_SHAPE == (126, 75, 3)
    above = drawn.frames[:, :, :124]  # the platforms have colours of their own
    assert not is_cyan(above[:, 0]).any()
    for item in range(4):
        assert is_cyan(above[item]).any()
        for time in range(1, int(drawn.lengths[item])):
            rows, columns = np.nonzero(is_cyan(above[item, time]))
            x, y = falls.positions[item, time - 1]
            assert (np.hypot(rows + 0.5 - 6 * (10 - y), columns + 0.5 - 6 * (x + 6.25)) < 2.3).all()


def test_colours_are_those_of_the_authors(few):
    ball = few.frames[0, 0]
    assert [0, 0, 255] in ball.reshape(-1, 3).tolist()
    assert [0, 0, 0] in ball.reshape(-1, 3).tolist()  # obstacles
    moving = few.frames[0, 5:40].reshape(-1, 3)
    assert [85, 255, 255] in moving.tolist()
    assert ball[125, 7].tolist()[0] < 255  # a green platform, from the left
    assert ball[125, 67].tolist()[2] == 255  # a blue one


def test_the_ball_lies_beneath_what_stands(falls):
    scene = fb.make_scene(falls.board_of(0))
    slider = falls.boards.slider_center[0, 5, 1]
    frame = fb.draw_ball(scene, np.stack([slider, slider]))[0]
    row, column = int(6 * (10 - slider[1])), int(6 * (slider[0] + 6.25))
    assert frame[row, column].max() < 128


def test_items_do_not_depend_on_what_else_is_asked_for(falls, few):
    among_others = fb.render(first(falls, 4))
    assert few.lengths.tolist() == among_others.lengths.tolist()
    assert few.frames.tobytes() == among_others.frames.tobytes()
    other = fb.load_falls(2, seed=2, split="validation", keep=False)
    assert other.boards.slider_angle[0].tolist() != falls.boards.slider_angle[0].tolist()


def digests_of(drawn):
    many = zip(drawn.frames[:3], drawn.lengths[:3], strict=True)
    return [hashlib.sha256(frames[:length]).hexdigest()[:12] for frames, length in many]


def test_the_bytes_never_change(few):
    """A change of the generator must be meant: published numbers depend on it."""
    assert digests_of(few) == ["7851a748f8da", "58941144f41f", "a71ccdc1e959"]


@pytest.mark.parametrize(
    ("settings", "digests"),
    [
        ({"variant": "zero-bounce"}, ["d3511807b63a", "043920b4d95d", "b5423cc82cc8"]),
        ({"size": fb.Size(2, 3)}, ["3afb42c56c8b", "dd0c4e92ac14", "5dcfa8c84359"]),
        (
            {"variant": "zero-bounce", "size": fb.Size(2, 3)},
            ["92e2aa863470", "8907d83f3064", "ba881da08d7e"],
        ),
    ],
    ids=["zero-bounce", "small", "small, zero-bounce"],
)
def test_the_bytes_of_other_games_never_change(settings, digests):
    assert digests_of(fb.render(fb.load_falls(3, seed=2, keep=False, **settings))) == digests


def read(reader, frames, length):
    frames = frames.astype(jnp.float32) / (255 if frames.dtype == jnp.uint8 else 1)
    evidence = jax.vmap(lambda frame: reader.evidence(None, frame))(frames)
    is_real = jnp.arange(len(frames)) < length
    is_present = jnp.all(jax.vmap(reader.is_present)(frames) | ~is_real)
    last = evidence[length - 1]
    total = jnp.sum(evidence * is_real[:, None], axis=0)
    return reader.probabilities(total), reader.probabilities(last), is_present


def test_the_reader_tells_the_platform_from_true_frames(played):
    drawn = fb.render(first(played[0], 12))
    probabilities, last, is_present = jax.jit(
        jax.vmap(lambda f, n: read(fb.PlatformReader(), f, n))
    )(drawn.frames, drawn.lengths)
    assert probabilities.argmax(axis=1).tolist() == drawn.labels.tolist()
    assert float(probabilities[np.arange(12), drawn.labels].min()) > 0.999
    assert float(last[np.arange(12), drawn.labels].min()) > 0.99
    assert bool(is_present.all())


def test_the_reader_of_platforms_tells_nothing_without_a_ball(few):
    reader = fb.PlatformReader()
    np.testing.assert_allclose(reader.probabilities(jnp.zeros(5)), np.full(5, 0.2), rtol=1e-6)
    empty = jnp.asarray(few.frames[0, 0]).at[:20].set(255) / 255.0  # the ball is taken away
    assert not bool(reader.is_present(empty))


def test_vectors_tell_the_same_story(falls):
    vectors = fb.state_vectors(falls)
    assert vectors.frames.shape == (60, int(falls.lengths.max()), fb.STATE_SIZE)
    reader = fb.PlatformStateReader()
    probabilities, _, is_present = jax.jit(jax.vmap(lambda f, n: read(reader, f, n)))(
        vectors.frames, vectors.lengths
    )
    assert float(probabilities[np.arange(60), vectors.labels].min()) > 0.99
    assert bool(is_present.all())
    view = np.asarray(jax.jit(fb.board_view)(vectors.frames[0, 0], vectors.context[0]))
    assert view.shape == (fb.VIEW_SIZE,)
    np.testing.assert_allclose(view[4:6], [0.0, 2.0], atol=1e-5)  # straight above its slider


@pytest.fixture(scope="module")
def small():
    return fb.load_falls(40, seed=2, size=fb.Size(2, 3))


def test_a_small_board_has_fewer_rows_and_columns(small):
    boards = small.boards
    assert set(boards.has_slider.sum(axis=(1, 2))) == {2 + 3}  # rows 1 and 2
    assert not boards.has_slider[:, 2:].any()
    assert not boards.has_funnel[:, 2:].any()  # the ball begins above the highest sliders
    assert boards.has_funnel[:, 0].all(axis=0).tolist() == [False, True, True, True, False]
    assert boards.has_funnel[:, 1].any(axis=0).tolist() == [False, True, True, False, False]
    assert (boards.slider_angle[:, 1, 1] < 0).all()  # the outermost tip inwards
    assert (boards.slider_angle[:, 1, 3] > 0).all()
    assert set(boards.start) == {-2.5, 0.0, 2.5}


def test_balls_on_a_small_board_land_on_one_of_three_platforms(small):
    assert set(small.labels) == {0, 1, 2}
    for item, length in enumerate(small.lengths):
        x, y = small.positions[item, :length].T
        assert y[0] == 9.5 - 12
        assert y[-1] < -10.1
        assert np.abs(x).max() < 3.75
        assert np.floor((x[-1] + 3.75) / 2.5) == small.labels[item]
    assert 40 <= small.lengths.mean() <= 52


def test_of_a_small_board_its_part_of_the_image_is_drawn(small):
    few = fb.load_falls(2, seed=2, size=fb.Size(2, 3), keep=False)
    assert few.lengths.tolist() == small.lengths[:2].tolist()
    drawn = fb.render(few)
    assert drawn.frames.shape[2:] == (54, 45, 3)
    whole = fb.render(few._replace(size=fb.WHOLE)).frames
    np.testing.assert_array_equal(drawn.frames, whole[:, :, 72:, 15:60])
    elsewhere = whole.copy()
    elsewhere[:, :, 70:, 13:62] = 255  # the rims of the outermost funnels stand out a little
    assert (elsewhere[:, :, :120] == 255).all()  # but for the outermost platforms


def test_readers_know_the_platforms_of_a_small_board(small):
    drawn = fb.render(small)
    for reader, told in (
        (fb.PlatformReader(3), drawn),
        (fb.PlatformStateReader(3), fb.state_vectors(small)),
    ):
        probabilities, _, is_present = jax.jit(jax.vmap(lambda f, n, r=reader: read(r, f, n)))(
            told.frames, told.lengths
        )
        assert probabilities.shape == (40, 3)
        assert float(probabilities[np.arange(40), small.labels].min()) > 0.99
        assert bool(is_present.all())


def test_a_reader_of_another_board_is_refused(small):
    with pytest.raises(ValueError, match=r"5 platforms is 75 pixels wide; got .* \(54, 45, 3\)"):
        fb.PlatformReader().evidence(None, fb.render(small).frames[0, 0] / 255.0)


def test_a_ball_above_the_highest_row_of_a_small_board_sees_that_row(small):
    vectors = fb.state_vectors(small)
    see = jax.jit(jax.vmap(jax.vmap(fb.board_view, in_axes=(0, None))))
    assert float(jnp.abs(see(vectors.frames[:5], vectors.context[:5])).max()) < 5
    reader, frame = fb.PlatformStateReader(3), vectors.frames[0, 0]
    assert bool(reader.is_present(frame))
    assert not bool(
        reader.is_present(jnp.asarray(frame).at[0].set(0.7))
    )  # beside a board of three columns


def test_sizes_that_cannot_be_are_refused():
    for size in ((3, 5), (6, 4)):
        with pytest.raises(ValueError, match=f"2, 4 or 6 rows, and 3 or 5 columns; got {size[0]}"):
            fb.load_falls(1, size=fb.Size(*size))


def test_bad_requests_are_refused(falls):
    with pytest.raises(ValueError, match="`num_items` must be at least 1"):
        fb.load_falls(0)
    with pytest.raises(ValueError, match="`variant` must be one of standard, zero-bounce"):
        fb.load_falls(1, variant="bouncy")
    with pytest.raises(ValueError, match="`time` must be at least"):
        fb.render(falls, time=5)
    with pytest.raises(ValueError, match="`time` must be at least"):
        fb.state_vectors(falls, time=5)


@pytest.mark.slow
def test_the_statistics_of_many_falls():
    falls = fb.load_falls(500)
    assert 114 <= falls.lengths.mean() <= 130
    assert 15 <= falls.lengths.std() <= 23
    shares = np.bincount(falls.labels, minlength=5) / 500
    assert np.abs(shares - [0.10, 0.23, 0.28, 0.26, 0.13]).max() <= 0.07
    given_up = falls.attempts.sum() / (falls.attempts.sum() + 500)
    assert 0.08 <= given_up <= 0.22
    calm = fb.load_falls(500, variant="zero-bounce")
    assert 92 <= calm.lengths.mean() <= 103
    assert (calm.labels == falls.labels).mean() >= 0.8


@pytest.mark.slow
def test_the_reader_is_right_on_many_falls(falls):
    drawn, reader = fb.render(falls), fb.PlatformReader()
    many = jax.jit(jax.vmap(lambda f, n: read(reader, f, n)[0]))
    given = np.concatenate([
        many(drawn.frames[i : i + 10], drawn.lengths[i : i + 10])[
            np.arange(10), drawn.labels[i : i + 10]
        ]
        for i in range(0, 60, 10)
    ])  # fmt: skip
    assert given.min() > 0.5
    assert given.mean() >= 0.995
