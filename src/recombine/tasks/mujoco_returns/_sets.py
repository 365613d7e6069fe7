"""The three sets of a control task, ready for a learner."""

from functools import partial
from typing import NamedTuple

from recombine.tasks.mujoco_returns._binning import NUM_CLASSES
from recombine.tasks.mujoco_returns._examples import (
    Preparation,
    ReturnExamples,
    fit_preparation,
)
from recombine.tasks.mujoco_returns._rollouts import load_rollouts


class ReturnSets(NamedTuple):
    """Examples to train on, to select by and to test on, prepared by the first."""

    train: ReturnExamples
    validation: ReturnExamples
    """Apart from both others, to choose a training time or a setting without the test set."""
    test: ReturnExamples
    preparation: Preparation
    versions: tuple[str, ...]
    """What the training set was made by."""


def load_returns(
    task: str,
    *,
    num_train: int = 4000,
    num_validation: int = 1000,
    num_test: int = 10_000,
    num_classes: int = NUM_CLASSES,
    seed: int = 0,
    num_processes: int | None = None,
    keep: bool = True,
) -> ReturnSets:
    """Returns the data set of a task: 16-step returns of random actions (Neitz, thesis, §4.4.3).

    At the published sizes one core takes one to three minutes to make a task's trajectories; they
    are kept in the cache folder. The published work has no set to select by: it took the best
    value on the test set.

    Args:
        task: `swimmer`, `walker2d`, `hopper` or `halfcheetah`.
        num_train: examples for training.
        num_validation: examples to select by.
        num_test: examples for testing.
        num_classes: of returns.
        seed: of the data set.
        num_processes: to make trajectories with; by default as many as there are cores.
        keep: whether to use the cache folder.

    Raises:
        SimulatorMissingError: data have to be made and the extra `mujoco` is not installed.
    """
    load = partial(load_rollouts, task, seed=seed, num_processes=num_processes, keep=keep)
    train = load(num_train, split="train")
    validation = load(num_validation, split="validation")
    test = load(num_test, split="test")
    preparation = fit_preparation(train, num_classes=num_classes)
    return ReturnSets(
        preparation.apply(train),
        preparation.apply(validation),
        preparation.apply(test),
        preparation,
        train.versions,
    )
