import equinox as eqx
import jax
import jax.random as jr
import numpy as np
import pytest

from recombine.tasks.mutual_exclusivity import VOCABULARY, MutualExclusivity, all_mappings

SOS, EOS = VOCABULARY.inputs.sos, VOCABULARY.inputs.eos


@pytest.fixture(scope="module")
def run():
    source = MutualExclusivity(num_dense=60)

    @eqx.filter_jit
    def draw(source, key):
        held_key, sample_key, test_key = jr.split(key, 3)
        held = source.begin(held_key)
        keys = jr.split(sample_key, 1500)
        episodes = jax.vmap(lambda key: source.sample(held, key))(keys)
        return held, episodes, source.tests(held, test_key)

    return jax.tree.map(np.asarray, draw(source, jr.key(0)))


def mapping_of(support, queries):
    """Reads the mapping off one episode, whoever was withheld."""
    meaning = dict(zip(support.inputs.tokens[:, 0], support.outputs.tokens[:, 0], strict=True))
    (withheld,) = set(range(4)) - set(meaning)
    (left,) = set(range(4)) - set(meaning.values())
    meaning[withheld] = left
    return tuple(int(meaning[word]) for word in range(4)), withheld


def episode_at(episodes, i):
    return jax.tree.map(lambda x: x[i], episodes)


def test_training_uses_nineteen_mappings_and_testing_the_other_five(run):
    held, episodes, tests = run
    mappings = [tuple(row) for row in np.asarray(all_mappings()).tolist()]
    heldout = {mappings[i] for i in held.mappings}
    trained = {mapping_of(*episode_at(episodes, i))[0] for i in range(1500)}
    tested = {mapping_of(*episode_at(tests["test"], i))[0] for i in range(5)}
    dense = {mapping_of(*episode_at(tests["dense"], i)) for i in range(20)}
    assert len(heldout) == 5
    assert tested == heldout
    assert trained == set(mappings) - heldout
    assert dense == {(mapping, word) for mapping in heldout for word in range(4)}


def test_queries_are_distinct_and_translated_word_by_word(run):
    _, episodes, tests = run
    lengths = []
    for stacked, count in [(episodes, 200), (tests["dense"], 20)]:
        for i in range(count):
            support, queries = episode_at(stacked, i)
            meaning, _ = mapping_of(support, queries)
            seen = set()
            for tokens, length, target, target_length in zip(
                *queries.inputs, *queries.outputs, strict=True
            ):
                words = tuple(tokens[: length - 1])
                assert 2 <= len(words) <= 6
                assert tokens[length - 1] == EOS
                assert set(tokens[length:]) <= {SOS}
                assert target_length == length
                assert tuple(target[: length - 1]) == tuple(meaning[word] for word in words)
                assert target[length - 1] == EOS
                assert words not in seen
                seen.add(words)
                lengths.append(len(words))
            assert len(seen) == queries.inputs.lengths.shape[0]
    assert set(lengths) == {2, 3, 4, 5, 6}


def test_each_word_is_withheld_equally_often(run):
    _, episodes, _ = run
    withheld = [mapping_of(*episode_at(episodes, i))[1] for i in range(1500)]
    counts = np.bincount(withheld, minlength=4)
    assert np.sum((counts - 375) ** 2 / 375) < 20  # chi-square, 3 degrees of freedom
    assert np.all(episodes.support.inputs.lengths == 2)


def test_runs_hold_out_different_mappings():
    source = MutualExclusivity()
    begin = eqx.filter_jit(lambda source, key: source.begin(key).mappings)
    drawn = {tuple(begin(source, jr.key(seed)).tolist()) for seed in range(10)}
    assert len(drawn) > 5


def test_refuses_to_hold_out_everything():
    with pytest.raises(ValueError, match="`num_heldout`"):
        MutualExclusivity(num_heldout=24)
