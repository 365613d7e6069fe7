"""SCAN as integer arrays, in which an episode is an index draw and two lookup tables.

The four verbs and the two directions are the variables of the language: giving them other words and
other actions is a lookup of `words_for[token]` and `actions_for[token]` on the arrays of the whole
set, built once. Relabelling goes by token, never by text.
"""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from recombine.tasks.episodes import Pairs, Sequences, Symbols, Vocabulary, take
from recombine.tasks.scan._grammar import ACTIONS, WORDS, Example, all_examples


def make_vocabulary(num_extras: int = 0) -> Vocabulary:
    """Builds the alphabets: SCAN's symbols, then extra words `1`.. and actions `I_1`.. ."""
    numbers = range(1, num_extras + 1)
    words = Symbols((*WORDS, *(str(i) for i in numbers)))
    return Vocabulary(words, Symbols((*ACTIONS, *(f"I_{i}" for i in numbers))))


class Corpus(eqx.Module):
    """A set of commands as arrays; rows are in the order of the examples it was made from."""

    pairs: Pairs
    vocabulary: Vocabulary = eqx.field(static=True)

    def rows(self, rows: Int[Array, " *drawn"]) -> Pairs:
        """Returns the pairs at the given rows, with their original meanings."""
        return take(self.pairs, rows)

    def relabel(
        self,
        rows: Int[Array, " drawn"],
        words_for: Int[Array, " words"],
        actions_for: Int[Array, " actions"],
    ) -> Pairs:
        """Returns the pairs at the given rows with every symbol replaced through two tables."""
        pairs = self.rows(rows)
        return Pairs(
            Sequences(words_for[pairs.inputs.tokens], pairs.inputs.lengths),
            Sequences(actions_for[pairs.outputs.tokens], pairs.outputs.lengths),
        )


def make_corpus(examples: Sequence[Example], num_extras: int = 0) -> Corpus:
    """Encodes examples with the alphabets that have `num_extras` further primitives."""
    vocabulary = make_vocabulary(num_extras)
    pairs = [(example.words, example.actions) for example in examples]
    return Corpus(vocabulary.encode(pairs), vocabulary)


def short_examples(max_actions: int | None) -> tuple[Example, ...]:
    """Returns the commands with at most `max_actions` actions; `None` keeps all of them."""
    if max_actions is None:
        return all_examples()
    return tuple(e for e in all_examples() if len(e.actions) <= max_actions)


def sorted_by_length(examples: Sequence[Example]) -> list[Example]:
    """Puts examples of like output length side by side, so that decoding a chunk can stop early."""
    return sorted(examples, key=lambda example: len(example.actions))


def find_rows(
    examples: Sequence[Example], wanted: Sequence[Example] | Callable[[Example], bool]
) -> Int[Array, " found"]:
    """Finds where the wanted examples stand: those of a list, in its order, or by a condition."""
    if callable(wanted):
        rows = [row for row, example in enumerate(examples) if wanted(example)]
    else:
        row_of = {example.words: row for row, example in enumerate(examples)}
        rows = [row_of[example.words] for example in wanted]
    return jnp.asarray(np.array(rows, np.int32))
