"""Plain training batches for baselines without a memory (Lake 2019, §4.3-4.6).

The baselines see a split's training file and nothing else. The paper does not say how batches are
drawn; ours are uniform with replacement over its lines, so that over-represented lines count.
An episode is then a batch of queries without support.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from recombine.tasks.drawing import draw_ordered, draw_rows
from recombine.tasks.episodes import Episode, Pairs, Vocabulary, nothing_like
from recombine.tasks.scan._assignments import Assignments, Slots, verb_slots
from recombine.tasks.scan._corpus import (
    Corpus,
    find_rows,
    make_corpus,
    short_examples,
    sorted_by_length,
)
from recombine.tasks.scan._episodes import NUM_VALIDATION
from recombine.tasks.scan._grammar import Example, meaning
from recombine.tasks.scan._splits import make_split

NUM_TRAIN_CHECKED = 1000
"""Training lines on which the final training accuracy is measured."""


class ScanBatches(eqx.Module):
    """Batches from the training lines of a split, and its test lines."""

    corpus: Corpus
    train_rows: Int[Array, " lines"]  # a row of the corpus per line of the file, repeats included
    validation_rows: Int[Array, " checked"] | None
    test_rows: Int[Array, " asked"]
    batch_size: int = eqx.field(static=True)

    @property
    def vocabulary(self) -> Vocabulary:
        """The alphabets of SCAN."""
        return self.corpus.vocabulary

    def begin(self, key: PRNGKeyArray) -> Int[Array, "stacks checked"]:
        """Sets validation rows aside, or draws five batches of training lines to watch."""
        if self.validation_rows is not None:
            return self.validation_rows[None]
        shape = NUM_VALIDATION, self.batch_size
        return self.train_rows[jr.randint(key, shape, 0, self.train_rows.shape[0])]

    def sample(self, held: Int[Array, "stacks checked"], key: PRNGKeyArray) -> Episode:
        """Draws a batch of training lines."""
        del held
        lines = jr.randint(key, (self.batch_size,), 0, self.train_rows.shape[0])
        return _without_support(self.corpus.rows(self.train_rows[lines]))

    def validation(self, held: Int[Array, "stacks checked"]) -> Episode:
        """Returns the lines set aside, stacked."""
        return _without_support(self.corpus.rows(held))

    def tests(self, held: Int[Array, "stacks checked"], key: PRNGKeyArray) -> dict[str, Episode]:
        """Returns all test lines, and training lines to tell fit from generalization."""
        del held
        lines = jr.randint(key, (1, NUM_TRAIN_CHECKED), 0, self.train_rows.shape[0])
        return {
            "test": _without_support(self.corpus.rows(self.test_rows[None])),
            "train": _without_support(self.corpus.rows(self.train_rows[lines])),
        }


class Alignment(NamedTuple):
    """The fixed pairs of the augmented baseline, and the one that never leaves its own line."""

    words: Int[Array, " primitives"]
    actions: Int[Array, " primitives"]


class AugmentedBatches(eqx.Module):
    """Batches with 23 primitives composed at random and `jump` only ever alone (Lake 2019, §4.4).

    Primitive number i always means action number i. The paper names the ingredients; we draw 39
    commands without replacement, fill the verbs' places with four of the 23 primitives, and add
    the line `jump`.
    """

    corpus: Corpus
    assignments: Assignments
    others: Alignment
    jump_row: Int[Array, " one"]
    test_rows: Int[Array, " asked"]
    batch_size: int = eqx.field(static=True)

    @property
    def vocabulary(self) -> Vocabulary:
        """The alphabets, extra primitives included."""
        return self.corpus.vocabulary

    def begin(self, key: PRNGKeyArray) -> Episode:
        """Draws five batches to watch."""
        return jax.vmap(self._batch)(jr.split(key, NUM_VALIDATION))

    def sample(self, held: Episode, key: PRNGKeyArray) -> Episode:
        """Draws a training batch."""
        del held
        return self._batch(key)

    def validation(self, held: Episode) -> Episode:
        """Returns the batches drawn at the start, stacked."""
        return held

    def tests(self, held: Episode, key: PRNGKeyArray) -> dict[str, Episode]:
        """Returns all test lines, and fresh training batches."""
        del held
        num_batches = -(-NUM_TRAIN_CHECKED // self.batch_size)
        return {
            "test": _without_support(self.corpus.rows(self.test_rows[None])),
            "train": jax.vmap(self._batch)(jr.split(key, num_batches)),
        }

    def _batch(self, key: PRNGKeyArray) -> Episode:
        row_key, primitive_key = jr.split(key)
        size = self.corpus.pairs.inputs.lengths.shape[0]
        rows = draw_rows(row_key, size, self.batch_size - 1)
        drawn = draw_ordered(primitive_key, self.others.words.shape[0], 4)
        assignment = jnp.stack([self.others.words[drawn], self.others.actions[drawn]])
        composed = self.corpus.relabel(rows, *self.assignments.tables(assignment))
        alone = self.corpus.rows(self.jump_row)
        return _without_support(jax.tree.map(lambda a, b: jnp.concatenate([a, b]), composed, alone))


def standard_batches(
    split: str,
    *,
    batch_size: int = 40,
    max_actions: int | None = None,
    validation_fraction: float = 0.0,
    seed: int = 0,
) -> ScanBatches:
    """Draws batches from the training file of a split (Lake 2019, §4.3).

    With a `validation_fraction`, that part of the lines, shuffled with `seed`, is kept from
    training for validation, as the syntactic attention baseline does with a fifth.
    """
    if not 0.0 <= validation_fraction < 1.0:
        raise ValueError(f"`validation_fraction` must lie in [0, 1); got {validation_fraction}")
    examples = short_examples(max_actions)
    corpus = make_corpus(examples)
    lines = make_split(split, examples)
    train_rows = find_rows(examples, lines.train)
    validation_rows = None
    if validation_fraction > 0:
        order = np.random.default_rng(seed).permutation(len(lines.train))
        cut = round((1 - validation_fraction) * len(order))
        validation_rows, train_rows = train_rows[order[cut:]], train_rows[order[:cut]]
    test_rows = find_rows(examples, sorted_by_length(lines.test))
    return ScanBatches(corpus, train_rows, validation_rows, test_rows, batch_size)


def augmented_batches(
    *, num_extras: int = 20, batch_size: int = 40, max_actions: int | None = None
) -> AugmentedBatches:
    """Draws the batches of the baseline with augmentation (Lake 2019, §4.4)."""
    examples = short_examples(max_actions)
    corpus = make_corpus(examples, num_extras)
    slots: Slots = verb_slots(corpus.vocabulary, [("jump", "I_JUMP")])
    jump = corpus.vocabulary.inputs.index("jump")
    others = [
        pair
        for pair in zip(slots.word_choices, slots.action_choices, strict=True)
        if pair[0] != jump
    ]
    words, actions = (jnp.asarray(np.array(side, np.int32)) for side in zip(*others, strict=True))
    test = make_split("add-jump", examples).test
    return AugmentedBatches(
        corpus=corpus,
        assignments=Assignments(slots, corpus.vocabulary),
        others=Alignment(words, actions),
        jump_row=find_rows(examples, [Example(("jump",), meaning("jump"))]),
        test_rows=find_rows(examples, sorted_by_length(test)),
        batch_size=batch_size,
    )


def _without_support(queries: Pairs) -> Episode:
    leading = queries.inputs.lengths.shape[:-1]
    one_row = jax.tree.map(
        lambda array: array.reshape(-1, *array.shape[len(leading) + 1 :]), queries
    )
    return Episode(nothing_like(one_row, *leading), queries)
