"""Reads and writes the public file format, one `IN: <words> OUT: <actions>` per line."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from recombine.tasks.scan._grammar import Example


def format_line(example: Example) -> str:
    """Writes one example as a line, without the line end."""
    return f"IN: {' '.join(example.words)} OUT: {' '.join(example.actions)}"


def parse_line(line: str) -> Example:
    """Reads one line, or says what is wrong with it."""
    if not line.isascii():
        raise ValueError(f"expected ASCII only; got {line!r}")
    if not line.startswith("IN: "):
        raise ValueError(f"expected a line that starts with 'IN: '; got {line!r}")
    parts = line.removeprefix("IN: ").split(" OUT: ")
    if len(parts) != 2:
        raise ValueError(
            f"expected ' OUT: ' exactly once; found it {len(parts) - 1} times: {line!r}"
        )
    words, actions = (tuple(part.split(" ")) for part in parts)
    if not all(words) or not all(actions):
        raise ValueError(f"expected symbols separated by single spaces; got {line!r}")
    return Example(words, actions)


def load_examples(path: str | Path) -> tuple[Example, ...]:
    """Reads a file of examples; an error names the file and the line."""
    path = Path(path)
    try:
        text = path.read_bytes().decode("ascii")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ValueError(f"{path}:{line}: expected ASCII only") from error
    examples = []
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        if "\r" in line:
            raise ValueError(f"{path}:{number}: expected lines that end with LF alone; found CR")
        try:
            examples.append(parse_line(line))
        except ValueError as error:
            raise ValueError(f"{path}:{number}: {error}") from error
    return tuple(examples)


def save_examples(path: str | Path, examples: Iterable[Example]) -> None:
    """Writes examples in their order, with LF line ends and a final one."""
    text = "".join(format_line(example) + "\n" for example in examples)
    Path(path).write_bytes(text.encode("ascii"))


def fingerprint(examples: Iterable[Example], *, unique: bool = True) -> str:
    """Hashes the lines regardless of their order (SHA-256 of the sorted lines).

    With `unique`, repeated lines count once.
    """
    lines = [format_line(example) for example in examples]
    ordered = sorted(set(lines) if unique else lines)
    return hashlib.sha256("".join(line + "\n" for line in ordered).encode("ascii")).hexdigest()
