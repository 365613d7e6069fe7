"""The SCAN language: 20,910 commands and the actions they mean (Lake 2019, §4.3, Table 1).

A phrase is a verb, perhaps with a direction (`walk`, `walk left`, `walk opposite left`,
`walk around left`); a sentence is a phrase, perhaps `twice` or `thrice`; a command is one sentence,
or two joined by `and` or `after`. The verb `turn` has no action of its own, which lets one rule
cover it: `turn left` is a turn and then nothing. It needs a direction.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

VERBS = ("walk", "look", "run", "jump")
"""The verbs with an action of their own; `turn` has none."""

DIRECTIONS = ("left", "right")
"""The two directions."""

WORDS = (*VERBS, "turn", *DIRECTIONS, "opposite", "around", "twice", "thrice", "and", "after")
"""All words of the language, in the order of their indices."""

ACTIONS = ("I_WALK", "I_LOOK", "I_RUN", "I_JUMP", "I_TURN_LEFT", "I_TURN_RIGHT")
"""All actions as the public files spell them, in the order of their indices."""

_ACTION_OF: dict[str, str] = dict(zip((*VERBS, *DIRECTIONS), ACTIONS, strict=True))
_TIMES = {"twice": 2, "thrice": 3}


class Example(NamedTuple):
    """A command and its meaning, both as tuples of symbols."""

    words: tuple[str, ...]
    actions: tuple[str, ...]

    def contains(self, phrase: str) -> bool:
        """Says whether `phrase` occurs in the command as whole consecutive words."""
        return f" {phrase} " in f" {' '.join(self.words)} "


def meaning(command: str | Sequence[str]) -> tuple[str, ...]:
    """Translates a command into actions.

    Example:
        >>> meaning("jump opposite left after walk twice")
        ('I_WALK', 'I_WALK', 'I_TURN_LEFT', 'I_TURN_LEFT', 'I_JUMP')
    """
    words = tuple(command.split() if isinstance(command, str) else command)
    joints = [i for i, word in enumerate(words) if word in ("and", "after")]
    if len(joints) > 1:
        raise _not_a_command(words, "it joins more than two sentences")
    if not joints:
        return _sentence_meaning(words, words)
    first = _sentence_meaning(words[: joints[0]], words)
    second = _sentence_meaning(words[joints[0] + 1 :], words)
    return first + second if words[joints[0]] == "and" else second + first


@functools.cache
def all_examples() -> tuple[Example, ...]:
    """Lists every command with its meaning, in a fixed order: single sentences first."""
    phrases = [
        phrase
        for verb in (*VERBS, "turn")
        for phrase in [
            *([(verb,)] if verb != "turn" else []),
            *[
                (verb, *manner, direction)
                for manner in ((), ("opposite",), ("around",))
                for direction in DIRECTIONS
            ],
        ]
    ]
    sentences = [
        Example((*phrase, *times), _sentence_meaning((*phrase, *times), phrase))
        for phrase in phrases
        for times in ((), ("twice",), ("thrice",))
    ]
    joined = [
        Example(
            (*first.words, joint, *second.words),
            first.actions + second.actions if joint == "and" else second.actions + first.actions,
        )
        for joint in ("and", "after")
        for first in sentences
        for second in sentences
    ]
    return (*sentences, *joined)


def _sentence_meaning(sentence: tuple[str, ...], command: tuple[str, ...]) -> tuple[str, ...]:
    if sentence and sentence[-1] in _TIMES:
        return _phrase_meaning(sentence[:-1], command) * _TIMES[sentence[-1]]
    return _phrase_meaning(sentence, command)


def _phrase_meaning(phrase: tuple[str, ...], command: tuple[str, ...]) -> tuple[str, ...]:
    if not phrase or phrase[0] not in (*VERBS, "turn"):
        raise _not_a_command(command, f"{' '.join(phrase)!r} does not start with a verb")
    verb, *rest = phrase
    act = (_ACTION_OF[verb],) if verb != "turn" else ()
    match rest:
        case [] if verb != "turn":
            return act
        case ["left" | "right" as direction]:
            return (_ACTION_OF[direction], *act)
        case ["opposite", "left" | "right" as direction]:
            return (_ACTION_OF[direction],) * 2 + act
        case ["around", "left" | "right" as direction]:
            return (_ACTION_OF[direction], *act) * 4
    raise _not_a_command(command, f"{' '.join(phrase)!r} is not a phrase")


def _not_a_command(words: Sequence[str], why: str) -> ValueError:
    return ValueError(f"{' '.join(words)!r} is not a SCAN command: {why}")
