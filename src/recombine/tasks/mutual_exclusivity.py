"""Mutual exclusivity: a word without a shown meaning takes the one that is left (Lake 2019, §4.2).

Four pseudowords stand for four colours in a way that changes from episode to episode. Three pairs
are shown, the fourth must be inferred, and queries are to be translated word by word. Five of the
24 mappings are held out for testing when a run starts, and differ between runs.

The paper leaves the lengths and the number of queries open; lengths of two to six words and 20
distinct queries are those of its released code. The `dense` test is ours: every held-out mapping
with every word withheld once, 200 queries each.
"""

import itertools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from recombine.tasks.drawing import draw_ordered, first_distinct, skip_taken
from recombine.tasks.episodes import Episode, Pairs, Sequences, Symbols, Vocabulary

VOCABULARY = Vocabulary(
    Symbols(("dax", "lug", "wif", "zup")), Symbols(("RED", "YELLOW", "GREEN", "BLUE"))
)
"""The four pseudowords and the four colours."""

NUM_WORDS = 4
"""Pseudowords, and as many colours."""

NUM_MAPPINGS = 24
"""The ways to give each word a colour of its own."""

MIN_WORDS, MAX_WORDS = 2, 6


class HeldOut(NamedTuple):
    """What a run sets aside at its start."""

    mappings: Int[Array, " heldout"]  # numbers of the mappings never used in training, ascending
    validation: Episode  # one episode per held-out mapping


def all_mappings() -> Int[Array, "24 4"]:
    """Lists the bijections from words to colours; their row is their number."""
    return jnp.asarray(np.array(list(itertools.permutations(range(NUM_WORDS))), np.int32))


def sample_queries(key: PRNGKeyArray, meaning_of: Int[Array, " words"], num_queries: int) -> Pairs:
    """Draws distinct queries of two to six words, any words, and translates them word by word.

    Duplicates are skipped in the order of drawing, which makes short queries slightly rarer than
    long ones. Drawing four times as many as wanted leaves too few distinct ones with a probability
    below 1e-12 for 20 queries.
    """
    length_key, word_key = jr.split(key)
    drawn = max(4 * num_queries, num_queries + 76)
    lengths = jr.randint(length_key, (drawn,), MIN_WORDS, MAX_WORDS + 1)
    words = jr.randint(word_key, (drawn, MAX_WORDS), 0, NUM_WORDS)
    is_word = jnp.arange(MAX_WORDS)[None, :] < lengths[:, None]
    digits = jnp.where(is_word, words + 1, 0)
    codes = digits @ jnp.asarray([(NUM_WORDS + 1) ** i for i in range(MAX_WORDS)])
    kept = first_distinct(codes, num_queries)
    return _sentences(words[kept], lengths[kept], meaning_of)


def sample_episode(
    key: PRNGKeyArray, meaning_of: Int[Array, " words"], num_queries: int = 20
) -> Episode:
    """Draws which word is withheld, and the queries, under a given mapping (Lake 2019, §4.2)."""
    withheld_key, query_key = jr.split(key)
    withheld = jr.randint(withheld_key, (), 0, NUM_WORDS)
    return _episode(query_key, meaning_of, withheld, num_queries)


class MutualExclusivity(eqx.Module):
    """The episodes of the mutual exclusivity experiment, with mappings held out per run."""

    mappings: Int[Array, "24 4"]
    num_heldout: int = eqx.field(static=True)
    num_queries: int = eqx.field(static=True)
    num_dense: int = eqx.field(static=True)

    def __init__(self, num_heldout: int = 5, num_queries: int = 20, num_dense: int = 200):
        if not 0 < num_heldout < NUM_MAPPINGS:
            raise ValueError(
                f"`num_heldout` must leave some of the {NUM_MAPPINGS} mappings on either side; "
                f"got {num_heldout}"
            )
        self.mappings = all_mappings()
        self.num_heldout = num_heldout
        self.num_queries = num_queries
        self.num_dense = num_dense

    @property
    def vocabulary(self) -> Vocabulary:
        """The four pseudowords and the four colours."""
        return VOCABULARY

    def begin(self, key: PRNGKeyArray) -> HeldOut:
        """Draws the held-out mappings of a run, with one validation episode for each."""
        mapping_key, episode_key = jr.split(key)
        chosen = jnp.sort(draw_ordered(mapping_key, NUM_MAPPINGS, self.num_heldout))

        def sample(key: PRNGKeyArray, meaning_of: Array) -> Episode:
            return sample_episode(key, meaning_of, self.num_queries)

        keys = jr.split(episode_key, self.num_heldout)
        return HeldOut(chosen, jax.vmap(sample)(keys, self.mappings[chosen]))

    def sample(self, held: HeldOut, key: PRNGKeyArray) -> Episode:
        """Draws a training episode under one of the mappings that are not held out."""
        mapping_key, episode_key = jr.split(key)
        rank = jr.randint(mapping_key, (), 0, NUM_MAPPINGS - self.num_heldout)
        meaning_of = self.mappings[skip_taken(rank, list(held.mappings))]
        return sample_episode(episode_key, meaning_of, self.num_queries)

    def validation(self, held: HeldOut) -> Episode:
        """Returns the episodes set aside at the start of the run, stacked."""
        return held.validation

    def tests(self, held: HeldOut, key: PRNGKeyArray) -> dict[str, Episode]:
        """Returns the paper's test (the validation episodes) and a denser one, stacked."""
        withheld = jnp.tile(jnp.arange(NUM_WORDS), self.num_heldout)
        meanings = jnp.repeat(self.mappings[held.mappings], NUM_WORDS, axis=0)

        def sample(key: PRNGKeyArray, meaning_of: Array, withheld: Array) -> Episode:
            return _episode(key, meaning_of, withheld, self.num_dense)

        keys = jr.split(key, withheld.shape[0])
        dense = jax.vmap(sample)(keys, meanings, withheld)
        return {"test": held.validation, "dense": dense}


def _episode(
    key: PRNGKeyArray, meaning_of: Int[Array, " words"], withheld: Int[Array, ""], num_queries: int
) -> Episode:
    shown = jnp.arange(NUM_WORDS - 1)
    shown = shown + (shown >= withheld)
    words = jnp.zeros((NUM_WORDS - 1, MAX_WORDS), shown.dtype).at[:, 0].set(shown)
    support = _sentences(words, jnp.ones(NUM_WORDS - 1, shown.dtype), meaning_of)
    return Episode(support, sample_queries(key, meaning_of, num_queries))


def _sentences(
    words: Int[Array, "items longest"],
    lengths: Int[Array, " items"],
    meaning_of: Int[Array, " words"],
) -> Pairs:
    """Appends EOS to word sequences and to their translations."""
    inputs = _finish(words, lengths, VOCABULARY.inputs)
    outputs = _finish(meaning_of[words], lengths, VOCABULARY.outputs)
    return Pairs(inputs, outputs)


def _finish(tokens: Array, lengths: Array, symbols: Symbols) -> Sequences:
    position = jnp.arange(MAX_WORDS + 1)[None, :]
    tokens = jnp.pad(tokens, ((0, 0), (0, 1)))
    tokens = jnp.where(position < lengths[:, None], tokens, symbols.sos)
    tokens = jnp.where(position == lengths[:, None], symbols.eos, tokens)
    return Sequences(tokens.astype(jnp.int32), (lengths + 1).astype(jnp.int32))
