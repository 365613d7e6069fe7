import contextlib
import io
import os
import pty
import select
import subprocess
import sys
import time
from typing import Any

import jax
import numpy as np
import pytest

import recombine
from recombine.cli import main
from recombine.cli._teaching import Lesson, NotUnderstoodError, _lines

EPISODES = [
    {
        "support": [["dax", "RED"], ["wif", "BLUE"]],
        "queries": [["dax wif", "RED BLUE"], ["wif", "BLUE"]],
    }
]


@pytest.fixture(scope="module")
def model():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield recombine.MetaSeq2Seq(size=8, steps=1, random_state=0).fit(EPISODES)
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.recombine"
    model.save(path)
    return path


def teach(monkeypatch, capsys, path, text):
    """Pipes text into the command; returns exit code, standard output and error output."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    with pytest.raises(SystemExit) as stopped:
        main(["teach", str(path)])
    output = capsys.readouterr()
    return stopped.value.code or 0, output.out, output.err


def test_a_pipe_teaches_and_asks(monkeypatch, capsys, path, model):
    text = "dax = RED\nwif=BLUE\n\ndax wif dax\n"
    code, out, err = teach(monkeypatch, capsys, path, text)
    assert (code, err) == (0, "")
    support = [["dax", "RED"], ["wif", "BLUE"]]
    [answer] = model.predict(support, ["dax wif dax"])
    lines = out.splitlines()
    assert lines[0] == f"dax wif dax -> {answer}"
    assert lines[-1].isascii()
    words = [line.split()[0] for line in lines if "% " in line]
    assert words[:4] == ["dax", "wif", "dax", "<EOS>"]


def test_bad_lines_are_answered_and_the_dialogue_goes_on(monkeypatch, capsys, path):
    text = "dax\nblick\ndax = red\n= RED\ndax =\n?\nforget wif\ndax = RED\n? dax\n"
    code, out, err = teach(monkeypatch, capsys, path, text)
    assert code == 0
    assert err.splitlines() == [
        "nothing was taught yet; teach at least one pair, as in: dax = BLUE",
        "'blick' is not a known word; there are: dax wif",
        "'red' is not a known output (did you mean 'RED'?); there are: BLUE RED",
        'a pair is an input, "=" and its output, as in: dax = RED',
        'a pair is an input, "=" and its output, as in: dax = RED',
        "after the question mark, write what to ask: ? dax wif",
        "'wif' was not taught; taught: nothing",
    ]
    assert out.startswith("dax -> ")


def test_show_forget_help_and_quit(monkeypatch, capsys, path):
    text = "help\ndax = RED\ndax wif = RED BLUE\ndax = BLUE\nshow\nforget dax wif\nshow\n"
    code, out, err = teach(monkeypatch, capsys, path, text + "forget\nquit\nblick\n")
    assert (code, err) == (0, "")
    assert "teach a pair" in out
    assert "taught: 2 pairs\n  dax = BLUE\n  dax wif = RED BLUE\nknown: 2 words" in out
    assert "taught: 1 pair\n  dax = BLUE\nknown" in out
    assert out.endswith("taught: no pairs\n")


def test_the_end_of_the_input_ends_it(monkeypatch, capsys, path):
    assert teach(monkeypatch, capsys, path, "") == (0, "", "")


class Scripted:
    """Stands in for a model, with an attention that can be read off."""

    input_tokens_ = ("dax", "show")
    output_tokens_ = ("RED", "BLUE")

    def __init__(self, ends: bool):
        self.ends = ends

    def attention(self, support, words):
        from recombine.estimators import Attention

        return Attention(
            answer=["RED", "BLUE"],
            words=[*words, "<EOS>"],
            shown=[" ".join(source) for source, _ in support],
            written=["RED", "BLUE", *["<EOS>"][: self.ends]],
            memory=np.array([[0.5, 0.1, 0.4], [0.0, 1.0, 0.0]]),
            decoder=np.array([[0.25, 0.75], [0.9, 0.1], [1.0, 0.0]])[: 2 + self.ends],
        )


def lesson_on(blocks, ends=True):
    model: Any = Scripted(ends)
    lesson = Lesson(model, draws_blocks=blocks)
    for pair in ("dax = RED", "show = BLUE", "dax dax = RED RED"):
        lesson.respond(pair)
    return lesson


def test_a_terminal_gets_blocks():
    assert lesson_on(blocks=True).respond("dax").splitlines() == [
        "dax → RED BLUE",
        "  word   looked up",
        "  dax    ▅▁▄   50% dax",
        "  <EOS>  ▁█▁  100% show",
        "  output  came from",
        "  RED     ▃▇   75% <EOS>",
        "  BLUE    █▁   90% dax",
        "  <EOS>   █▁  100% dax",
    ]


def test_anything_else_gets_digits():
    lines = lesson_on(blocks=False).respond("dax").splitlines()
    assert lines[0] == "dax -> RED BLUE"
    assert lines[2] == "  dax    514   50% dax"
    assert "\n".join(lines).isascii()


def test_an_answer_without_an_end_is_marked():
    assert "cut at the longest answer" in lesson_on(blocks=False, ends=False).respond("dax")


def test_a_word_that_is_also_a_command_can_be_asked():
    lesson = lesson_on(blocks=False)
    assert lesson.respond("show").startswith("taught: 3 pairs")
    assert lesson.respond("? show").startswith("show -> RED BLUE")
    with pytest.raises(NotUnderstoodError, match="'lug' is not a known word"):
        lesson.respond("? lug")


def bad_usage(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(["teach", *arguments])
    assert stopped.value.code == 2
    output = capsys.readouterr()
    assert output.out == ""
    return output.err


def test_files_that_are_no_model_exit_with_2(capsys, tmp_path, path):
    assert "does not exist" in bad_usage(capsys, str(tmp_path / "nothing"))
    assert "is a directory" in bad_usage(capsys, str(tmp_path))
    damaged = tmp_path / "damaged"
    damaged.write_bytes(path.read_bytes()[:500])
    assert f"{damaged} is cut off, damaged" in bad_usage(capsys, str(damaged))


def test_another_version_exits_with_2(capsys, path, monkeypatch):
    monkeypatch.setattr("recombine.estimators._saving.FORMAT", 7)
    assert "has format 1" in bad_usage(capsys, str(path))


def test_an_estimator_of_another_kind_exits_with_2(capsys, tmp_path):
    other = recombine.InvariantClassifier(hidden_sizes=(2,), steps=1, random_state=0)
    X = np.random.default_rng(0).normal(size=(8, 1))
    other.fit(X, X[:, 0] > 0, environments=[0, 1] * 4).save(tmp_path / "other")
    error = bad_usage(capsys, str(tmp_path / "other"))
    assert "InvariantClassifier; only a MetaSeq2Seq can be taught" in error


def test_control_c_at_the_prompt_does_not_end_it(monkeypatch, capsys):
    typed = iter([KeyboardInterrupt, "dax = RED", EOFError])

    def type_next(prompt):
        line = next(typed)
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr("builtins.input", type_next)
    assert list(_lines(is_interactive=True)) == ["dax = RED"]
    assert "`quit` ends" in capsys.readouterr().out


def test_a_terminal_prompts_draws_and_ends_with_control_d(path):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "recombine", "teach", str(path)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"PYTHONUTF8": "1", "TERM": "dumb"},
    )
    os.close(theirs)
    seen = ""

    def wait_for(text):
        nonlocal seen
        ends = time.monotonic() + 60
        while text not in seen:
            assert select.select([ours], [], [], ends - time.monotonic())[0], seen
            seen += os.read(ours, 4096).decode(errors="replace")
        seen = seen.split(text, maxsplit=1)[1]

    try:
        wait_for("`help` lists the commands")
        wait_for("> ")
        os.write(ours, b"dax = RED\n")
        wait_for("taught: 1 pair")
        os.write(ours, b"blick\n")
        wait_for("'blick' is not a known word")
        os.write(ours, b"dax\n")
        wait_for("dax → ")
        wait_for("█  100% dax = RED")
        wait_for("> ")
        ends = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < ends:
            os.write(ours, b"\x04")  # Ctrl-D; again, if it came before the prompt was ready
            if select.select([ours], [], [], 0.5)[0]:
                with contextlib.suppress(OSError):  # the other end is gone
                    os.read(ours, 4096)
        assert process.poll() == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
