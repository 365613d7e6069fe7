"""Learning machines that are new combinations of known parts, from a few measurements each.

A machine is made of one to three parts, of six kinds. It has eight settings and four gauges. Every
part pulls at sixteen springs, each kind in its own way that depends on the settings; the pulls of
all parts add up, a spring can only give way in one direction, and the gauges read the springs. Of
each machine there are a dozen measurements or so, with all gauges at some settings, and the task is
to predict the gauges at others.

Ten of the 41 combinations of parts never occur in training. A network whose weights are a sum of
modules can learn the kinds of parts as modules, and then find out which of them a new machine has.
MAML and ANIL adapt one network for everything; it is about as large as all modules together.

Run it with `python examples/own_tasks.py`; it takes between one and two minutes.
"""

import argparse
import itertools
from typing import Any

import numpy as np

from recombine import ModularFewShot
from recombine.estimators import Task

KINDS, MOST_PARTS = 6, 3
SETTINGS, SPRINGS, GAUGES = 8, 16, 4
MEASUREMENTS = (12, 20)  # of a machine, from which its predictor is made
ASKED = 32

Parts = tuple[int, ...]

# All of them share about 7,500 numbers between tasks.
LEARNERS: dict[str, dict[str, Any]] = {
    "hypernetwork": {"modules": 12, "width": 48, "hidden_layers": 1, "learning_rate": 3e-3},
    "anil": {"width": 80, "hidden_layers": 2},
    "maml": {"width": 80, "hidden_layers": 2},
}


class Workshop:
    """Knows the kinds of parts, and builds machines of them."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.pulls = rng.normal(size=(KINDS, SETTINGS, SPRINGS)) / np.sqrt(SETTINGS)
        self.wiring = rng.normal(size=(SPRINGS, GAUGES)) / np.sqrt(SPRINGS)

    def measure(self, parts: Parts, settings: np.ndarray) -> np.ndarray:
        """Returns the gauges of a machine at some settings."""
        pull = settings @ self.pulls[list(parts)].sum(axis=0)
        return np.maximum(pull, 0) @ self.wiring

    def sample_task(self, parts: Parts) -> Task:
        """Measures a machine: a few times to learn it from, and some more to be asked about."""
        shown = self.rng.integers(*MEASUREMENTS, endpoint=True)
        settings = self.rng.normal(size=(shown + ASKED, SETTINGS))
        gauges = self.measure(parts, settings)
        return Task(settings[:shown], gauges[:shown], settings[shown:], gauges[shown:])


def split_combinations(rng: np.random.Generator) -> tuple[list[Parts], list[Parts]]:
    """Returns the combinations of parts that are trained on, and those that are held out."""
    all_of_them = [
        parts
        for count in range(1, MOST_PARTS + 1)
        for parts in itertools.combinations(range(KINDS), count)
    ]
    order = rng.permutation(len(all_of_them))
    shuffled = [all_of_them[i] for i in order]
    held_out = len(shuffled) // 4
    return shuffled[held_out:], shuffled[:held_out]


def compare(
    random_state: int, *, steps: int = 2000, learners: tuple[str, ...] = tuple(LEARNERS)
) -> dict[str, dict[str, float]]:
    """Returns R² of each learner, on new machines of known and of unseen combinations."""
    rng = np.random.default_rng(random_state)
    known, unseen = split_combinations(rng)
    workshop = Workshop(rng)
    tasks = [workshop.sample_task(parts) for parts in known for _ in range(20)]
    tests = {
        "known combinations": [workshop.sample_task(parts) for parts in known for _ in range(3)],
        "unseen combinations": [workshop.sample_task(parts) for parts in unseen for _ in range(9)],
    }
    scores = {}
    for learner in learners:
        model = ModularFewShot(
            learner,  # pyright: ignore[reportArgumentType]
            predicts="numbers",
            steps=steps,
            random_state=random_state,
            **LEARNERS[learner],
        )
        model.fit(tasks)
        scores[learner] = {name: model.score(machines) for name, machines in tests.items()}
    return scores


def main() -> None:
    """Prints the table of scores."""
    parser = argparse.ArgumentParser(description="Modules beside networks without modules.")
    parser.add_argument("--random-state", type=int, default=0, help="other parts, other networks")
    scores = compare(parser.parse_args().random_state)
    print("R² of the gauges of new machines, each learned from 12 to 20 measurements.\n")
    print(f"{'':16}{'known combinations':>22}{'unseen combinations':>22}")
    for learner, of_tests in scores.items():
        print(f"{learner:16}" + "".join(f"{score:>22.2f}" for score in of_tests.values()))


if __name__ == "__main__":
    main()
