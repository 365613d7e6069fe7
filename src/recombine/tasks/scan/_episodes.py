"""Episodes of the SCAN experiments, sampled on the device (Lake 2019, §4.3-4.6).

An episode gives the variables of the language new words and actions, draws commands, and divides
them into support and queries. Training supports are random commands, almost always composed ones;
test supports are the bare primitives with their true meanings. The paper means this shift, and we
do not soften it. Commands of the test split do occur in training, under other meanings.

Validation follows the released code: five episodes with the original meanings, drawn once per run
and only watched.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Int, PRNGKeyArray

from recombine.tasks.drawing import draw_rows
from recombine.tasks.episodes import Episode, Vocabulary
from recombine.tasks.scan._assignments import Assignments, direction_slots, verb_slots
from recombine.tasks.scan._corpus import (
    Corpus,
    find_rows,
    make_corpus,
    short_examples,
    sorted_by_length,
)
from recombine.tasks.scan._grammar import ACTIONS, VERBS, Example, meaning
from recombine.tasks.scan._splits import LONGEST_TRAINING_OUTPUT, make_split

NUM_VALIDATION = 5
LONGEST_SUPPORT_OUTPUT = 11
VERB_PAIRS = tuple(zip(VERBS, ACTIONS[: len(VERBS)], strict=True))


class HeldRows(NamedTuple):
    """The commands of the validation episodes, drawn once per run."""

    support: Int[Array, "validation shown"]
    queries: Int[Array, "validation asked"]


class ScanEpisodes(eqx.Module):
    """Few-shot episodes over one set of commands.

    Support and queries come from pools of rows; where the two pools are the same one, both are
    parts of one draw and therefore disjoint. `test_support` of `None` means that the supports of
    the validation episodes serve for testing too, each with all test queries (the length split).
    """

    corpus: Corpus
    assignments: Assignments
    support_pool: Int[Array, " supports"]
    query_pool: Int[Array, " queries"] | None
    validation_support_pool: Int[Array, " supports2"]
    validation_query_pool: Int[Array, " queries2"] | None
    test_support: Int[Array, " shown"] | None
    test_queries: Int[Array, " asked"]
    num_support: int = eqx.field(static=True)
    num_queries: int = eqx.field(static=True)

    @property
    def vocabulary(self) -> Vocabulary:
        """The alphabets, extra primitives included."""
        return self.corpus.vocabulary

    def begin(self, key: PRNGKeyArray) -> HeldRows:
        """Draws the validation episodes of a run."""

        def draw(key: PRNGKeyArray) -> HeldRows:
            pools = self.validation_support_pool, self.validation_query_pool
            return HeldRows(*self._draw_rows(key, *pools))

        return jax.vmap(draw)(jr.split(key, NUM_VALIDATION))

    def sample(self, held: HeldRows, key: PRNGKeyArray) -> Episode:
        """Draws a training episode under an allowed assignment."""
        del held  # the tabu list is the same in every run
        row_key, assignment_key = jr.split(key)
        support, queries = self._draw_rows(row_key, self.support_pool, self.query_pool)
        tables = self.assignments.tables(self.assignments.draw(assignment_key))
        return Episode(self.corpus.relabel(support, *tables), self.corpus.relabel(queries, *tables))

    def validation(self, held: HeldRows) -> Episode:
        """Returns the validation episodes, stacked."""
        return Episode(self.corpus.rows(held.support), self.corpus.rows(held.queries))

    def tests(self, held: HeldRows, key: PRNGKeyArray) -> dict[str, Episode]:
        """Returns the test of the split: every test command, for each support set, stacked."""
        del key  # nothing is drawn
        rows = held.support if self.test_support is None else self.test_support[None]
        support = self.corpus.rows(rows)
        queries = self.corpus.rows(self.test_queries)

        def repeat(array: Array) -> Array:
            return jnp.broadcast_to(array[None], (rows.shape[0], *array.shape))

        return {"test": Episode(support, jax.tree.map(repeat, queries))}

    def _draw_rows(
        self,
        key: PRNGKeyArray,
        support_pool: Int[Array, " supports"],
        query_pool: Int[Array, " queries"] | None,
    ) -> tuple[Int[Array, " shown"], Int[Array, " asked"]]:
        if query_pool is None:
            drawn = draw_rows(key, support_pool.shape[0], self.num_queries + self.num_support)
            rows = support_pool[drawn]
            return rows[self.num_queries :], rows[: self.num_queries]
        support_key, query_key = jr.split(key)
        support = support_pool[draw_rows(support_key, support_pool.shape[0], self.num_support)]
        queries = query_pool[draw_rows(query_key, query_pool.shape[0], self.num_queries)]
        return support, queries


def add_jump_permutation(
    *, num_support: int = 20, num_queries: int = 20, max_actions: int | None = None
) -> ScanEpisodes:
    """Permutes the meanings of the four verbs, never to the original ones (Lake 2019, §4.3).

    Uniform over the 23 other bijections. `max_actions` restricts training and test to short
    commands, for quick runs.
    """
    examples = short_examples(max_actions)
    corpus = make_corpus(examples)
    slots = verb_slots(corpus.vocabulary, VERB_PAIRS)
    assignments = Assignments(slots, corpus.vocabulary, fixed_words=True)
    return _one_pool(corpus, examples, assignments, "add-jump", VERBS, num_support, num_queries)


def add_jump_augmentation(
    *,
    num_extras: int = 20,
    num_support: int = 20,
    num_queries: int = 20,
    max_actions: int | None = None,
) -> ScanEpisodes:
    """Fills the verbs' places from 4 + 20 words and actions (Lake 2019, §4.4).

    An episode uses four primitives, paired at random; `jump` never means I_JUMP.
    """
    examples = short_examples(max_actions)
    corpus = make_corpus(examples, num_extras)
    slots = verb_slots(corpus.vocabulary, [("jump", "I_JUMP")])
    assignments = Assignments(slots, corpus.vocabulary)
    return _one_pool(corpus, examples, assignments, "add-jump", VERBS, num_support, num_queries)


def around_right(
    *,
    num_extras: int = 2,
    num_support: int = 20,
    num_queries: int = 20,
    max_actions: int | None = None,
) -> ScanEpisodes:
    """Fills the places of `left` and `right` from 2 + 2 directions and turns (Lake 2019, §4.5).

    `right` never means I_TURN_RIGHT; `left` may mean I_TURN_LEFT.
    """
    examples = short_examples(max_actions)
    corpus = make_corpus(examples, num_extras)
    slots = direction_slots(corpus.vocabulary, [("right", "I_TURN_RIGHT")])
    assignments = Assignments(slots, corpus.vocabulary)
    shown = ("turn left", "turn right")
    return _one_pool(corpus, examples, assignments, "around-right", shown, num_support, num_queries)


def longer_commands(
    *, num_extras: int = 20, num_support: int = 100, num_queries: int = 20
) -> ScanEpisodes:
    """Shows short commands and asks longer ones, of the length split (Lake 2019, §4.6).

    Supports have up to 11 actions and queries 12 to 22, verbs are filled as in `add_jump_
    augmentation`, and only the whole original assignment is refused. Test queries have 24 to 48
    actions (the paper says 24 to 28; its file has up to 48).
    """
    examples = short_examples(None)
    corpus = make_corpus(examples, num_extras)
    slots = verb_slots(corpus.vocabulary, VERB_PAIRS)

    def is_query(example: Example) -> bool:
        return LONGEST_SUPPORT_OUTPUT < len(example.actions) <= LONGEST_TRAINING_OUTPUT

    split = make_split("length", examples)
    test = sorted_by_length(split.test)
    return ScanEpisodes(
        corpus=corpus,
        assignments=Assignments(slots, corpus.vocabulary),
        support_pool=find_rows(examples, lambda e: len(e.actions) <= LONGEST_SUPPORT_OUTPUT),
        query_pool=find_rows(examples, is_query),
        validation_support_pool=find_rows(examples, split.train),
        validation_query_pool=find_rows(examples, test),
        test_support=None,
        test_queries=find_rows(examples, test),
        num_support=num_support,
        num_queries=num_queries,
    )


def _one_pool(
    corpus: Corpus,
    examples: Sequence[Example],
    assignments: Assignments,
    split: str,
    shown: Sequence[str],
    num_support: int,
    num_queries: int,
) -> ScanEpisodes:
    """Draws support and queries from all commands, and tests with bare primitives."""
    if len(examples) < num_support + num_queries:
        raise ValueError(
            f"an episode needs {num_support + num_queries} commands (`num_support` + "
            f"`num_queries`), but only {len(examples)} are allowed; raise `max_actions`"
        )
    pool = jnp.arange(len(examples), dtype=jnp.int32)
    primitives = [Example(tuple(words.split()), meaning(words)) for words in shown]
    return ScanEpisodes(
        corpus=corpus,
        assignments=assignments,
        support_pool=pool,
        query_pool=None,
        validation_support_pool=pool,
        validation_query_pool=None,
        test_support=find_rows(examples, primitives),
        test_queries=find_rows(examples, sorted_by_length(make_split(split, examples).test)),
        num_support=num_support,
        num_queries=num_queries,
    )
