"""Episodes of many shapes in few arrays, so that little of what a network reads is padding.

A network needs arrays of fixed shapes, and every further shape is a further compilation. Episodes
are therefore sorted into a few buckets, and each is padded only to the largest of its own bucket.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Int

from recombine.estimators._episodes import Pair, ParsedEpisode
from recombine.estimators._symbols import Alphabets, Pairs, Sequences

MOST_SHAPES = 64
"""Shapes that are compared with each other; where there are more, similar ones are one."""

FREE_PADDING = 1.2
"""Buckets are merged as long as all of them together cost at most so much more than no padding."""


class Shape(NamedTuple):
    """What an episode must fit into; widths count the end of the sequence."""

    shown: int
    asked: int
    input_width: int  # of support and queries, which are read together
    shown_width: int  # of the support's outputs
    answer_width: int


class EpisodeArrays(NamedTuple):
    """Episodes as the networks read them, stacked along a leading axis."""

    support: Pairs
    queries: Pairs


class Bucketed(NamedTuple):
    """All episodes, sorted into buckets."""

    buckets: list[EpisodeArrays]
    members: list[Int[np.ndarray, " episodes"]]  # the numbers of each bucket's episodes
    real_tokens: int
    padded_tokens: int  # the real ones included

    @property
    def padding(self) -> float:
        """The share of padding in what is read and written."""
        return 1 - self.real_tokens / self.padded_tokens


def make_buckets(
    episodes: Sequence[ParsedEpisode], alphabets: Alphabets, *, most: int, ask_support: bool
) -> Bucketed:
    """Sorts episodes into at most `most` buckets of similar shapes.

    With `ask_support`, the support pairs are appended to the queries.
    """
    asked = [[*episode.queries, *(episode.support if ask_support else [])] for episode in episodes]
    shapes = np.array(
        [_shape(episode.support, asks) for episode, asks in zip(episodes, asked, strict=True)]
    )
    labels = assign_buckets(shapes, most)
    buckets, members, padded = [], [], 0
    for label in range(labels.max() + 1):
        numbers = np.flatnonzero(labels == label)
        largest = shapes[numbers].max(axis=0)
        padded += len(numbers) * int(cost_of(largest))
        shape = Shape(*largest.tolist())
        stacked = [
            pack_episode(episodes[number].support, asked[number], alphabets, shape)
            for number in numbers.tolist()
        ]
        buckets.append(jax.tree.map(lambda *leaves: np.stack(leaves), *stacked))
        members.append(numbers)
    real = sum(
        len(source) + len(target) + 2
        for episode, asks in zip(episodes, asked, strict=True)
        for source, target in [*episode.support, *asks]
    )
    return Bucketed(buckets, members, real, padded)


def assign_buckets(
    shapes: Int[np.ndarray, "episodes sizes"],
    most: int,
    cost: Callable[[np.ndarray], np.ndarray] | None = None,
) -> Int[np.ndarray, " episodes"]:
    """Returns the bucket of each episode, given its `Shape`, or other sizes and their `cost`.

    Starts from one bucket per shape and merges the two that add the least padding, until there
    are at most `most` and merging more would no longer be nearly free.

    Example:
        >>> few_or_many = np.array([[3, 20, 6, 2, 6], [4, 20, 6, 2, 6], [100, 20, 9, 8, 48]])
        >>> assign_buckets(few_or_many, most=2).tolist()
        [0, 0, 1]
    """
    cost = cost_of if cost is None else cost
    labels = _similar(shapes)
    count = np.bincount(labels)
    largest = np.stack([shapes[labels == label].max(axis=0) for label in range(len(count))])
    least = float(np.sum(cost(shapes)))
    while len(count) > 1:
        together = np.maximum(largest[:, None], largest[None])
        alone = count * cost(largest)
        added = (count[:, None] + count[None]) * cost(together)
        added = (added - alone[:, None] - alone[None]).astype(float)
        added[np.tril_indices(len(count))] = np.inf
        first, second = np.unravel_index(np.argmin(added), added.shape)
        is_free = alone.sum() + added[first, second] <= FREE_PADDING * least
        if len(count) <= most and not is_free:
            break
        largest[first] = together[first, second]
        count[first] += count[second]
        largest, count = np.delete(largest, second, axis=0), np.delete(count, second)
        labels = np.where(labels == second, first, labels)
        labels = labels - (labels > second)
    return labels


def pack_episode(
    support: Sequence[Pair],
    asked: Sequence[Pair],
    alphabets: Alphabets,
    shape: Shape,
) -> EpisodeArrays:
    """Turns one episode into arrays of the given shape.

    An absent support item has length zero, which keeps it out of the memory. An absent query has
    an output of length zero, which keeps it out of the loss, and an input of one EOS, so that
    there is something for the decoder to attend to.
    """
    widths = shape.input_width, shape.answer_width
    questions = alphabets.encode(asked, shape.asked, widths)
    inputs = questions.inputs
    is_absent = np.arange(shape.asked) >= len(asked)
    first = np.where(is_absent, alphabets.inputs.size - 1, np.asarray(inputs.tokens)[:, 0])
    tokens = np.concatenate([first[:, None], np.asarray(inputs.tokens)[:, 1:]], axis=1)
    present = Sequences(
        tokens.astype(np.int32),  # pyright: ignore[reportArgumentType]
        np.maximum(inputs.lengths, 1),  # pyright: ignore[reportArgumentType]
    )
    return EpisodeArrays(
        alphabets.encode(support, shape.shown, (shape.input_width, shape.shown_width)),
        Pairs(present, questions.outputs),
    )


def cost_of(shapes: Int[np.ndarray, "*shapes 5"]) -> Int[np.ndarray, " *shapes"]:
    """Returns how many tokens are read and written for an episode of each `Shape`."""
    shown, asked, input_width, shown_width, answer_width = np.moveaxis(shapes, -1, 0)
    return (shown + asked) * input_width + shown * shown_width + asked * answer_width


def power_of_two(number: int, least: int = 16) -> int:
    """Returns the next power of two.

    Example:
        >>> power_of_two(3), power_of_two(16), power_of_two(17)
        (16, 16, 32)
    """
    return max(least, 1 << (number - 1).bit_length())


def _shape(support: Sequence[Pair], asked: Sequence[Pair]) -> Shape:
    return Shape(
        len(support),
        len(asked),
        max(len(source) for source, _ in [*support, *asked]) + 1,
        max(len(target) for _, target in support) + 1,
        max(len(target) for _, target in asked) + 1,
    )


def _similar(shapes: Int[np.ndarray, "episodes sizes"]) -> Int[np.ndarray, " episodes"]:
    unit = 1
    while True:
        groups, labels = np.unique(-(-shapes // unit), axis=0, return_inverse=True)
        if len(groups) <= MOST_SHAPES:
            return labels.reshape(-1)
        unit *= 2
