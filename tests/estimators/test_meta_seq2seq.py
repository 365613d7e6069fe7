import itertools
import json
import pickle
import re
import zipfile
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import recombine
from recombine import MetaSeq2Seq
from recombine.estimators import Episode, EstimatorFileError

pytestmark = pytest.mark.usefixtures("quick_compilation")

WORDS, COLORS = ("dax", "wif", "lug"), ("RED", "GREEN", "BLUE")


def episode_of(colors, longest=1):
    """All sentences of one word and of two different ones, and one of `longest`."""
    meaning = dict(zip(WORDS, colors, strict=True))
    said = [[WORDS[0]] * longest, [WORDS[1]], [WORDS[2]], *itertools.permutations(WORDS, 2)]
    queries = [(" ".join(words), " ".join(meaning[word] for word in words)) for words in said]
    return Episode(list(meaning.items()), queries)


EPISODES = [episode_of(colors) for colors in itertools.permutations(COLORS)]
SUPPORT = [["dax", "BLUE"], ["wif", "RED"], ["lug", "GREEN"]]
QUICK: dict[str, Any] = {"size": 8, "steps": 2, "random_state": 0}


@pytest.fixture(scope="module")
def untrained(quick_compilation):
    return MetaSeq2Seq(**QUICK).fit(EPISODES)


def test_strings_are_answered_with_strings_and_lists_with_lists(untrained):
    answers = untrained.predict(SUPPORT, ["dax wif", ["dax", "wif"], ("dax", "wif")])
    words = answers[0].split()
    assert answers == [" ".join(words), words, words]
    as_lists = [[source.split(), target.split()] for source, target in SUPPORT]
    assert untrained.predict(as_lists, ["dax wif"]) == answers[:1]
    assert untrained.predict(SUPPORT, []) == []


def test_an_answer_does_not_depend_on_what_else_is_asked(untrained):
    alone = [untrained.predict(SUPPORT, [query])[0] for query, _ in EPISODES[0].queries]
    many = untrained.predict(SUPPORT, [query for query, _ in EPISODES[0].queries] * 40)
    long = untrained.predict(SUPPORT, ["dax wif", " ".join(["dax"] * 30)])
    assert many == alone * 40
    assert long[0] == alone[3]


def test_the_order_of_the_support_does_not_matter(untrained):
    queries = [query for query, _ in EPISODES[0].queries]
    assert untrained.predict(SUPPORT[::-1], queries) == untrained.predict(SUPPORT, queries)


def test_score_counts_what_predict_answers(untrained):
    right = [
        answer == target
        for episode in EPISODES
        for answer, (_, target) in zip(
            untrained.predict(episode.support, [query for query, _ in episode.queries]),
            episode.queries,
            strict=True,
        )
    ]
    assert untrained.score(EPISODES) == np.mean(right)


