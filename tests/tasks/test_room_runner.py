import hashlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from recombine.tasks import room_runner as rr


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """This module compiles much and computes little."""


@pytest.fixture(scope="module")
def maps():
    return [rr.sample_map(np.random.default_rng([7, number])) for number in range(200)]


@pytest.fixture(scope="module")
def runs():
    return rr.load_runs(24, seed=3)


@pytest.fixture(scope="module")
def few(runs):
    """The first of the runs, drawn; made again alone, they are the same."""
    return rr.render(rr.load_runs(16, seed=3, keep=False))


@pytest.fixture(scope="module")
def small():
    """Runs through maps of few rooms, drawn."""
    return rr.render(rr.load_runs(16, seed=3, cells=8, keep=False))


def test_rooms_have_one_of_two_shapes_and_do_not_overlap(maps):
    for one in maps:
        boxes = one.boxes[: one.num_rooms]
        assert {tuple(box) for box in boxes[:, 2:].tolist()} <= {(3, 2), (2, 3)}
        assert boxes[0, 2:].tolist() == [3, 2]
        assert 5 <= boxes[0, 0] <= 7
        assert 5 <= boxes[0, 1] <= 8
        assert (boxes[:, :2] >= 0).all()
        assert (boxes[:, :2] + boxes[:, 2:] <= rr.SIZE).all()
        assert (rr.room_at(one) >= 0).sum() == 6 * one.num_rooms  # no cell in two rooms


@pytest.mark.parametrize("cells", [8, 11])
def test_rooms_can_be_kept_to_the_middle(cells):
    low = (rr.SIZE - cells) // 2
    for number in range(30):
        one = rr.sample_map(np.random.default_rng([7, number]), cells)
        boxes = one.boxes[: one.num_rooms]
        assert (boxes[:, :2] >= low).all()
        assert (boxes[:, :2] + boxes[:, 2:] <= low + cells).all()
        assert one.final != one.decoy
    small, whole = (rr.load_runs(2, cells=number, keep=False) for number in (cells, rr.SIZE))
    drawn = rr.render(small)
    assert drawn.frames.shape[2:] == (4 * cells, 4 * cells, 3)
    # What is not drawn is the dark ground outside all rooms.
    in_full = rr.render(small._replace(cells=rr.SIZE)).frames
    margin = np.ones(in_full.shape[2:4], bool)
    columns = slice(4 * low, 4 * (low + cells))
    rows = slice(64 - columns.stop, 64 - columns.start)
    margin[rows, columns] = False
    assert (in_full[:, :, rows, columns] == drawn.frames).all()
    inner = margin & ~_beside(~margin)
    assert (in_full[:, :, inner] == 38).all()
    assert rr.render(whole).frames.shape[2:] == (64, 64, 3)


def _beside(mask):
    """Pixels of a wall lie half outside its room."""
    padded = np.pad(mask, 1)
    return sum(padded[1 + r :, 1 + c :][:64, :64] for r in (-1, 0, 1) for c in (-1, 0, 1)) > 0


def test_a_world_of_too_few_or_too_many_cells_is_refused():
    for cells in (7, 17):
        with pytest.raises(ValueError, match=f"`cells` must be from 8 to 16.*got {cells}"):
            rr.load_runs(1, cells=cells, keep=False)


def test_a_door_leads_from_a_room_to_one_of_its_children(maps):
    for one in maps:
        rooms = rr.room_at(one)
        for room in range(one.num_rooms):
            child = one.exits[room]
            if child < 0:
                assert room not in one.parents[: one.num_rooms].tolist()  # a leaf
                continue
            assert one.parents[child] == room
            row, column = one.doors[room]
            up, right = one.normals[room]
            assert abs(up) + abs(right) == 1
            assert rooms[row, column] == room
            assert rooms[row + up, column + right] == child


def test_doors_lead_from_the_first_room_to_the_final_one(maps):
    for one in maps:
        chain = one.chain[one.chain >= 0].tolist()
        assert len(set(chain)) == len(chain)
        assert chain[0] == 0
        assert [one.exits[room] for room in chain] == [*chain[1:], -1]
        assert one.final == chain[-1] != one.decoy
        assert one.exits[one.decoy] == -1
        assert {one.red, one.blue} == {one.final, one.decoy}
        assert (one.red == one.final) == (one.label == 0)


def test_walls_surround_rooms_but_for_the_doors(maps):
    for one in maps[:20]:
        open_walls, closed = rr.make_walls(one), rr.make_walls(one, as_drawn=True)
        doors = int((one.exits >= 0).sum())
        gone = (closed.lying & ~open_walls.lying).sum()
        gone += (closed.standing & ~open_walls.standing).sum()
        assert gone == doors
        assert open_walls.lying[[0, -1]].all()
        assert open_walls.standing[:, [0, -1]].all()


