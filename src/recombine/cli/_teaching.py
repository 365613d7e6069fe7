"""`recombine teach`: a dialogue with a trained `MetaSeq2Seq`, at a terminal or through a pipe."""

import contextlib
import difflib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import recombine

if TYPE_CHECKING:
    from recombine import MetaSeq2Seq

PROMPT = "> "
BLOCKS, DIGITS = "▁▂▃▄▅▆▇█", "0123456789"

HELP = """\
dax = RED        teach a pair: an input, "=", its output
dax wif          ask: the answer comes with where the network looked
? show dax       ask, even if the first word is also a command
show             list what was taught, and the words there are
forget dax       forget the pair with this input; alone, forget everything
help             print this
quit             end (so does the end of the input)"""


class NotUnderstoodError(ValueError):
    """A line that cannot be followed; says why, and what would be."""


def teach(path: Path) -> None:
    """Reads lines and answers them, until `quit` or the end of the input."""
    lesson = Lesson(_load(path), draws_blocks=_draws_blocks())
    is_interactive = sys.stdin.isatty()
    if is_interactive:
        print(f"{path}: {lesson.summary()}. `help` lists the commands.", flush=True)
    for line in _lines(is_interactive):
        words = line.split()
        if words in (["quit"], ["exit"]):
            return
        try:
            answer = lesson.respond(line)
        except NotUnderstoodError as problem:
            print(f"{problem}", file=sys.stderr, flush=True)
        else:
            if answer and (is_interactive or "=" not in line):
                print(answer, flush=True)


class Lesson:
    """What was taught so far, and the model that is asked about it."""

    def __init__(self, model: "MetaSeq2Seq", *, draws_blocks: bool):
        self._model = model
        self._blocks = draws_blocks
        self._taught: dict[tuple[str, ...], tuple[str, ...]] = {}

    def respond(self, line: str) -> str:
        """Follows one line and returns what is to be printed; empty for an empty line."""
        words = tuple(line.split())
        if not words:
            return ""
        if "=" in line:
            return self._teach(*line.split("=", maxsplit=1))
        if words[0] == "?":
            return self._ask(words[1:])
        if words == ("help",):
            return HELP
        if words == ("show",):
            return self._show()
        if words[0] == "forget":
            return self._forget(words[1:])
        return self._ask(words)

    def summary(self) -> str:
        """Says what the model can talk about."""
        known = self._model
        return (
            f"{len(known.input_tokens_)} words ({_listing(known.input_tokens_)}), "
            f"{len(known.output_tokens_)} outputs ({_listing(known.output_tokens_)})"
        )

    def _teach(self, left: str, right: str) -> str:
        source, target = tuple(left.split()), tuple(right.split())
        if not source or not target:
            raise NotUnderstoodError('a pair is an input, "=" and its output, as in: dax = RED')
        _check_known(source, self._model.input_tokens_, "word")
        _check_known(target, self._model.output_tokens_, "output")
        self._taught[source] = target
        return f"taught: {self._count()}"

    def _forget(self, source: tuple[str, ...]) -> str:
        if not source:
            self._taught.clear()
        elif self._taught.pop(source, None) is None:
            known = ", ".join(" ".join(words) for words in self._taught) or "nothing"
            raise NotUnderstoodError(f"{' '.join(source)!r} was not taught; taught: {known}")
        return f"taught: {self._count()}"

    def _show(self) -> str:
        lines = [f"  {_pair(*pair)}" for pair in self._taught.items()]
        return "\n".join([f"taught: {self._count()}", *lines, f"known: {self.summary()}"])

    def _ask(self, words: tuple[str, ...]) -> str:
        if not words:
            raise NotUnderstoodError("after the question mark, write what to ask: ? dax wif")
        _check_known(words, self._model.input_tokens_, "word")
        if not self._taught:
            raise NotUnderstoodError(
                "nothing was taught yet; teach at least one pair, as in: "
                f"{self._model.input_tokens_[0]} = {self._model.output_tokens_[0]}"
            )
        found = self._model.attention(list(self._taught.items()), words)
        arrow = "→" if self._blocks else "->"
        lines = [f"{' '.join(words)} {arrow} {' '.join(found.answer)}"]
        if len(found.written) == len(found.answer):
            lines.append(f"(cut at the longest answer that is given, {len(found.answer)})")
        lines += self._bars("word", "looked up", found.words, found.shown, found.memory)
        lines += self._bars("output", "came from", found.written, found.words, found.decoder)
        return "\n".join(lines)

    def _bars(
        self, what: str, how: str, rows: Sequence[str], columns: Sequence[str], weights: Any
    ) -> list[str]:
        """Draws one heat bar per row, and names the column with the most weight."""
        width = max(len(what), *(len(row) for row in rows))
        levels = BLOCKS if self._blocks else DIGITS
        lines = [f"  {what:{width}}  {how}"]
        for row, shares in zip(rows, weights, strict=True):
            bar = "".join(levels[min(int(s * len(levels)), len(levels) - 1)] for s in shares)
            most = int(shares.argmax())
            lines.append(f"  {row:{width}}  {bar}  {shares[most]:4.0%} {columns[most]}")
        return lines

    def _count(self) -> str:
        number = len(self._taught)
        return f"{number or 'no'} pair{'' if number == 1 else 's'}"


def _load(path: Path) -> "MetaSeq2Seq":
    try:
        model = recombine.load(path)
    except ValueError as error:  # its message names the file and what is wrong with it
        raise typer.BadParameter(str(error), param_hint="MODEL") from error
    if not isinstance(model, recombine.MetaSeq2Seq):
        raise typer.BadParameter(
            f"{path} holds an estimator of another kind, {type(model).__name__}; only a "
            f"MetaSeq2Seq can be taught",
            param_hint="MODEL",
        )
    return model


def _lines(is_interactive: bool) -> Iterator[str]:
    if not is_interactive:
        if hasattr(sys.stdin, "reconfigure"):
            sys.stdin.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
        yield from sys.stdin
        return
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  (`input` then edits lines and remembers them)
    while True:
        try:
            yield input(PROMPT)
        except EOFError:
            print()
            return
        except KeyboardInterrupt:
            print("\n`quit` ends", flush=True)


def _check_known(words: Sequence[str], known: Sequence[str], kind: str) -> None:
    for word in words:
        if word not in known:
            folded = {name.casefold(): name for name in known}
            near = difflib.get_close_matches(word.casefold(), folded, n=1)
            hint = f" (did you mean {folded[near[0]]!r}?)" if near else ""
            raise NotUnderstoodError(
                f"{word!r} is not a known {kind}{hint}; there are: {_listing(known)}"
            )


def _listing(names: Sequence[str], most: int = 30) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return " ".join(names[:most]) + more


def _pair(source: Sequence[str], target: Sequence[str]) -> str:
    return f"{' '.join(source)} = {' '.join(target)}"


def _draws_blocks() -> bool:
    encoding = getattr(sys.stdout, "encoding", None) or ""
    return sys.stdout.isatty() and encoding.lower().startswith("utf")
