"""Answering queries with a trained network of meta seq2seq, outside of training."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Int

from recombine.estimators._attention import Attention
from recombine.estimators._buckets import EpisodeArrays, Shape, pack_episode, power_of_two
from recombine.estimators._episodes import Pair, Tokens
from recombine.estimators._symbols import END, Alphabets, Pairs, Sequences
from recombine.methods.seq2seq import MetaSeq2Seq as Network, exact_matches

MOST_AT_ONCE = 256
"""So many queries are answered at once; more are cut into blocks."""


def answer_queries(
    model: Network,
    alphabets: Alphabets,
    shown: Sequence[Pair],
    asked: Sequence[Tokens],
    *,
    longest: int,
) -> list[list[str]]:
    """Returns the tokens of each answer; none has more than `longest`."""
    answers = []
    for start in range(0, len(asked), MOST_AT_ONCE):
        block = asked[start : start + MOST_AT_ONCE]
        numbers = _answer(model, *_pack(alphabets, shown, block), longest + 1)
        for row in np.asarray(numbers)[: len(block)]:
            answers.append(_read(alphabets, row, longest)[0])
    return answers


def answer_and_look(
    model: Network,
    alphabets: Alphabets,
    shown: Sequence[Pair],
    words: Tokens,
    *,
    longest: int,
) -> Attention:
    """Answers one query, and says where the network looked."""
    episode = _pack(alphabets, shown, [words])
    numbers, looked = jax.device_get(_answer_and_look(model, *episode, longest + 1))
    answer, has_ended = _read(alphabets, numbers[0], longest)
    written = [*answer, END] if has_ended else list(answer)
    width = len(words) + 1
    return Attention(
        answer=answer,
        words=[*words, END],
        shown=[f"{' '.join(source)} = {' '.join(target)}".strip() for source, target in shown],
        written=written,
        memory=np.asarray(looked["memory_attention"][0, :width, : len(shown)]),
        decoder=np.asarray(looked["decoder_attention"][0, : len(written), :width]),
    )


def count_exact(model: Network, buckets: Sequence[EpisodeArrays]) -> int:
    """Returns how many queries of all episodes are answered exactly."""
    return sum(int(np.sum(_matches(model, bucket))) for bucket in on_device(buckets))


def on_device(tree: Any) -> Any:
    """Turns arrays into those of JAX."""
    return jax.tree.map(jax.numpy.asarray, tree)


def _pack(
    alphabets: Alphabets, shown: Sequence[Pair], asked: Sequence[Tokens]
) -> tuple[Pairs, Sequences]:
    """Fills arrays up to powers of two, so that there are few shapes to compile."""
    questions: list[Pair] = [(words, ()) for words in asked]
    shape = Shape(
        power_of_two(len(shown), least=8),
        1 if len(asked) == 1 else power_of_two(len(asked), least=16),
        power_of_two(max(len(source) for source, _ in [*shown, *questions]) + 1, least=8),
        power_of_two(max(len(target) for _, target in shown) + 1, least=8),
        1,
    )
    episode = pack_episode(shown, questions, alphabets, shape)
    return on_device((episode.support, episode.queries.inputs))


def _read(
    alphabets: Alphabets, numbers: Int[np.ndarray, " steps"], longest: int
) -> tuple[list[str], bool]:
    """Returns an answer and whether it ended by itself; the last step is only for its end."""
    answer, has_ended = alphabets.outputs.decode(numbers)
    return answer[:longest], has_ended


@eqx.filter_jit
def _answer(model: Network, support: Pairs, inputs: Sequences, max_steps: int) -> Any:
    return model.predict(support, inputs, max_steps)


@eqx.filter_jit
def _answer_and_look(model: Network, support: Pairs, inputs: Sequences, max_steps: int) -> Any:
    answers = model.predict(support, inputs, max_steps)
    return answers, model.attention(support, inputs, answers)


@eqx.filter_jit
def _matches(model: Network, episodes: EpisodeArrays) -> Any:
    return exact_matches(model, episodes)
