import itertools

import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import pytest

from recombine.tasks import scan
from recombine.tasks.scan import meaning


@eqx.filter_jit
def draw(source, key, count):
    held_key, key = jr.split(key)
    held = source.begin(held_key)
    episodes = jax.vmap(lambda key: source.sample(held, key))(jr.split(key, count))
    return episodes, source.validation(held), source.tests(held, key)


def sample(source, count, seed=0):
    return jax.tree.map(np.asarray, draw(source, jr.key(seed), count))


def read(source, pairs, i=None):
    """Turns arrays back into pairs of symbol lists."""
    if i is not None:
        pairs = jax.tree.map(lambda x: x[i], pairs)
    words, actions = source.vocabulary.inputs, source.vocabulary.outputs
    for tokens, length in zip(*pairs.inputs, strict=True):
        assert tokens[length - 1] == words.eos
        assert np.all(tokens[length:] == words.sos)
    inputs = [words.decode(tokens) for tokens in pairs.inputs.tokens]
    outputs = [actions.decode(tokens) for tokens in pairs.outputs.tokens]
    assert [len(s) + 1 for s in inputs] == pairs.inputs.lengths.tolist()
    assert [len(s) + 1 for s in outputs] == pairs.outputs.lengths.tolist()
    return list(zip(inputs, outputs, strict=True))


def solve(support, queries, slots, slot_actions, words, actions):
    """Finds every assignment that explains the support, and checks that it answers the queries.

    A slow, symbolic solver: tries the ways of putting the words that occur in the slots.
    """
    used = {word for source, _ in support + queries for word in source} & set(words)
    seen = {action for _, target in support + queries for action in target} & set(actions)
    explained = 0
    for targets in itertools.permutations(sorted(seen), len(used)):
        act = dict(zip(sorted(used), targets, strict=True))
        back = dict(zip(sorted(used), slots, strict=False))

        def translate(source, act=act, back=back):
            original = meaning([back.get(word, word) for word in source])
            forward = {slot_actions[slots.index(back[word])]: act[word] for word in back}
            return [forward.get(action, action) for action in original]

        if all(translate(source) == target for source, target in support):
            explained += 1
            assert all(translate(source) == target for source, target in queries)
    return explained


VERB_ACTIONS = ("I_WALK", "I_LOOK", "I_RUN", "I_JUMP")


@pytest.fixture(scope="module")
def permutation():
    source = scan.add_jump_permutation()
    return source, sample(source, 300)


def test_permutation_episodes_are_solved_by_a_symbolic_reader(permutation):
    source, (episodes, _, _) = permutation
    assert episodes.queries.inputs.tokens.shape == (300, 20, 10)
    assert episodes.support.outputs.tokens.shape == (300, 20, 49)
    for i in range(20):
        support = read(source, episodes.support, i)
        queries = read(source, episodes.queries, i)
        commands = [tuple(words) for words, _ in support + queries]
        assert len(set(commands)) == 40
        assert solve(support, queries, scan.VERBS, VERB_ACTIONS, scan.VERBS, VERB_ACTIONS) == 1


def test_permutation_commands_are_uniform_over_the_language(permutation):
    _, (episodes, _, _) = permutation
    lengths = np.concatenate(
        [episodes.queries.inputs.lengths.ravel(), episodes.support.inputs.lengths.ravel()]
    )
    assert abs(lengths.mean() - 1 - 7.25) < 0.05


def test_permutation_validation_has_the_original_meanings(permutation):
    source, (_, validation, _) = permutation
    for i in range(5):
        for part in validation:
            assert all(tuple(y) == meaning(x) for x, y in read(source, part, i))


def test_add_jump_test_shows_four_primitives_and_asks_everything(permutation):
    source, (_, _, tests) = permutation
    support, queries = tests["test"]
    assert support.inputs.lengths.shape == (1, 4)
    assert queries.inputs.lengths.shape == (1, 7706)
    shown = read(source, support, 0)
    assert shown == [([v], [a]) for v, a in zip(scan.VERBS, VERB_ACTIONS, strict=True)]
    asked = {tuple(x): tuple(y) for x, y in read(source, queries, 0)}
    assert asked == dict(scan.make_split("add-jump").test)
    assert not set(asked) & {tuple(x) for x, _ in shown}


