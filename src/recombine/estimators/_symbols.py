"""The alphabets of people's own episodes: tokens, and their numbers for the network.

Of `n` tokens, SOS has the number `n` and EOS `n + 1`, as the networks of `methods.seq2seq` expect.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Int

from recombine.estimators._episodes import Pair, Tokens

END = "<EOS>"
"""How the end of a sequence is written for people."""


class Sequences(NamedTuple):
    """Padded token numbers, each row followed by EOS, with their lengths (EOS included)."""

    tokens: Int[Array, "*items width"]
    lengths: Int[Array, " *items"]


class Pairs(NamedTuple):
    """Inputs with their outputs, row by row."""

    inputs: Sequences
    outputs: Sequences


@dataclass(frozen=True)
class Alphabet:
    """The tokens of one side; `side` is what messages call it."""

    names: Tokens
    side: str

    @classmethod
    def of(cls, sequences: Iterable[Tokens], side: str) -> "Alphabet":
        """Collects the tokens of all sequences, sorted."""
        return cls(tuple(sorted({token for tokens in sequences for token in tokens})), side)

    @property
    def size(self) -> int:
        """How many numbers there are, SOS and EOS included."""
        return len(self.names) + 2

    def check(self, sequences: Iterable[Tokens], where: str) -> None:
        """Raises a `LookupError` that names every unknown token."""
        known = set(self.names)
        used = dict.fromkeys(token for tokens in sequences for token in tokens)
        unknown = [token for token in used if token not in known]
        if unknown:
            hints = [_hint(token, self.names) for token in unknown]
            is_or_are = "is not a token" if len(unknown) == 1 else "are not tokens"
            raise LookupError(
                f"{', '.join(hints)} in {where} {is_or_are} of the {self.side} that the model was "
                f"trained with: {_listing(self.names)}"
            )

    def encode(self, sequences: Sequence[Tokens], rows: int, width: int) -> Sequences:
        """Fills an array of `rows` by `width`; rows without a sequence have length zero."""
        number_of = {name: number for number, name in enumerate(self.names)}
        tokens = np.full((rows, width), len(self.names), np.int32)
        lengths = np.zeros(rows, np.int32)
        for row, sequence in enumerate(sequences):
            numbers = [*(number_of[token] for token in sequence), len(self.names) + 1]
            tokens[row, : len(numbers)] = numbers
            lengths[row] = len(numbers)
        return Sequences(tokens, lengths)  # pyright: ignore[reportArgumentType]

    def decode(self, numbers: Iterable[Any]) -> tuple[list[str], bool]:
        """Returns the tokens up to the first EOS, and whether there was one."""
        written: list[str] = []
        for number in numbers:
            if int(number) == len(self.names) + 1:
                return written, True
            written.append("<SOS>" if int(number) == len(self.names) else self.names[int(number)])
        return written, False


@dataclass(frozen=True)
class Alphabets:
    """Those of inputs and of outputs."""

    inputs: Alphabet
    outputs: Alphabet

    def check(self, pairs: Sequence[Pair], where: str) -> None:
        """Raises a `LookupError` that names unknown tokens of either side."""
        self.inputs.check((source for source, _ in pairs), where)
        self.outputs.check((target for _, target in pairs), where)

    def encode(self, pairs: Sequence[Pair], rows: int, widths: tuple[int, int]) -> Pairs:
        """Turns pairs into arrays of `rows` rows."""
        return Pairs(
            self.inputs.encode([source for source, _ in pairs], rows, widths[0]),
            self.outputs.encode([target for _, target in pairs], rows, widths[1]),
        )


def _hint(token: str, names: Tokens) -> str:
    folded = {name.casefold(): name for name in names}
    near = difflib.get_close_matches(token.casefold(), folded, n=1)
    return f"{token!r} (did you mean {folded[near[0]]!r}?)" if near else repr(token)


def _listing(names: Tokens, most: int = 30) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return " ".join(names[:most]) + more
