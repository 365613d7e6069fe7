import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from PIL import Image

from recombine.tasks.life import (
    LABEL_RATE,
    advance,
    draw_boards,
    draw_time_order,
    evolve,
    make_oracle,
    restore_time,
    sample_life,
    scramble_time,
)
from recombine.tasks.trajectories import save_picture

IN_ORDER = jnp.arange(3)


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are many here, and small."""


def board_of(*rows: str):
    return jnp.array([[cell == "#" for cell in row] for row in rows])


def advance_slowly(board: np.ndarray) -> np.ndarray:
    """The four rules, cell by cell, with a dead border."""
    after = np.zeros_like(board)
    for i, j in np.ndindex(*board.shape):
        block = board[max(i - 1, 0) : i + 2, max(j - 1, 0) : j + 2]
        neighbors = int(block.sum()) - int(board[i, j])
        after[i, j] = neighbors in (2, 3) if board[i, j] else neighbors == 3
    return after


def test_still_lives_blinkers_and_gliders():
    block = board_of("....", ".##.", ".##.", "....")
    np.testing.assert_array_equal(advance(block), block)
    blinker = board_of(".....", "..#..", "..#..", "..#..", ".....")
    np.testing.assert_array_equal(advance(blinker), blinker.T)
    np.testing.assert_array_equal(evolve(blinker, 2)[-1], blinker)
    glider = jnp.zeros((9, 9), bool).at[:3, :3].set(board_of(".#.", "..#", "###"))
    np.testing.assert_array_equal(evolve(glider, 4)[-1], jnp.roll(glider, (1, 1), (0, 1)))
    nothing = jnp.zeros((5, 5), bool)
    assert not evolve(nothing, 3).any()


def test_the_edges_are_dead_or_joined():
    glider = jnp.zeros((5, 5), bool).at[:3, :3].set(board_of(".#.", "..#", "###"))
    around = evolve(glider, 20, torus=True)[-1]  # five cells down and right: back where it was
    np.testing.assert_array_equal(around, glider)
    stuck = evolve(glider, 20)[-1]  # ends as a block in the corner
    np.testing.assert_array_equal(stuck, jnp.zeros((5, 5), bool).at[3:, 3:].set(True))


def test_the_rules_agree_with_a_slow_version():
    boards = jr.bernoulli(jr.key(0), 0.4, (20, 7, 9))
    found = jax.vmap(advance)(boards)
    expected = np.stack([advance_slowly(np.asarray(board)) for board in boards])
    np.testing.assert_array_equal(found, expected)


def test_examples_are_a_board_its_future_and_the_last_middle():
    examples = sample_life(jr.key(0), IN_ORDER, num_examples=50)
    assert examples.privileged.shape == (50, 3, 17, 17)
    before = np.asarray(examples.inputs, bool)
    for step in range(3):
        after = np.stack([advance_slowly(board) for board in before])
        np.testing.assert_array_equal(np.asarray(examples.privileged[:, step], bool), after)
        before = after
    np.testing.assert_array_equal(before[:, 8, 8], examples.labels)


def test_labels_and_boards_are_as_frequent_as_measured():
    examples = sample_life(jr.key(0), IN_ORDER, num_examples=20_000)
    assert abs(np.asarray(examples.labels).mean() - LABEL_RATE) < 0.01
    assert abs(np.asarray(examples.inputs).mean() - 0.40) < 0.002
    alive = np.asarray(examples.privileged).mean(axis=(0, 2, 3))
    np.testing.assert_allclose(alive, [0.36, 0.32, 0.29], atol=0.01)


def test_the_edge_changes_trajectories_and_never_a_label():
    dead = sample_life(jr.key(3), IN_ORDER, num_examples=1000)
    joined = sample_life(jr.key(3), IN_ORDER, num_examples=1000, torus=True)
    np.testing.assert_array_equal(dead.labels, joined.labels)
    assert jnp.any(dead.privileged != joined.privileged)
    middle = np.s_[:, :, 3:-3, 3:-3]  # what the edge cannot reach in three steps
    np.testing.assert_array_equal(dead.privileged[middle], joined.privileged[middle])


def test_the_scrambled_order_is_the_same_for_all_and_undone_by_the_oracle():
    truth = sample_life(jr.key(0), IN_ORDER, num_examples=40)
    for seed in range(4):
        order = draw_time_order(jr.key(seed))
        scrambled = sample_life(jr.key(0), order, num_examples=40)
        np.testing.assert_array_equal(scrambled.inputs, truth.inputs)
        np.testing.assert_array_equal(scrambled.labels, truth.labels)
        np.testing.assert_array_equal(scrambled.privileged, truth.privileged[:, order])
        oracle = make_oracle(order)
        taught = oracle.places[np.array([2, 5, 8])]  # layers 3, 6 and 9
        np.testing.assert_array_equal(scrambled.privileged[:, taught], truth.privileged)
        np.testing.assert_array_equal(restore_time(scrambled.privileged, order), truth.privileged)


def test_every_order_is_drawn():
    orders = jax.vmap(draw_time_order)(jr.split(jr.key(0), 200))
    assert len(np.unique(np.asarray(orders), axis=0)) == 6


def test_the_oracle_teaches_every_third_layer_one_frame():
    order = jnp.array([1, 2, 0])
    oracle = make_oracle(order)
    assert oracle.gates.tolist() == [0, 0, 1] * 3
    weights = oracle.weights(3)
    np.testing.assert_allclose(weights.sum(axis=0), np.ones(9), rtol=1e-6)
    assert weights[:, 2].tolist() == [0, 0, 1]  # the board after one step stands last
    assert weights[:, 8].tolist() == [0, 1, 0]
    np.testing.assert_allclose(jax.nn.softmax(oracle.logits(3), axis=0), weights, atol=1e-6)


def test_a_trajectory_can_be_looked_at(tmp_path):
    boards = np.zeros((3, 5, 5), bool)
    boards[0, 0, 0] = boards[2, 2, 2] = True
    frames = draw_boards(boards, pixels=6)
    assert frames.shape == (3, 31, 31, 3)
    assert frames[0, 3, 3].tolist() == [40, 40, 60]  # alive
    assert frames[1, 3, 3].tolist() == [255, 255, 255]  # dead
    red = (frames == (200, 30, 30)).all(axis=-1)
    reach = [np.flatnonzero(each.any(axis=0)) for each in red]
    assert [(each[0], each[-1]) for each in reach] == [(0, 30), (6, 24), (12, 18)]
    assert frames[2, 15, 15].tolist() == [40, 40, 60]  # the middle stays visible in its frame
    with Image.open(save_picture(frames, tmp_path / "life.png", scale=1)) as picture:
        assert picture.size == (3 * 31 + 2 * 4, 31)
    assert not (draw_boards(boards, show_reach=False) == (200, 30, 30)).all(axis=-1).any()


def test_bad_requests_are_refused():
    with pytest.raises(ValueError, match="`size` must be odd"):
        sample_life(jr.key(0), IN_ORDER, num_examples=1, size=16)
    with pytest.raises(ValueError, match="`num_examples` must be at least 1"):
        sample_life(jr.key(0), IN_ORDER, num_examples=0)
    with pytest.raises(ValueError, match="`alive` is a chance"):
        sample_life(jr.key(0), IN_ORDER, num_examples=1, alive=1.5)
    with pytest.raises(ValueError, match="`num_steps` must be at least 1"):
        draw_time_order(jr.key(0), 0)
    with pytest.raises(ValueError, match=r"`order` must name each place.*\[2, 3\] and \[4\]"):
        scramble_time(jnp.zeros((2, 3)), jnp.arange(4))
    with pytest.raises(ValueError, match=r"rows and columns only.*vmap"):
        advance(jnp.zeros((2, 3, 3), bool))
    with pytest.raises(ValueError, match="`layers_per_step` must be at least 1"):
        make_oracle(IN_ORDER, layers_per_step=0)
    with pytest.raises(ValueError, match="axes of time, rows and columns"):
        draw_boards(np.zeros((5, 5)))
    with pytest.raises(ValueError, match="`pixels` of a cell must be at least 4"):
        draw_boards(np.zeros((1, 5, 5)), pixels=2)