def test_runners_follow_the_chain_in_time(maps):
    ways = rr.simulate(maps)
    share_late = 1 - ways.arrived.mean()
    assert 0.08 <= share_late <= 0.20
    lengths = ways.lengths[ways.arrived]
    assert lengths.max() <= rr.MOST_FRAMES == 103
    assert 54 <= lengths.mean() <= 68
    for number in np.flatnonzero(ways.arrived):
        one, length = maps[number], ways.lengths[number]
        path = ways.positions[number, :length]
        assert (path > 0.24).all()
        assert (path < rr.SIZE - 0.24).all()
        cells = np.floor(path).astype(int)
        visited = rr.room_at(one)[cells[:, 0], cells[:, 1]]
        order = [
            room for place, room in enumerate(visited) if place == 0 or room != visited[place - 1]
        ]
        chain = one.chain[one.chain >= 0].tolist()
        assert [room for room in chain if room in order] == order  # in order, none beside the chain
        assert order[0] == 0
        assert order[-1] == one.final


def test_a_runner_alone_runs_as_it_does_among_others(maps):
    together, alone = rr.simulate(maps[:5]), rr.simulate(maps[3:4])
    assert together.positions[3].tobytes() == alone.positions[0].tobytes()


def test_labels_are_fair(maps):
    assert abs(np.mean([one.label for one in maps]) - 0.5) < 0.11


def test_colours_are_those_of_the_authors(runs, few):
    one, frame = runs.map_of(0), few.frames[0, 0]
    empty = rr.draw_map(one)

    def pixel(cell):  # an inner pixel of a cell
        return empty[63 - 4 * int(cell[0]) - 1, 4 * int(cell[1]) + 1].tolist()

    def middle(room):  # of the lower left cell
        return one.boxes[room, :2]

    assert pixel(middle(one.red)) == [255, 128, 128]
    assert pixel(middle(one.blue)) == [128, 128, 255]
    outside = np.argwhere(rr.room_at(one) < 0)
    assert [38, 38, 38] in [pixel(cell) for cell in outside]
    colours = {tuple(c) for c in empty.reshape(-1, 3).tolist()}
    assert (230, 243, 255) in colours  # doors
    assert (153, 153, 153) in colours  # a wall that covers 0.4 of a white pixel
    assert (22, 22, 22) in colours  # and of a dark one
    assert [0, 204, 0] in frame.reshape(-1, 3).tolist()
    covered = (1 - frame[..., 0] / 255.0) * (frame[..., 1] / 255) * (
        1 - frame[..., 2] / 255.0
    ) > 0.25
    assert 4 <= covered.sum() <= 16


def test_the_runner_is_drawn_where_it_is(runs, few):
    for item in range(4):
        for time in (0, int(few.lengths[item]) - 1):
            changed = few.frames[item, time] != rr.draw_map(runs.map_of(item))
            rows, columns = np.nonzero(changed.any(axis=-1))
            row, column = runs.positions[item, time]
            assert np.abs(rows + 0.5 - 4 * (16 - row)).max() <= 2.5
            assert np.abs(columns + 0.5 - 4 * column).max() <= 2.5


def test_items_do_not_depend_on_what_else_is_asked_for(runs, few):
    alone = rr.load_runs(1, seed=3, keep=False)
    assert alone.positions[0].tobytes() == runs.positions[0].tobytes()
    assert few.lengths.tolist() == runs.lengths[:16].tolist()
    other = rr.load_runs(4, seed=3, split="validation", keep=False)
    assert other.maps.boxes[0].tolist() != runs.maps.boxes[0].tolist()


def digests_of(drawn):
    many = zip(drawn.frames[:3], drawn.lengths[:3], strict=True)
    return [hashlib.sha256(frames[:length]).hexdigest()[:12] for frames, length in many]


def test_the_bytes_never_change(few, small):
    """A change of the generator must be meant: published numbers depend on it."""
    assert digests_of(few) == ["a966ea91911b", "ea78a7085c20", "049319d95024"]
    assert digests_of(small) == ["10ebce807fc6", "691b9839fd22", "c7f02f013e69"]


def read(reader, frames, length, context=None):
    frames = frames.astype(jnp.float32) / (255 if frames.dtype == jnp.uint8 else 1)
    memory = reader.look(frames[0], context)
    evidence = jax.vmap(lambda frame: reader.evidence(memory, frame))(frames)
    is_real = jnp.arange(len(frames)) < length
    is_present = jnp.all(jax.vmap(reader.is_present)(frames) | ~is_real)
    return reader.probabilities(jnp.sum(evidence * is_real[:, None], axis=0)), is_present


def test_the_reader_tells_the_room_from_true_frames(few, small):
    many = jax.jit(jax.vmap(lambda frames, length: read(rr.RoomReader(), frames, length)))
    for drawn in (few, small):
        probabilities, is_present = many(drawn.frames, drawn.lengths)
        assert probabilities.argmax(axis=1).tolist() == drawn.labels.tolist()
        given = probabilities[np.arange(16), drawn.labels]
        assert float(given.min()) > 0.95
        assert float(given.mean()) >= 0.995
        assert bool(is_present.all())


