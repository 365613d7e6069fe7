"""Episodes of sequence-to-sequence problems as padded integer arrays.

Every sequence ends with EOS and is padded on its right. Two rules hold everywhere: `lengths` count
the EOS, and a length of zero marks an item that is not there (so that episodes of different sizes
can share one shape). The layout of symbols is that of Lake (2019): `n` symbols at `0..n-1`, then
SOS, then EOS; padding is written as SOS and never read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

T = TypeVar("T")
"""Any tree of arrays."""


class Sequences(NamedTuple):
    """Token sequences of one width, each with the number of its real tokens (EOS included)."""

    tokens: Int[Array, "*items width"]
    lengths: Int[Array, " *items"]


class Pairs(NamedTuple):
    """Input sequences with the output sequences they stand for, row by row."""

    inputs: Sequences
    outputs: Sequences


class Episode(NamedTuple):
    """A few-shot problem: the pairs that are shown, and the pairs that are asked (Lake 2019, §3).

    A plain batch without anything shown is an episode whose `support` has zero rows.
    """

    support: Pairs
    queries: Pairs


@dataclass(frozen=True)
class Symbols:
    """An alphabet and its indices: the symbols, then SOS, then EOS."""

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(set(self.names)) != len(self.names):
            raise ValueError(f"`names` must be distinct; got {self.names}")

    @property
    def sos(self) -> int:
        """The index of the start symbol, which also stands for padding."""
        return len(self.names)

    @property
    def eos(self) -> int:
        """The index of the end symbol."""
        return len(self.names) + 1

    @property
    def size(self) -> int:
        """The number of indices, SOS and EOS included."""
        return len(self.names) + 2

    def index(self, name: str) -> int:
        """Returns the index of one symbol."""
        if name not in self.names:
            raise LookupError(f"{name!r} is not one of the symbols {' '.join(self.names)}")
        return self.names.index(name)

    def encode(self, sentences: Sequence[Sequence[str]], width: int | None = None) -> Sequences:
        """Turns lists of symbols into one padded array, each sentence followed by EOS."""
        index_of = {name: i for i, name in enumerate(self.names)}
        longest = max((len(sentence) for sentence in sentences), default=0) + 1
        width = longest if width is None else width
        if width < longest:
            raise ValueError(f"`width` is {width}, but the longest sentence needs {longest}")
        tokens = np.full((len(sentences), width), self.sos, np.int32)
        lengths = np.zeros(len(sentences), np.int32)
        for row, sentence in enumerate(sentences):
            for column, name in enumerate(sentence):
                if name not in index_of:
                    raise LookupError(
                        f"{name!r} in {' '.join(sentence)!r} is not one of the symbols "
                        f"{' '.join(self.names)}"
                    )
                tokens[row, column] = index_of[name]
            tokens[row, len(sentence)] = self.eos
            lengths[row] = len(sentence) + 1
        return Sequences(jnp.asarray(tokens), jnp.asarray(lengths))

    def decode(self, tokens: Any) -> list[str]:
        """Turns indices (any iterable of them) back into symbols, up to the first EOS."""
        sentence = []
        for token in tokens:
            if int(token) == self.eos:
                break
            sentence.append("<SOS>" if int(token) == self.sos else self.names[int(token)])
        return sentence


@dataclass(frozen=True)
class Vocabulary:
    """The two alphabets of a sequence-to-sequence problem."""

    inputs: Symbols
    outputs: Symbols

    def encode(self, pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> Pairs:
        """Turns pairs of symbol lists into padded arrays as wide as their longest sentences."""
        return Pairs(
            self.inputs.encode([source for source, _ in pairs]),
            self.outputs.encode([target for _, target in pairs]),
        )


def take(items: T, rows: Int[Array, " *drawn"]) -> T:
    """Picks rows of every array in `items`."""
    return jax.tree.map(lambda array: array[rows], items)


def nothing_like(pairs: Pairs, *leading: int) -> Pairs:
    """Returns zero rows with the widths of `pairs`, behind the given leading axes."""

    def empty(array: Array) -> Array:
        return jnp.zeros((*leading, 0, *array.shape[1:]), array.dtype)

    return jax.tree.map(empty, pairs)
