import jax.numpy as jnp
import pytest

from recombine.tasks.episodes import Symbols, Vocabulary, nothing_like, take


def test_sentences_end_with_eos_and_are_padded_with_sos():
    symbols = Symbols(("a", "b"))
    found = symbols.encode([["b"], ["a", "b", "a"]])
    assert found.tokens.tolist() == [[1, 3, 2, 2], [0, 1, 0, 3]]
    assert found.lengths.tolist() == [2, 4]
    assert symbols.decode(found.tokens[1]) == ["a", "b", "a"]
    assert (symbols.sos, symbols.eos, symbols.size) == (2, 3, 4)


def test_errors_name_the_symbol_and_the_width():
    symbols = Symbols(("a", "b"))
    with pytest.raises(LookupError, match="'c' in 'a c'"):
        symbols.encode([["a", "c"]])
    with pytest.raises(ValueError, match="needs 3"):
        symbols.encode([["a", "a"]], width=2)
    with pytest.raises(ValueError, match="distinct"):
        Symbols(("a", "a"))
    with pytest.raises(LookupError, match="'c'"):
        symbols.index("c")


def test_rows_can_be_taken_and_left_out():
    vocabulary = Vocabulary(Symbols(("a",)), Symbols(("x", "y")))
    pairs = vocabulary.encode([(["a"], ["x"]), (["a", "a"], ["y"])])
    assert take(pairs, jnp.array([1])).outputs.tokens.tolist() == [[1, 3]]
    empty = nothing_like(pairs, 4)
    assert empty.inputs.tokens.shape == (4, 0, 3)
    assert empty.outputs.lengths.shape == (4, 0)