def test_augmentation_episodes_use_four_primitives():
    source = scan.add_jump_augmentation(max_actions=8)
    episodes, _, tests = sample(source, 100)
    primitives = {*scan.VERBS, *map(str, range(1, 21))}
    actions = {*VERB_ACTIONS, *(f"I_{i}" for i in range(1, 21))}
    for i in range(10):
        support = read(source, episodes.support, i)
        queries = read(source, episodes.queries, i)
        used = {word for x, _ in support + queries for word in x} & primitives
        assert len(used) <= 4
        assert ("jump", ["I_JUMP"]) not in [(" ".join(x), y) for x, y in support + queries]
        # Which of the four words stands for which verb does not matter: verbs are alike.
        explained = solve(support, queries, scan.VERBS, VERB_ACTIONS, primitives, actions)
        assert explained == 1
    assert tests["test"].support.inputs.lengths.shape == (1, 4)


def test_around_right_episodes_exchange_directions():
    source = scan.around_right()
    episodes, _, tests = sample(source, 100)
    words, actions = ("left", "right", "1", "2"), ("I_TURN_LEFT", "I_TURN_RIGHT", "I_1", "I_2")
    slots, slot_actions = scan.DIRECTIONS, ("I_TURN_LEFT", "I_TURN_RIGHT")
    for i in range(20):
        support = read(source, episodes.support, i)
        queries = read(source, episodes.queries, i)
        assert solve(support, queries, slots, slot_actions, words, actions) == 1
    support, queries = tests["test"]
    assert queries.inputs.lengths.shape == (1, 4476)
    assert read(source, support, 0) == [
        (["turn", "left"], ["I_TURN_LEFT"]),
        (["turn", "right"], ["I_TURN_RIGHT"]),
    ]
    asked = dict(scan.make_split("around-right").test)
    assert {tuple(x): tuple(y) for x, y in read(source, queries, 0)} == asked


@pytest.mark.slow
def test_length_episodes_ask_longer_commands_than_they_show():
    source = scan.longer_commands()
    episodes, validation, tests = sample(source, 50)
    shown, asked = episodes.support.outputs.lengths - 1, episodes.queries.outputs.lengths - 1
    assert (shown.shape, asked.shape) == ((50, 100), (50, 20))
    assert (shown.min(), shown.max()) == (1, 11)
    assert (asked.min(), asked.max()) == (12, 22)
    assert validation.queries.outputs.lengths.min() - 1 >= 24
    assert validation.support.outputs.lengths.max() - 1 <= 22
    support, queries = tests["test"]
    np.testing.assert_array_equal(support.inputs.tokens, validation.support.inputs.tokens)
    assert support.inputs.lengths.shape == (5, 100)
    assert queries.outputs.lengths.shape == (5, 3920)
    lengths = queries.outputs.lengths - 1
    assert (lengths.min(), lengths.max()) == (24, 48)


def test_short_commands_make_small_episodes():
    source = scan.add_jump_permutation(num_support=4, num_queries=3, max_actions=3)
    episodes, _, tests = sample(source, 5)
    assert episodes.support.outputs.tokens.shape == (5, 4, 4)
    assert episodes.queries.outputs.tokens.shape == (5, 3, 4)
    assert np.all(tests["test"].queries.outputs.lengths <= 4)
    with pytest.raises(ValueError, match="`max_actions`"):
        scan.add_jump_permutation(max_actions=1)


def test_draws_are_the_same_for_the_same_key(permutation):
    source, (episodes, _, _) = permutation
    again, _, _ = sample(source, 300)
    other, _, _ = sample(source, 300, seed=1)
    assert eqx.tree_equal(episodes, again)
    assert not eqx.tree_equal(episodes, other)
