import numpy as np
import pytest

from recombine.estimators._symbols import Alphabet, Alphabets

WORDS = Alphabet.of([("wif", "dax"), ("dax", "lug")], "inputs")


def test_tokens_are_numbered_in_order_then_sos_then_eos():
    assert WORDS.names == ("dax", "lug", "wif")
    assert WORDS.size == 5
    coded = WORDS.encode([("wif",), ("dax", "lug")], rows=3, width=3)
    np.testing.assert_array_equal(coded.tokens, [[2, 4, 3], [0, 1, 4], [3, 3, 3]])
    np.testing.assert_array_equal(coded.lengths, [2, 3, 0])


def test_decoding_stops_at_the_end():
    assert WORDS.decode([2, 0, 4, 1]) == (["wif", "dax"], True)
    assert WORDS.decode([2, 3]) == (["wif", "<SOS>"], False)


def test_all_unknown_tokens_are_named_with_the_nearest():
    with pytest.raises(LookupError) as caught:
        WORDS.check([("dax", "Wiff"), ("Wiff", "zup")], "`queries`")
    assert str(caught.value) == (
        "'Wiff' (did you mean 'wif'?), 'zup' in `queries` are not tokens of the inputs that the "
        "model was trained with: dax lug wif"
    )


def test_inputs_and_outputs_have_alphabets_of_their_own():
    both = Alphabets(WORDS, Alphabet(("RED",), "outputs"))
    both.check([(("dax",), ("RED",))], "`support`")
    with pytest.raises(LookupError, match="'RED' in `support` is not a token of the inputs"):
        both.check([(("RED",), ("RED",))], "`support`")
    with pytest.raises(LookupError, match="'dax' in `support` is not a token of the outputs"):
        both.check([(("dax",), ("dax",))], "`support`")


def test_many_tokens_are_not_all_listed():
    many = Alphabet(tuple(f"w{i:03}" for i in range(100)), "inputs")
    with pytest.raises(LookupError, match=r"w029 and 70 more$"):
        many.check([("zup",)], "`query`")
