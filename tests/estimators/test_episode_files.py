import re

import pytest

from recombine.estimators import Episode, EpisodeFileError, read_episodes, write_episodes

GOOD = '{"support": [["dax", "RED"]], "queries": [["dax dax", "RED RED"]]}'


def test_episodes_are_read_as_they_were_written(tmp_path):
    episodes = [
        Episode([("dax", "RED")], [("dax dax", "RED RED"), (["dax"], ["RED"])]),
        Episode([("größe", "→ ♥")], [("größe", "")]),
    ]
    path = tmp_path / "episodes.jsonl"
    write_episodes(path, episodes)
    assert read_episodes(str(path)) == episodes
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2
    assert "größe" in path.read_text(encoding="utf-8")


def test_dicts_and_tuples_of_tokens_can_be_written(tmp_path):
    path = tmp_path / "episodes.jsonl"
    pairs = ((("dax",), ("RED",)),)
    write_episodes(path, iter([{"support": pairs, "queries": pairs}]))
    assert read_episodes(path) == [Episode([(["dax"], ["RED"])], [(["dax"], ["RED"])])]


def test_pairs_that_can_be_read_only_once_are_written(tmp_path):
    path = tmp_path / "episodes.jsonl"
    pairs = zip(["dax", "wif"], ["RED", "BLUE"], strict=True)
    asked = ([iter(("dax", "wif")), word] for word in ("RED BLUE",))
    write_episodes(path, [{"support": pairs, "queries": asked}])
    [episode] = read_episodes(path)
    assert episode.support == [("dax", "RED"), ("wif", "BLUE")]
    assert episode.queries == [(["dax", "wif"], "RED BLUE")]


def test_empty_lines_are_skipped(tmp_path):
    path = tmp_path / "episodes.jsonl"
    path.write_text(f"\n{GOOD}\r\n\n{GOOD}")
    assert len(read_episodes(path)) == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"support": [["dax"', "is not JSON"),
        ("[1, 2]", "is a JSON list; expected one JSON object"),
        ('"text"', "is a JSON str"),
        ('{"support": [["dax", "RED"]]}', "exactly the keys 'support' and 'queries'"),
        (GOOD.replace('[["dax", "RED"]]', "[]"), "support must have at least one pair"),
        (GOOD.replace('[["dax dax", "RED RED"]]', "[]"), "queries must have at least one pair"),
        (GOOD.replace('"RED RED"', "7"), "queries[0], output must be a string or a list"),
        (GOOD.replace('"RED RED"', "[7]"), "queries[0], output has the token 7, a int"),
        (GOOD.replace('"RED RED"', "null"), "queries[0], output must be a string or a list"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_a_malformed_line_is_named_with_what_was_expected(tmp_path, line, message):
    path = tmp_path / "episodes.jsonl"
    path.write_text(f"{GOOD}\n\n{line}\n")
    with pytest.raises(EpisodeFileError, match=re.escape(message)) as caught:
        read_episodes(path)
    assert f"{path}, line 3" in str(caught.value)
    assert 'one JSON object such as {"support"' in str(caught.value)


def test_bytes_that_are_no_text_are_named(tmp_path):
    path = tmp_path / "episodes.jsonl"
    path.write_bytes(GOOD.encode() + b"\n\xff\xfe{}\n")
    with pytest.raises(EpisodeFileError, match="line 2 is not"):
        read_episodes(path)


def test_files_without_episodes_are_named(tmp_path):
    path = tmp_path / "episodes.jsonl"
    path.write_text("\n")
    with pytest.raises(EpisodeFileError, match=r"episodes\.jsonl holds no episodes"):
        read_episodes(path)
    with pytest.raises(FileNotFoundError, match="nothing"):
        read_episodes(tmp_path / "nothing")


def test_a_wrong_episode_leaves_the_old_file(tmp_path):
    path = tmp_path / "episodes.jsonl"
    path.write_text(GOOD)
    with pytest.raises(ValueError, match=r"`episodes`\[0\], support must have at least one pair"):
        write_episodes(path, [{"support": [], "queries": [["a", "b"]]}])
    assert path.read_text() == GOOD
    assert list(tmp_path.iterdir()) == [path]
