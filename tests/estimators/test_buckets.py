import itertools
import random

import numpy as np
import pytest

from recombine.estimators._buckets import (
    MOST_SHAPES,
    Shape,
    assign_buckets,
    cost_of,
    make_buckets,
    pack_episode,
)
from recombine.estimators._episodes import ParsedEpisode
from recombine.estimators._symbols import Alphabet, Alphabets

ALPHABETS = Alphabets(Alphabet(("a", "b"), "inputs"), Alphabet(("A", "B"), "outputs"))


def episode_of(num_shown, num_asked, longest):
    asked = [(("a",) * (1 + i % longest), ("A",) * (1 + i % longest)) for i in range(num_asked)]
    return ParsedEpisode([(("a",), ("A",))] * num_shown, asked)


def ragged(count=300, seed=0):
    rng = random.Random(seed)
    kinds = [(2, 4, 2), (3, 4, 3), (4, 10, 6), (20, 20, 30)]
    return [episode_of(*rng.choices(kinds, weights=(10, 10, 10, 1))[0]) for _ in range(count)]


def test_every_episode_is_in_one_bucket_with_all_its_tokens():
    episodes = ragged()
    bucketed = make_buckets(episodes, ALPHABETS, most=3, ask_support=True)
    assert 1 < len(bucketed.buckets) <= 3
    assert sorted(itertools.chain(*bucketed.members)) == list(range(len(episodes)))
    for arrays, members in zip(bucketed.buckets, bucketed.members, strict=True):
        for row, number in enumerate(members):
            episode = episodes[number]
            lengths = np.asarray(arrays.support.outputs.lengths)[row]
            expected = [len(target) + 1 for _, target in episode.support]
            assert lengths[lengths > 0].tolist() == expected
            lengths = np.asarray(arrays.queries.outputs.lengths)[row]
            expected = [len(t) + 1 for _, t in [*episode.queries, *episode.support]]
            assert lengths[lengths > 0].tolist() == expected


def test_a_few_large_episodes_do_not_make_the_others_expensive():
    episodes = ragged()
    alone = make_buckets(episodes, ALPHABETS, most=1, ask_support=True)
    few = make_buckets(episodes, ALPHABETS, most=4, ask_support=True)
    assert alone.real_tokens == few.real_tokens
    assert few.padded_tokens < alone.padded_tokens / 5
    assert few.padding < 0.6 < 0.95 < alone.padding


def test_similar_episodes_share_a_bucket_even_where_more_are_allowed():
    episodes = [episode_of(4, 10, 6), episode_of(4, 9, 6)] * 10
    assert len(make_buckets(episodes, ALPHABETS, most=4, ask_support=False).buckets) == 1


@pytest.mark.parametrize("most", [1, 2, 5])
def test_hundreds_of_shapes_end_in_few_buckets(most):
    shapes = np.random.default_rng(0).integers(1, 60, size=(500, 5))
    assert len(np.unique(shapes, axis=0)) > MOST_SHAPES
    labels = assign_buckets(shapes, most)
    assert set(labels.tolist()) == set(range(most))


def test_more_buckets_never_cost_more():
    shapes = np.random.default_rng(1).integers(1, 30, size=(40, 5))

    def cost(most):
        labels = assign_buckets(shapes, most)
        return sum(
            (labels == label).sum() * cost_of(shapes[labels == label].max(axis=0))
            for label in set(labels.tolist())
        )

    costs = [cost(most) for most in (1, 2, 4, 8)]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] >= cost_of(shapes).sum()


def test_the_cost_counts_what_is_read_and_written():
    # 2 shown and 3 asked, inputs of 4; the support's outputs of 5, answers of 6.
    assert cost_of(np.array([2, 3, 4, 5, 6])) == (2 + 3) * 4 + 2 * 5 + 3 * 6


def test_absent_items_have_no_output_and_absent_queries_one_word_to_attend_to():
    pairs = [(("a", "b"), ("B",))]
    arrays = pack_episode(pairs, pairs, ALPHABETS, Shape(2, 3, 4, 2, 5))
    assert np.asarray(arrays.support.inputs.lengths).tolist() == [3, 0]
    assert np.asarray(arrays.support.outputs.lengths).tolist() == [2, 0]
    assert np.asarray(arrays.queries.inputs.lengths).tolist() == [3, 1, 1]
    assert np.asarray(arrays.queries.inputs.tokens)[:, 0].tolist() == [0, 3, 3]
    assert np.asarray(arrays.queries.outputs.lengths).tolist() == [2, 0, 0]
    assert np.asarray(arrays.queries.outputs.tokens).shape == (3, 5)