def test_attention_has_names_for_rows_and_columns(untrained):
    found = untrained.attention(SUPPORT, "wif dax")
    assert found.answer == untrained.predict(SUPPORT, [["wif", "dax"]])[0]
    assert found.words == ["wif", "dax", "<EOS>"]
    assert found.shown == ["dax = BLUE", "wif = RED", "lug = GREEN"]
    assert found.memory.shape == (3, 3)
    assert found.decoder.shape == (len(found.written), 3)
    np.testing.assert_allclose(found.memory.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(found.decoder.sum(axis=1), 1, atol=1e-5)


def test_the_curves_and_the_buckets_are_kept(untrained):
    assert set(untrained.history_) == {"step", "accuracy", "loss"}
    assert untrained.history_["step"].tolist() == [0, 1, 2]
    assert untrained.input_tokens_ == ["dax", "lug", "wif"]
    assert untrained.output_tokens_ == ["BLUE", "GREEN", "RED"]
    assert untrained.buckets_.tolist() == [[6, 3, 12, 3, 2, 3]]
    assert 0 < untrained.padding_ < 0.5


def test_ragged_episodes_are_sorted_into_buckets_and_validation_is_measured():
    ragged = [*EPISODES, *(episode_of(COLORS, longest=40) for _ in range(2))]
    model = MetaSeq2Seq(**QUICK, max_buckets=2).fit(ragged, validation=EPISODES[4:])
    assert sorted(model.buckets_[:, 0].tolist()) == [2, 6]
    assert model.max_output_length_ == 60
    assert 0 <= model.score(ragged) <= 1
    assert set(model.history_) == {"step", "accuracy", "validation_accuracy", "loss"}
    with pytest.raises(LookupError, match=r"'PINK' in `validation`\[0\]"):
        model.fit(EPISODES, validation=[episode_of(("RED", "GREEN", "PINK"))])


def test_the_same_random_state_gives_the_same_network(untrained):
    again = clone(untrained).fit(EPISODES)
    other = clone(untrained).set_params(random_state=1).fit(EPISODES)
    attention = [model.attention(SUPPORT, "dax").memory for model in (untrained, again, other)]
    np.testing.assert_array_equal(attention[0], attention[1])
    assert (attention[0] != attention[2]).any()


@pytest.mark.parametrize(
    ("episodes", "error", "message"),
    [
        ([], ValueError, "`episodes` must have at least one episode"),
        ([{"support": [], "queries": [["a", "b"]]}], ValueError, "nothing would be taught"),
        ([{"support": [["a", "b"]], "queries": []}], ValueError, "nothing would be asked"),
        ([{"support": [[1, 2]], "queries": [["a", "b"]]}], TypeError, "must be a string or a list"),
        ([{"support": [["a", [2]]], "queries": [["a", "b"]]}], TypeError, "has the token 2, a int"),
        ([{"support": [["a", ""]], "queries": [["a", ""]]}], ValueError, "all of them are empty"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(episodes, error, message):
    with pytest.raises(error, match=re.escape(message)):
        MetaSeq2Seq(**QUICK).fit(episodes)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"size": 0}, ValueError, "`size` must be at least 1"),
        ({"size": 2.5}, TypeError, "`size` must be made of whole numbers"),
        ({"steps": 0}, ValueError, "`steps` must be at least 1"),
        ({"dropout": 1.0}, ValueError, "`dropout` must lie in [0, 1)"),
        ({"dropout": "half"}, TypeError, "`dropout` must be a number"),
        ({"learning_rate": 0}, ValueError, "`learning_rate` must be above 0"),
        ({"max_buckets": 0}, ValueError, "`max_buckets` must be at least 1"),
        ({"max_output_length": 0}, ValueError, "`max_output_length` must be at least 1"),
        ({"permute_words": "dax wif"}, TypeError, "must be a list of groups of words"),
        ({"permute_words": ["dax blick"]}, LookupError, "'blick' in `permute_words`"),
        ({"permute_words": ["dax wif", "dax wif"]}, ValueError, "has 'dax' more than once"),
        ({"permute_words": ["dax", "wif"]}, ValueError, "[0] has one word only, 'dax'"),
        ({"max_output_length": 1}, ValueError, "`episodes`[0] has an output of 2 tokens"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(parameters, error, message):
    model = MetaSeq2Seq(**QUICK).set_params(**parameters)
    with pytest.raises(error, match=re.escape(message)):
        model.fit(EPISODES)
    with pytest.raises(NotFittedError):
        model.predict(SUPPORT, ["dax"])


@pytest.mark.slow
def test_a_loss_that_is_not_finite_stops_the_fit_with_what_to_do():
    model = MetaSeq2Seq(**{**QUICK, "steps": 8}, learning_rate=1e38)
    with pytest.raises(FloatingPointError, match=r"(?s)not finite.*Lower `learning_rate`"):
        model.fit(EPISODES)
    with pytest.raises(NotFittedError):
        model.predict(SUPPORT, ["dax"])


def test_outputs_longer_than_the_limit_are_refused_with_what_to_do(untrained):
    message = (
        "`episodes`[1] has an output of 9 tokens (for 'dax dax dax dax dax dax dax dax dax'), but "
        "answers end after 8: raise `max_output_length` and fit"
    )
    long = [EPISODES[0], episode_of(COLORS, longest=9)]
    with pytest.raises(ValueError, match=re.escape(message)):
        MetaSeq2Seq(**QUICK, max_output_length=8).fit(long)
    assert untrained.max_output_length_ == 7
    with pytest.raises(ValueError, match="has an output of 9 tokens"):
        untrained.score(long)


def test_an_answer_is_cut_at_the_limit(untrained):
    model = clone(untrained).set_params(max_output_length=2).fit(EPISODES)
    found = model.attention(SUPPORT, "dax wif")
    assert found.written in (found.answer, [*found.answer, "<EOS>"])
    assert found.decoder.shape == (len(found.written), 3)
    answers = model.predict(SUPPORT, ["dax wif", "dax", "lug lug lug"])
    assert answers[0].split() == found.answer
    assert all(len(answer.split()) <= 2 for answer in answers)


@pytest.mark.parametrize(
    ("support", "queries", "error", "message"),
    [
        ([], ["dax"], ValueError, "`support` must have at least one pair"),
        (SUPPORT, ["dax blick"], LookupError, "'blick' in `queries` is not a token of the inputs"),
        ([["dax", "red"]], ["dax"], LookupError, "'red' (did you mean 'RED'?) in `support`"),
        ([["blick", "RED"]], ["dax"], LookupError, "'blick' in `support` is not a token of the in"),
        (SUPPORT, "dax wif", TypeError, "`queries` must be a list of queries; got 'dax wif'"),
        (SUPPORT, [""], ValueError, "`queries`[0] must have at least one token"),
        (SUPPORT, [[1]], TypeError, "`queries`[0] has the token 1, a int"),
        (SUPPORT, [3], TypeError, "`queries`[0] must be a string or a list of tokens"),
        ({"dax": "RED"}, ["dax"], TypeError, "`support` must be a list of pairs"),
    ],
)
def test_what_cannot_be_answered_is_refused(untrained, support, queries, error, message):
    with pytest.raises(error, match=re.escape(message)):
        untrained.predict(support, queries)
    if isinstance(queries, list):
        with pytest.raises(error):
            untrained.attention(support, queries[0])


def test_an_unfitted_model_answers_nothing():
    for ask in (
        lambda model: model.predict(SUPPORT, ["dax"]),
        lambda model: model.attention(SUPPORT, "dax"),
        lambda model: model.score(EPISODES),
    ):
        with pytest.raises(NotFittedError):
            ask(MetaSeq2Seq())


def test_a_loaded_model_answers_as_the_saved_one_bit_for_bit(untrained, tmp_path):
    path = tmp_path / "model.recombine"
    untrained.save(path)
    loaded: Any = recombine.load(path)
    assert type(loaded) is MetaSeq2Seq
    assert loaded.get_params() == untrained.get_params()
    assert vars(loaded).keys() == vars(untrained).keys()
    assert loaded.input_tokens_ == untrained.input_tokens_
    assert loaded.predict(SUPPORT, ["dax wif"]) == untrained.predict(SUPPORT, ["dax wif"])
    before, after = (model.attention(SUPPORT, "lug dax wif") for model in (untrained, loaded))
    np.testing.assert_array_equal(after.memory, before.memory)
    np.testing.assert_array_equal(after.decoder, before.decoder)
    assert after[:4] == before[:4]
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_it_can_be_copied_between_processes(untrained):
    copied = pickle.loads(pickle.dumps(untrained))
    assert copied.predict(SUPPORT, ["dax wif"]) == untrained.predict(SUPPORT, ["dax wif"])


def rewrite(path, **changes):
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    data = json.loads(members["estimator.json"]) | changes
    members["estimator.json"] = json.dumps(data).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 2, "version": "9.0"}, "has format 2 (written by recombine 9.0)"),
        ({"class": "MetaSeq3Seq"}, "holds a 'MetaSeq3Seq'"),
        ({"params": {"no_such_setting": 1}}, "does not fit this version's MetaSeq2Seq"),
        ({"fitted": {}}, "does not fit this version's MetaSeq2Seq"),
        ({"fitted": {"input_tokens_": [], "output_tokens_": []}}, "does not fit this version's"),
        ({"model": []}, "does not fit this version's MetaSeq2Seq"),
    ],
)
def test_a_file_of_another_version_is_refused_by_name(untrained, tmp_path, changes, message):
    path = tmp_path / "model.recombine"
    untrained.save(path)
    rewrite(path, **changes)
    with pytest.raises(EstimatorFileError, match=re.escape(f"{path} {message}")):
        recombine.load(path)
