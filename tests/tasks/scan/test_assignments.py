import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from recombine.tasks.scan import (
    Assignments,
    direction_slots,
    make_vocabulary,
    verb_slots,
)

VERB_PAIRS = [("walk", "I_WALK"), ("look", "I_LOOK"), ("run", "I_RUN"), ("jump", "I_JUMP")]


def draw(assignments, count):
    many = eqx.filter_jit(lambda a, keys: jax.vmap(lambda key: a.draw(key))(keys))
    return np.asarray(many(assignments, jr.split(jr.key(0), count)))


def test_permutation_draws_the_23_other_mappings_equally_often():
    vocabulary = make_vocabulary()
    slots = verb_slots(vocabulary, VERB_PAIRS)
    drawn = draw(Assignments(slots, vocabulary, fixed_words=True), 10_000)
    assert np.all(drawn[:, 0] == np.arange(4)[None])
    rows, counts = np.unique(drawn[:, 1], axis=0, return_counts=True)
    assert len(rows) == 23
    assert [0, 1, 2, 3] not in rows.tolist()
    expected = 10_000 / 23
    assert np.sum((counts - expected) ** 2 / expected) < 55  # chi-square, 22 degrees of freedom


def test_augmentation_never_gives_jump_its_meaning():
    vocabulary = make_vocabulary(20)
    jump, i_jump = vocabulary.inputs.index("jump"), vocabulary.outputs.index("I_JUMP")
    drawn = draw(Assignments(verb_slots(vocabulary, [("jump", "I_JUMP")]), vocabulary), 20_000)
    words, actions = drawn[:, 0], drawn[:, 1]
    assert all(len(set(row)) == 4 for row in words.tolist())
    assert all(len(set(row)) == 4 for row in actions.tolist())
    assert not np.any((words == jump) & (actions == i_jump))
    # P(jump is drawn | allowed) = (1/6 · 23/24) / (143/144) = 23/143.
    assert abs(np.mean(np.any(words == jump, axis=1)) - 23 / 143) < 0.01
    assert np.any((words == 0) & (actions == 0))  # walk may keep its meaning
    assert set(words.ravel()) == {0, 1, 2, 3, *range(13, 33)}
    assert set(actions.ravel()) == {0, 1, 2, 3, *range(6, 26)}


def as_mappings(drawn):
    return {frozenset(zip(*row, strict=True)) for row in drawn.tolist()}


def test_around_right_draws_63_mappings():
    vocabulary = make_vocabulary(2)
    slots = direction_slots(vocabulary, [("right", "I_TURN_RIGHT")])
    drawn = draw(Assignments(slots, vocabulary), 5_000)
    mappings = as_mappings(drawn)
    right = vocabulary.inputs.index("right"), vocabulary.outputs.index("I_TURN_RIGHT")
    left = vocabulary.inputs.index("left"), vocabulary.outputs.index("I_TURN_LEFT")
    assert len(mappings) == 63
    assert not any(right in mapping for mapping in mappings)
    assert any(left in mapping for mapping in mappings)
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    expected = 5_000 / 126
    assert np.sum((counts - expected) ** 2 / expected) < 200  # chi-square, 125 d.o.f.


def test_the_table_and_the_redraw_give_the_same_distribution():
    vocabulary = make_vocabulary(2)
    slots = direction_slots(vocabulary, [("right", "I_TURN_RIGHT")])
    assignments = eqx.tree_at(
        lambda a: a.table, Assignments(slots, vocabulary), None, is_leaf=lambda x: x is None
    )
    drawn = draw(assignments, 5_000)
    assert len(as_mappings(drawn)) == 63
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    expected = 5_000 / 126
    assert len(counts) == 126
    assert np.sum((counts - expected) ** 2 / expected) < 200


def test_length_refuses_only_the_whole_original_mapping():
    vocabulary = make_vocabulary(1)
    slots = verb_slots(vocabulary, VERB_PAIRS)
    drawn = draw(Assignments(slots, vocabulary), 20_000)
    mappings = as_mappings(drawn)
    assert frozenset((i, i) for i in range(4)) not in mappings
    assert any((3, 3) in mapping for mapping in mappings)


def test_tables_replace_slots_and_nothing_else():
    vocabulary = make_vocabulary(2)
    assignments = Assignments(direction_slots(vocabulary, [("right", "I_TURN_RIGHT")]), vocabulary)
    words, actions = assignments.tables(jnp.array([[13, 5], [7, 4]]))
    expected = np.arange(17)
    expected[[5, 6]] = [13, 5]
    np.testing.assert_array_equal(words, expected)
    expected = np.arange(10)
    expected[[4, 5]] = [7, 4]
    np.testing.assert_array_equal(actions, expected)
