"""Draws which word means which action in an episode (Lake 2019, §4.3-4.6).

Some symbols of SCAN are variables (`slots`): an episode puts drawn words in the place of the slots'
words and drawn actions in the place of the slots' actions. What must never be drawn is a list of
(word, action) pairs: an assignment is refused if it contains **all** of them. With one pair (jump,
I_JUMP) no training episode gives `jump` its meaning; with the four original pairs only the original
language is refused.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from recombine.tasks.drawing import draw_ordered, first_true
from recombine.tasks.episodes import Vocabulary
from recombine.tasks.scan._grammar import DIRECTIONS, VERBS

LARGEST_TABLE = 1000
NUM_REDRAWS = 16
"""Draws of an assignment, of which the first allowed one is kept. Refusals have a probability of
at most 1/144, so that all sixteen are refused once in 1e34 episodes."""


@dataclass(frozen=True)
class Slots:
    """The variables of a language and what may fill them, as symbol indices."""

    words: tuple[int, ...]
    actions: tuple[int, ...]
    word_choices: tuple[int, ...]
    action_choices: tuple[int, ...]
    tabu: tuple[tuple[int, int], ...]


class Assignments(eqx.Module):
    """The distribution of assignments: uniform over all that are allowed.

    Where all allowed assignments fit in a small table, one row is drawn; otherwise drawing is
    repeated a fixed number of times and the first allowed assignment is kept.
    """

    table: Int[Array, "allowed 2 slots"] | None
    slots: Slots = eqx.field(static=True)
    num_words: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)

    def __init__(self, slots: Slots, vocabulary: Vocabulary, *, fixed_words: bool = False):
        self.slots = slots
        self.num_words = vocabulary.inputs.size
        self.num_actions = vocabulary.outputs.size
        self.table = _allowed_table(slots, fixed_words)
        if fixed_words and self.table is None:
            raise ValueError("`fixed_words` needs few enough assignments to list them in a table")

    def draw(self, key: PRNGKeyArray) -> Int[Array, "2 slots"]:
        """Draws the words (first row) and the actions (second row) that fill the slots."""
        if self.table is not None:
            return self.table[jr.randint(key, (), 0, self.table.shape[0])]
        drawn = jax.vmap(self._draw_any)(jr.split(key, NUM_REDRAWS))
        refused = jax.vmap(lambda pair: is_refused(pair, self.slots.tabu))(drawn)
        return drawn[first_true(~refused, 1)[0]]

    def tables(
        self, assignment: Int[Array, "2 slots"]
    ) -> tuple[Int[Array, " words"], Int[Array, " actions"]]:
        """Turns an assignment into lookup tables over all words and all actions."""
        words = jnp.arange(self.num_words).at[jnp.asarray(self.slots.words)].set(assignment[0])
        actions = jnp.arange(self.num_actions)
        return words, actions.at[jnp.asarray(self.slots.actions)].set(assignment[1])

    def _draw_any(self, key: PRNGKeyArray) -> Int[Array, "2 slots"]:
        word_key, action_key = jr.split(key)
        num_slots = len(self.slots.words)
        words = draw_ordered(word_key, len(self.slots.word_choices), num_slots)
        actions = draw_ordered(action_key, len(self.slots.action_choices), num_slots)
        choices = jnp.asarray(self.slots.word_choices), jnp.asarray(self.slots.action_choices)
        return jnp.stack([choices[0][words], choices[1][actions]])


def is_refused(
    assignment: Int[Array, "2 slots"], tabu: Sequence[tuple[int, int]]
) -> Bool[Array, ""]:
    """Says whether an assignment contains every tabu pair."""
    words, actions = assignment[0], assignment[1]
    present = [jnp.any((words == word) & (actions == action)) for word, action in tabu]
    return jnp.all(jnp.stack(present))


def verb_slots(vocabulary: Vocabulary, tabu: Sequence[tuple[str, str]]) -> Slots:
    """Makes the four verbs the variables, filled from the verbs and the extra words."""
    return _slots(vocabulary, VERBS, ("I_WALK", "I_LOOK", "I_RUN", "I_JUMP"), tabu)


def direction_slots(vocabulary: Vocabulary, tabu: Sequence[tuple[str, str]]) -> Slots:
    """Makes the two directions the variables, filled from the directions and the extra words."""
    return _slots(vocabulary, DIRECTIONS, ("I_TURN_LEFT", "I_TURN_RIGHT"), tabu)


def _slots(
    vocabulary: Vocabulary,
    words: Sequence[str],
    actions: Sequence[str],
    tabu: Sequence[tuple[str, str]],
) -> Slots:
    inputs, outputs = vocabulary.inputs, vocabulary.outputs
    extra_words = [name for name in inputs.names if name.isdigit()]
    extra_actions = [f"I_{name}" for name in extra_words]
    return Slots(
        words=tuple(map(inputs.index, words)),
        actions=tuple(map(outputs.index, actions)),
        word_choices=tuple(map(inputs.index, [*words, *extra_words])),
        action_choices=tuple(map(outputs.index, [*actions, *extra_actions])),
        tabu=tuple((inputs.index(word), outputs.index(action)) for word, action in tabu),
    )


def _allowed_table(slots: Slots, fixed_words: bool) -> Int[Array, "allowed 2 slots"] | None:
    """Lists all allowed assignments, or nothing where they are too many to list."""
    num_slots = len(slots.words)
    num_actions = np.prod(len(slots.action_choices) - np.arange(num_slots))
    num_words = 1 if fixed_words else np.prod(len(slots.word_choices) - np.arange(num_slots))
    if num_actions * num_words > LARGEST_TABLE:
        return None
    words = [slots.words] if fixed_words else itertools.permutations(slots.word_choices, num_slots)
    drawn = itertools.product(words, itertools.permutations(slots.action_choices, num_slots))
    allowed = [pair for pair in drawn if not set(slots.tabu) <= set(zip(*pair, strict=True))]
    return jnp.asarray(np.array(allowed, np.int32))
