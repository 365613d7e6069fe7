import re

import pytest

from recombine.estimators import Episode
from recombine.estimators._episodes import parse_episodes, parse_pairs, parse_tokens

AS_STRINGS = {"support": [["dax", "RED"]], "queries": [["dax dax", "RED RED"]]}


@pytest.mark.parametrize(
    "episode",
    [
        AS_STRINGS,
        {"support": [(["dax"], ["RED"])], "queries": [(["dax", "dax"], ("RED", "RED"))]},
        Episode([("dax", "RED")], [(" dax  dax ", ["RED", "RED"])]),
    ],
)
def test_dicts_tuples_strings_and_lists_mean_the_same(episode):
    [parsed] = parse_episodes([episode], "episodes")
    assert parsed.support == [(("dax",), ("RED",))]
    assert parsed.queries == [(("dax", "dax"), ("RED", "RED"))]


def test_an_output_may_be_empty_an_input_may_not():
    assert parse_pairs([["dax", ""]], "`support`", "") == [(("dax",), ())]
    with pytest.raises(ValueError, match=r"`support`\[0\], input must have at least one token"):
        parse_pairs([["", "RED"]], "`support`", "")


def wrong(**parts):
    return [AS_STRINGS, AS_STRINGS | parts]


@pytest.mark.parametrize(
    ("episodes", "error", "message"),
    [
        ([], ValueError, "at least one episode"),
        (AS_STRINGS, TypeError, "must be a list of episodes"),
        (3, TypeError, "must be a list of episodes"),
        ([3], TypeError, "`episodes`[0] must be a dict with the keys 'support' and 'queries'"),
        ([{"support": []}], ValueError, "exactly the keys 'support' and 'queries'; got 'support'"),
        (wrong(extra=1), ValueError, "got 'support', 'queries', 'extra'"),
        (wrong(support=[]), ValueError, "`episodes`[1], support must have at least one pair"),
        (wrong(queries=[]), ValueError, "`episodes`[1], queries must have at least one pair"),
        (wrong(queries="dax"), TypeError, "must be a list of pairs"),
        (wrong(queries=[["dax"]]), ValueError, "queries[0] must be a pair [input, output]"),
        (wrong(queries=[["dax", 3]]), TypeError, "queries[0], output must be a string or a list"),
        (wrong(queries=[["dax", [3]]]), TypeError, "has the token 3, a int; tokens must be str"),
        (wrong(queries=[["dax", ["A B"]]]), ValueError, "must not be empty or contain whitespace"),
        (wrong(queries=[["dax", [""]]]), ValueError, "must not be empty or contain whitespace"),
    ],
)
def test_what_is_no_episode_is_refused_with_its_place(episodes, error, message):
    with pytest.raises(error, match=re.escape(message)):
        parse_episodes(episodes, "episodes")


def test_long_values_are_shortened_in_messages():
    with pytest.raises(TypeError) as caught:
        parse_tokens({"key": "x" * 1000}, "`query`")
    assert len(str(caught.value)) < 200
