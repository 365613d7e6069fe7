from collections import Counter

import pytest

from recombine.tasks.scan import VERBS, all_examples, meaning

INPUT_LENGTHS = {1: 4, 2: 18, 3: 72, 4: 328, 5: 1288, 6: 3520, 7: 6080, 8: 6400, 9: 3200}
OUTPUT_LENGTHS = {
    **{1: 6, 2: 88, 3: 398, 4: 860, 5: 1184, 6: 1178, 7: 1104, 8: 1450, 9: 1256, 10: 1696},
    **{11: 1072, 12: 1578, 13: 432, 14: 848, 15: 688, 16: 304, 17: 512, 18: 784, 19: 448},
    **{20: 464, 21: 64, 22: 576, 24: 336, 25: 448, 26: 512, 27: 448, 28: 448, 30: 576},
    **{32: 448, 33: 256, 36: 64, 40: 256, 48: 128},
}


def test_counts_of_the_whole_language():
    examples = all_examples()
    assert len(examples) == len({e.words for e in examples}) == 20_910
    assert len({e.actions for e in examples}) == 9_228
    single = [e for e in examples if not e.contains("and") and not e.contains("after")]
    phrases = [e for e in single if e.words[-1] not in ("twice", "thrice")]
    assert (len(single), len(phrases)) == (102, 34)
    assert Counter(len(e.words) for e in examples) == INPUT_LENGTHS
    assert Counter(len(e.actions) for e in examples) == OUTPUT_LENGTHS


def test_counts_of_words_and_phrases():
    def count(phrase):
        return sum(e.contains(phrase) for e in all_examples())

    assert [count(verb) for verb in VERBS] == [7_707] * 4
    assert (count("turn"), count("left"), count("right")) == (6_714, 14_355, 14_355)
    assert count("around right") == 5_685
    assert count("turn around right") == count("turn left") == 1_209
    without_verb = [e for e in all_examples() if not set(e.words) & set(VERBS)]
    without_direction = [e for e in all_examples() if not set(e.words) & {"left", "right"}]
    assert (len(without_verb), len(without_direction)) == (666, 300)


def test_meanings_worked_out_by_hand():
    left, right = "I_TURN_LEFT", "I_TURN_RIGHT"
    assert meaning("jump opposite left after walk around left") == (
        *(left, "I_WALK") * 4,
        *(left, left, "I_JUMP"),
    )
    assert meaning("turn around right twice") == (right,) * 8
    assert len(meaning("jump around right twice and look opposite right thrice")) == 25


def test_generated_meanings_are_those_of_the_parser():
    assert all(meaning(e.words) == e.actions for e in all_examples()[::7])


def test_the_language_is_closed_under_renaming():
    words = dict(zip(VERBS, ("jump", "walk", "look", "run"), strict=True))
    words |= {"left": "right", "right": "left"}
    renamed = {tuple(words.get(word, word) for word in e.words) for e in all_examples()}
    assert renamed == {e.words for e in all_examples()}


@pytest.mark.parametrize(
    "command",
    ["turn", "walk and", "run and run and run", "left walk", "walk around", "", "fly"],
)
def test_other_sentences_are_refused(command):
    with pytest.raises(ValueError, match="is not a SCAN command"):
        meaning(command)
