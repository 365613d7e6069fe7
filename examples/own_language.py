"""Teaching a network new words of an invented language, and asking for sentences at once.

The language has four words for actions, `twice` and `thrice`, and two conjunctions: `dax thrice`
does one thing three times, `dax then wif` one thing before the other, `dax after wif` the other way
round. Grammar never changes. But what `dax` and the other three mean is different in every training
episode: a network that is to answer must read it from the four examples that are shown.

In the end it is taught meanings that no training episode had, and asked sentences made of them.
Half of these are also of a kind that training left out: `dax` never occurred with `thrice`.

Run it with `python examples/own_language.py`; it takes about a minute. It writes a model file to
talk to: `recombine teach own_language.recombine`.
"""

import argparse
import itertools
import random
from pathlib import Path

from recombine import MetaSeq2Seq
from recombine.estimators import Episode

WORDS = ("dax", "wif", "lug", "zup")
ACTIONS = ("JUMP", "SING", "SPIN", "NAP", "WAVE")
TIMES = {"": 1, "twice": 2, "thrice": 3}
UNSEEN = "dax thrice"

Meaning = dict[str, str]
Phrase = tuple[str, str]


def act(phrase: Phrase, meaning: Meaning) -> list[str]:
    """Returns the actions of a phrase: a word, with or without `twice` or `thrice`."""
    word, modifier = phrase
    return [meaning[word]] * TIMES[modifier]


def sample_pair(rng: random.Random, meaning: Meaning, *, unseen: bool) -> tuple[str, str]:
    """Draws a sentence with its actions; only an `unseen` one, and every such, has `dax thrice`."""
    while True:
        first, second = [(rng.choice(WORDS), rng.choice(list(TIMES))) for _ in range(2)]
        conjunction = rng.choice(["", "then", "after"])
        said, actions = " ".join(first), act(first, meaning)
        if conjunction:
            said = f"{said} {conjunction} {' '.join(second)}"
            actions = actions + act(second, meaning)
        if conjunction == "after":
            actions = act(second, meaning) + act(first, meaning)
        said = " ".join(said.split())
        if (UNSEEN in said) == unseen:
            return said, " ".join(actions)


def sample_episode(rng: random.Random, meaning: Meaning, *, unseen: bool = False) -> Episode:
    """Shows each word alone, and asks ten sentences."""
    queries = [sample_pair(rng, meaning, unseen=unseen) for _ in range(10)]
    return Episode(support=list(meaning.items()), queries=queries)


def split_meanings(rng: random.Random) -> tuple[list[Meaning], list[Meaning]]:
    """Divides all ways to give the words different meanings: most to train, 20 to test."""
    meanings: list[Meaning] = [
        dict(zip(WORDS, actions, strict=True))
        for actions in itertools.permutations(ACTIONS, len(WORDS))
    ]
    rng.shuffle(meanings)
    return meanings[20:], meanings[:20]


def with_support_of(episodes: list[Episode], others: list[Episode]) -> list[Episode]:
    """Swaps what is shown: the queries stay, the examples are those of another language."""
    return [
        Episode(other.support, episode.queries)
        for episode, other in zip(episodes, others, strict=True)
    ]


def share_guessed(episodes: list[Episode], meanings: list[Meaning]) -> float:
    """Returns how many queries are right, on average, when grammar is known but no meaning.

    No network can do better whose support is hidden.
    """
    right, asked = 0, 0
    for episode in episodes:
        truth = dict(episode.support)
        for said, _ in episode.queries:
            used = [word for word in WORDS if word in said.split()]
            right += sum(all(guess[w] == truth[w] for w in used) for guess in meanings)
            asked += len(meanings)
    return right / asked


def compare(random_state: int, steps: int, verbose: bool) -> tuple[MetaSeq2Seq, dict]:
    """Trains a network and returns it with the shares of new sentences that are right."""
    rng = random.Random(random_state)
    training, held_out = split_meanings(rng)
    episodes = [sample_episode(rng, rng.choice(training)) for _ in range(2000)]
    tests = {
        "new meanings": [sample_episode(rng, meaning) for meaning in held_out],
        f"new meanings, `{UNSEEN}`": [
            sample_episode(rng, meaning, unseen=True) for meaning in held_out
        ],
    }
    model = MetaSeq2Seq(steps=steps, random_state=random_state, verbose=verbose)
    model.fit(episodes, validation=tests["new meanings"])
    every = training + held_out
    scores = {
        name: {
            "taught": model.score(test),
            "taught another language": model.score(with_support_of(test, test[1:] + test[:1])),
            "guessed": share_guessed(test, every),
        }
        for name, test in tests.items()
    }
    return model, scores


def main() -> None:
    """Prints the table, teaches four words, and saves the model."""
    parser = argparse.ArgumentParser(description="Teach a network the words of a language.")
    parser.add_argument("--random-state", type=int, default=0, help="other data, other network")
    parser.add_argument("--steps", type=int, default=3000, help="episodes to train on")
    parser.add_argument("--output", type=Path, default=Path("own_language.recombine"))
    arguments = parser.parse_args()
    model, scores = compare(arguments.random_state, arguments.steps, verbose=True)

    print("Sentences answered exactly. A guess knows the grammar, and no meaning.\n")
    columns = list(scores["new meanings"])
    print(f"{'':28}" + "".join(f"{name:>26}" for name in columns))
    for name, row in scores.items():
        print(f"{name:28}" + "".join(f"{row[column]:>26.2f}" for column in columns))

    support = [("dax", "NAP"), ("wif", "JUMP"), ("lug", "WAVE"), ("zup", "SPIN")]
    print("\ntaught: " + ", ".join(f"{word} = {action}" for word, action in support))
    questions = ["zup", "dax then wif twice", "lug after dax thrice"]
    for question, answer in zip(questions, model.predict(support, questions), strict=True):
        print(f"  {question} -> {answer}")
    model.save(arguments.output)
    print(f"\nTalk to it: recombine teach {arguments.output}")


if __name__ == "__main__":
    main()
