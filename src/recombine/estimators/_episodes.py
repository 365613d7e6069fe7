"""People's own episodes: pairs of token lists or strings, checked and brought to one form."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

Tokens = tuple[str, ...]
Pair = tuple[Tokens, Tokens]


class Episode(NamedTuple):
    """A small language: pairs that are shown, and pairs that are asked once these are known.

    A pair is an input with its output. Both are token lists, or strings, which are split on
    whitespace. The input of a pair has at least one token; the output may be empty.

    Example:
        >>> Episode(support=[("dax", "RED"), ("wif", "BLUE")], queries=[("wif dax", "BLUE RED")])
        Episode(support=[('dax', 'RED'), ('wif', 'BLUE')], queries=[('wif dax', 'BLUE RED')])
    """

    support: Sequence[Any]
    queries: Sequence[Any]


class ParsedEpisode(NamedTuple):
    """The same with every input and output as a tuple of tokens."""

    support: list[Pair]
    queries: list[Pair]


def parse_episodes(episodes: Any, name: str) -> list[ParsedEpisode]:
    """Checks people's episodes; `name` is what the argument is called."""
    if isinstance(episodes, str | Mapping | Episode) or not isinstance(episodes, Iterable):
        raise TypeError(
            f"`{name}` must be a list of episodes; got {_shortened(episodes)}. For a single "
            f"episode, give a list with one element."
        )
    parsed = [parse_episode(episode, f"`{name}`[{i}]") for i, episode in enumerate(episodes)]
    if not parsed:
        raise ValueError(f"`{name}` must have at least one episode; got none")
    return parsed


def parse_episode(episode: Any, where: str) -> ParsedEpisode:
    """Checks one episode, a dict or anything with `support` and `queries`."""
    if isinstance(episode, Mapping):
        if set(episode) != {"support", "queries"}:
            found = ", ".join(repr(key) for key in episode) or "none"
            raise ValueError(
                f"{where} must have exactly the keys 'support' and 'queries'; got {found}"
            )
        support, queries = episode["support"], episode["queries"]
    elif hasattr(episode, "support") and hasattr(episode, "queries"):
        support, queries = episode.support, episode.queries
    else:
        raise TypeError(
            f"{where} must be a dict with the keys 'support' and 'queries', or an `Episode`; "
            f"got {_shortened(episode)}"
        )
    return ParsedEpisode(
        parse_pairs(support, f"{where}, support", "nothing would be taught"),
        parse_pairs(queries, f"{where}, queries", "nothing would be asked"),
    )


def parse_pairs(pairs: Any, where: str, without: str) -> list[Pair]:
    """Checks a list of pairs; `without` says what it means when there are none."""
    if isinstance(pairs, str | Mapping) or not isinstance(pairs, Iterable):
        raise TypeError(f"{where} must be a list of pairs [input, output]; got {_shortened(pairs)}")
    parsed = [_parse_pair(pair, f"{where}[{i}]") for i, pair in enumerate(pairs)]
    if not parsed:
        raise ValueError(f"{where} must have at least one pair [input, output]: {without}")
    return parsed


def parse_tokens(sequence: Any, where: str, *, may_be_empty: bool = False) -> Tokens:
    """Splits a string, or checks a list of tokens."""
    if isinstance(sequence, str):
        tokens = tuple(sequence.split())
    elif isinstance(sequence, bytes | Mapping) or not isinstance(sequence, Iterable):
        raise TypeError(f"{where} must be a string or a list of tokens; got {_shortened(sequence)}")
    else:
        tokens = tuple(sequence)
        for token in tokens:
            if not isinstance(token, str):
                raise TypeError(
                    f"{where} has the token {token!r}, a {type(token).__name__}; tokens must be "
                    f"strings"
                )
            if token.split() != [token]:
                raise ValueError(
                    f"{where} has the token {token!r}; a token must not be empty or contain "
                    f"whitespace"
                )
    if not tokens and not may_be_empty:
        raise ValueError(f"{where} must have at least one token; it is empty")
    return tuple(str(token) for token in tokens)


def _parse_pair(pair: Any, where: str) -> Pair:
    if isinstance(pair, str | Mapping) or not isinstance(pair, Sequence) or len(pair) != 2:
        raise ValueError(
            f"{where} must be a pair [input, output], each a string or a list of tokens; "
            f"got {_shortened(pair)}"
        )
    return (
        parse_tokens(pair[0], f"{where}, input"),
        parse_tokens(pair[1], f"{where}, output", may_be_empty=True),
    )


def _shortened(value: Any, most: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 1]}…"
