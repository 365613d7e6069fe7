"""The published train and test splits of SCAN, derived by rule (Lake 2019, §4.3-4.6).

The public files list their lines in an arbitrary order that no rule gives; ours are in the order of
the grammar, so compare sets. The isolated primitive of an `add-…` split is written as often as it
takes to make a tenth of the training file. `simple` is a random split without a rule: ours is drawn
with a seed and has the public sizes, not the public lines. The commands with `turn around right`
belong to neither half of `around-right`.
"""

import difflib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from recombine.tasks.scan._grammar import VERBS, Example, all_examples, meaning

LONGEST_TRAINING_OUTPUT = 22
TEST_FRACTION = 0.2


class Split(NamedTuple):
    """Training lines (repeated lines included) and test lines."""

    train: tuple[Example, ...]
    test: tuple[Example, ...]


def make_split(name: str, examples: Sequence[Example] | None = None, *, seed: int = 0) -> Split:
    """Divides SCAN, or the given part of it, by the rule of the split called `name`.

    Example:
        >>> split = make_split("add-jump")
        >>> len(split.train), len(split.test)
        (14670, 7706)
    """
    examples = all_examples() if examples is None else tuple(examples)
    if name == "simple":
        return _random_split(examples, seed)
    if name not in SPLITS:
        names = sorted([*SPLITS, "simple"])
        nearest = difflib.get_close_matches(name, names) or names
        raise LookupError(f"no SCAN split is called {name!r}; try {', '.join(nearest)}")
    return SPLITS[name](examples)


def _add_primitive(primitive: str) -> Callable[[Sequence[Example]], Split]:
    def divide(examples: Sequence[Example]) -> Split:
        bare = Example(tuple(primitive.split()), meaning(primitive))
        others = tuple(e for e in examples if not e.contains(primitive))
        test = tuple(e for e in examples if e.contains(primitive) and e != bare)
        return Split(others + (bare,) * max(1, len(others) // 9), test)

    return divide


def _template(manner: str) -> Callable[[Sequence[Example]], Split]:
    def divide(examples: Sequence[Example]) -> Split:
        train = tuple(e for e in examples if not e.contains(manner))
        test = tuple(e for e in examples if e.contains(manner) and not e.contains(f"turn {manner}"))
        return Split(train, test)

    return divide


def _length(examples: Sequence[Example]) -> Split:
    short = tuple(e for e in examples if len(e.actions) <= LONGEST_TRAINING_OUTPUT)
    return Split(short, tuple(e for e in examples if len(e.actions) > LONGEST_TRAINING_OUTPUT))


def _jump_around_right(examples: Sequence[Example]) -> Split:
    kept = [e for e in examples if not e.contains("turn around right")]
    train = tuple(e for e in kept if not e.contains("jump around right"))
    return Split(train, tuple(e for e in kept if e.contains("jump around right")))


def _primitive_right(examples: Sequence[Example]) -> Split:
    def has_right(example: Example) -> bool:
        return any(example.contains(f"{verb} right") for verb in VERBS)

    train = tuple(e for e in examples if not has_right(e) and not e.contains("turn right"))
    test = tuple(e for e in examples if has_right(e) and not e.contains("turn right"))
    return Split(train, test)


def _random_split(examples: Sequence[Example], seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(len(examples))
    num_test = round(TEST_FRACTION * len(examples))
    test, train = np.sort(order[:num_test]), np.sort(order[num_test:])
    return Split(tuple(examples[i] for i in train), tuple(examples[i] for i in test))


SPLITS: dict[str, Callable[[Sequence[Example]], Split]] = {
    "add-jump": _add_primitive("jump"),
    "add-turn-left": _add_primitive("turn left"),
    "around-right": _template("around right"),
    "opposite-right": _template("opposite right"),
    "jump-around-right": _jump_around_right,
    "primitive-right": _primitive_right,
    "length": _length,
}
"""The splits that follow a rule, by name; `simple` has none."""
