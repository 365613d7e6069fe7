"""Episodes in files: JSON Lines, one episode per line, to be written by hand or by any program.

    {"support": [["dax", "RED"], ["wif", "BLUE"]], "queries": [["dax wif", "RED BLUE"]]}

Inputs and outputs are strings, which are split on whitespace, or lists of tokens. Empty lines are
skipped.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from recombine.estimators._episodes import Episode, parse_episode, parse_episodes
from recombine.results import write_atomically

EXPECTED = 'one JSON object such as {"support": [["dax", "RED"]], "queries": [["dax", "RED"]]}'


class EpisodeFileError(ValueError):
    """A file that does not hold episodes; names the file and the line."""


def read_episodes(path: str | Path) -> list[Episode]:
    """Reads a JSON Lines file with one episode per line.

    Inputs and outputs come back as they were written, strings or lists of tokens.

    Raises:
        EpisodeFileError: a line is not an episode; the message names file and line, and says
            what was expected.
        FileNotFoundError: there is no such file.
    """
    path = Path(path)
    episodes = []
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.strip():
                episodes.append(_read_line(line, f"{path}, line {number}"))
    if not episodes:
        raise EpisodeFileError(f"{path} holds no episodes; every line must be {EXPECTED}")
    return episodes


def write_episodes(path: str | Path, episodes: Iterable[Any]) -> None:
    """Writes episodes to a JSON Lines file that `read_episodes` reads.

    Inputs and outputs that are strings stay strings, others become lists of tokens. The file is
    replaced as a whole: when an episode is wrong or writing fails, an older file stays as it was.
    """
    kept = [_as_dict(episode) for episode in episodes]
    parse_episodes(kept, "episodes")
    text = "".join(f"{json.dumps(_to_json(episode), ensure_ascii=False)}\n" for episode in kept)
    write_atomically(Path(path), lambda file: file.write(text.encode()))


def _read_line(line: bytes, where: str) -> Episode:
    try:
        data = json.loads(line)
    except UnicodeDecodeError as error:
        raise EpisodeFileError(f"{where} is not UTF-8 text ({error})") from error
    except (json.JSONDecodeError, RecursionError) as error:
        raise EpisodeFileError(f"{where} is not JSON ({error}); expected {EXPECTED}") from error
    if not isinstance(data, dict):
        raise EpisodeFileError(f"{where} is a JSON {type(data).__name__}; expected {EXPECTED}")
    try:
        parse_episode(data, where)
    except (TypeError, ValueError) as error:
        raise EpisodeFileError(f"{error}. Expected {EXPECTED}") from error
    return Episode(
        *([(source, target) for source, target in data[part]] for part in ("support", "queries"))
    )


def _as_dict(episode: Any) -> Any:
    """Returns an episode with lists in the place of iterators, which can be read only once."""
    if isinstance(episode, Mapping):
        return {part: _listed(pairs) for part, pairs in episode.items()}
    if hasattr(episode, "support") and hasattr(episode, "queries"):
        return {"support": _listed(episode.support), "queries": _listed(episode.queries)}
    return episode


def _listed(value: Any) -> Any:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return value
    return [_listed(one) for one in value]


def _to_json(episode: dict[str, Any]) -> dict[str, Any]:
    return {
        part: [[_sequence(source), _sequence(target)] for source, target in episode[part]]
        for part in ("support", "queries")
    }


def _sequence(sequence: Any) -> str | list[str]:
    return str(sequence) if isinstance(sequence, str) else [str(token) for token in sequence]
