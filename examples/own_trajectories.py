"""Saying where a ball ends up, when nobody can say how long it takes.

A ball falls down a row of six bowls. In every bowl it bounces for a while before it rolls over the
rim: one to six frames, each at a height that nobody can predict. Where it lands in the next bowl
depends on where it was, by a rule that never changes, and where it lies in the last one is the
outcome: left, middle or right. So the outcome is decided by the first frame, but the timing is not.

A model that predicts every frame has to predict the bounces too. It can only learn their average,
a ball somewhere between two bowls, and what follows from there is wrong. A model that chooses its
own time step learns to predict the next landing, however far away in time it is.

Run it with `python examples/own_trajectories.py`; it takes about a minute.
"""

import argparse
from typing import Any, NamedTuple

import numpy as np

from recombine import SkipForecaster

BOWLS = 6
BOUNCES = (1, 6)  # frames in a bowl, after the landing
OUTCOMES = np.array(["left", "middle", "right"])
METHODS: dict[str, dict[str, Any]] = {
    "skipping": {"horizon": 8},
    "every frame": {"fixed_step": 1},
    "every 2nd frame": {"fixed_step": 2},
    "every 4th frame": {"fixed_step": 4},
}


class Result(NamedTuple):
    """What came of one method."""

    accuracy: float  # of outcomes, from first frames of new trajectories
    training_evaluations: int  # of the model
    depth: int  # evaluations for one prediction


def sample_fall(rng: np.random.Generator) -> tuple[np.ndarray, str]:
    """Draws a trajectory and its outcome; a frame is place, bowl and height of the ball."""
    place = rng.uniform(-1, 1)
    frames = []
    for bowl in range(BOWLS):
        frames.append([place, bowl, 1.0])  # it lands from above
        if bowl < BOWLS - 1:
            bounces = rng.integers(*BOUNCES, endpoint=True)
            frames += [[place, bowl, height] for height in rng.uniform(0, 1, size=bounces)]
            place = 1 - 1.5 * abs(place)  # the slope of the bowl
    return np.array(frames), OUTCOMES[np.digitize(place, [-0.1, 0.5])]


def compare(
    random_state: int, *, steps: int = 2000, methods: tuple[str, ...] = tuple(METHODS)
) -> dict[str, Result]:
    """Trains one model for each method, otherwise set up alike, and tests it on new falls."""
    rng = np.random.default_rng(random_state)
    trajectories, outcomes = zip(*(sample_fall(rng) for _ in range(500)), strict=True)
    new, truth = zip(*(sample_fall(rng) for _ in range(500)), strict=True)
    first = np.stack([frames[0] for frames in new])
    results = {}
    for name in methods:
        model = SkipForecaster(
            steps=steps, learning_rate=5e-3, random_state=random_state, **METHODS[name]
        )
        model.fit(trajectories, outcomes)
        accuracy = model.score(first, truth)
        results[name] = Result(accuracy, model.model_evaluations_, model.depth_)
    return results


def main() -> None:
    """Prints the table of accuracies and evaluations."""
    parser = argparse.ArgumentParser(description="Skipping beside fixed time steps.")
    parser.add_argument("--random-state", type=int, default=0, help="other falls, other networks")
    results = compare(parser.parse_args().random_state)
    print("Outcomes of 500 new falls, predicted from their first frames.\n")
    print(f"{'':18}{'accuracy':>10}{'evaluations of the model':>32}")
    print(f"{'':28}{'in training':>16}{'per prediction':>16}")
    for name, result in results.items():
        numbers = f"{result.training_evaluations:>16,}{result.depth:>16}"
        print(f"{name:18}{result.accuracy:>10.2f}{numbers}")


if __name__ == "__main__":
    main()