def test_in_few_rooms_a_runner_that_stays_is_taken_for_either_outcome_alike():
    drawn = rr.render(rr.load_runs(100, seed=3, cells=8))

    def stay(frame):
        return read(rr.RoomReader(), jnp.repeat(frame[None], 10, axis=0), 10)[0]

    probabilities = jax.jit(jax.vmap(stay))(drawn.frames[:, 0])
    given = np.asarray(probabilities)[np.arange(100), drawn.labels]
    # It may begin where the masks leak through a door, and is then near either room.
    assert 0.1 < np.mean(np.abs(given - 0.5) > 0.4) < 0.4
    assert abs(given.mean() - 0.5) < 0.08


def test_the_reader_of_rooms_tells_nothing_without_a_runner(runs):
    reader = rr.RoomReader()
    assert reader.probabilities(jnp.zeros(2)).tolist() == [0.5, 0.5]
    assert not bool(reader.is_present(jnp.ones((64, 64, 3))))
    # A model that forgets the runner draws the map alone, most of which is dark.
    assert not bool(reader.is_present(jnp.asarray(rr.draw_map(runs.map_of(0))) / 255.0))
    every_grey = jnp.linspace(0, 1, 64)[:, None, None] * jnp.ones((1, 64, 3))
    assert not bool(reader.is_present(every_grey))


def test_the_masks_leak_through_the_door_and_no_further(few, runs):
    masks = rr.RoomReader().look(jnp.asarray(few.frames[0, 0]) / 255.0)
    one = runs.map_of(0)
    for mask, room in ((masks.red, one.red), (masks.blue, one.blue)):
        row, column, height, width = one.boxes[room]
        inside = np.asarray(mask)[64 - 4 * (row + height) + 1 : 64 - 4 * row - 1,
                                  4 * column + 1 : 4 * (column + width) - 1]  # fmt: skip
        assert inside.min() > 0.5  # soft at the edges
        assert np.median(inside) == 1
        assert float(mask.sum()) < 4 * 16 * 6  # the room has 96 pixels


def test_vectors_tell_the_same_story(runs):
    vectors = rr.state_vectors(runs)
    assert vectors.frames.shape == (24, int(runs.lengths.max()), rr.STATE_SIZE)
    assert np.abs(vectors.frames).max() <= 1.0
    np.testing.assert_allclose(vectors.frames[:, 0, :2] * 8 + 8, runs.positions[:, 0], atol=1e-5)
    many = jax.jit(
        jax.vmap(lambda frames, length, c: read(rr.RoomStateReader(), frames, length, c))
    )
    probabilities, is_present = many(vectors.frames, vectors.lengths, vectors.context)
    assert float(probabilities[np.arange(24), vectors.labels].min()) > 0.99
    assert bool(is_present.all())
    view = jax.jit(rr.room_view)(vectors.frames[0, 0], vectors.context[0])
    assert view.shape == (rr.VIEW_SIZE,)
    assert np.asarray(view)[2:4].tolist() == [-1.0, -0.5]  # from the middle of a 3 x 2 room


def test_noise_of_the_thesis_can_be_added():
    calm, pushed = (rr.load_runs(2, seed=3, push_std=std, keep=False) for std in (0.0, 2.0))
    assert calm.positions[0, :10].tolist() != pushed.positions[0, :10].tolist()


def test_bad_requests_are_refused(runs):
    with pytest.raises(ValueError, match="`num_items` must be at least 1"):
        rr.load_runs(0)
    with pytest.raises(ValueError, match="`split` must be one of train, validation, test"):
        rr.load_runs(1, split="dev", keep=False)
    with pytest.raises(ValueError, match="`push_std`"):
        rr.load_runs(1, push_std=-1.0)
    with pytest.raises(ValueError, match="`time` must be at least"):
        rr.render(runs, time=5)
    with pytest.raises(ValueError, match="`time` must be at least"):
        rr.state_vectors(runs, time=5)


@pytest.mark.slow
def test_the_statistics_of_many_runs():
    runs = rr.load_runs(300, keep=False)
    assert 57 <= runs.lengths.mean() <= 66
    assert 17 <= runs.lengths.std() <= 24
    assert abs(runs.labels.mean() - 0.5) < 0.09
    many = jax.jit(jax.vmap(lambda frames, length: read(rr.RoomReader(), frames, length)[0]))
    drawn = rr.render(runs)
    given = np.concatenate([
        many(drawn.frames[i : i + 50], drawn.lengths[i : i + 50])[
            np.arange(50), drawn.labels[i : i + 50]
        ]
        for i in range(0, 300, 50)
    ])  # fmt: skip
    assert (given > 0.5).all()
    assert given.mean() >= 0.995
