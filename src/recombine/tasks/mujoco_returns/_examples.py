"""From trajectories to what networks see: standardised numbers, and classes of returns.

Every input has mean 0 and standard deviation 1 in the training set. Observations along a
trajectory are standardised by the numbers of the first one (Neitz, thesis, App. C.2). Left open
there: rewards along a trajectory are standardised all together. All numbers, and the classes, are
learned from the whole training set, of which the validation part of a learner is a part.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from recombine.tasks.mujoco_returns._binning import NUM_CLASSES, Binning, fit_binning
from recombine.tasks.mujoco_returns._rollouts import Rollouts


class ReturnExamples(NamedTuple):
    """What is known before, what happened, and what is to be predicted."""

    inputs: Float[np.ndarray, "items inputs"]
    """The first observation, then the actions, one step after the other."""
    privileged: Float[np.ndarray, "items steps frame"]
    """Each following observation, then its reward; known in training only."""
    labels: Int[np.ndarray, " items"]
    """The class of the return."""


class Preparation(NamedTuple):
    """What was learned from the training set, to be applied to every set."""

    input_mean: Float[np.ndarray, " inputs"]
    input_std: Float[np.ndarray, " inputs"]
    frame_mean: Float[np.ndarray, " frame"]
    frame_std: Float[np.ndarray, " frame"]
    binning: Binning

    def apply(self, rollouts: Rollouts) -> ReturnExamples:
        """Makes examples of trajectories."""
        inputs, frames = _inputs_of(rollouts), _frames_of(rollouts)
        found = (inputs.shape[-1], frames.shape[-1])
        expected = (len(self.input_mean), len(self.frame_mean))
        if found != expected:
            raise ValueError(
                f"`rollouts` must be of the task that this was learned from, with inputs and "
                f"frames of {expected} numbers; got {found}"
            )
        return ReturnExamples(
            ((inputs - self.input_mean) / self.input_std).astype(np.float32),
            ((frames - self.frame_mean) / self.frame_std).astype(np.float32),
            self.binning.class_of(rollouts.returns),
        )


def fit_preparation(train: Rollouts, *, num_classes: int = NUM_CLASSES) -> Preparation:
    """Learns means, standard deviations and classes from the training set alone."""
    inputs = _inputs_of(train)
    input_mean, input_std = inputs.mean(axis=0), _spread(inputs.std(axis=0))
    num_observations = train.start.shape[-1]
    reward_std = _spread(train.rewards.std(keepdims=True)[0])
    return Preparation(
        input_mean,
        input_std,
        np.append(input_mean[:num_observations], train.rewards.mean()),
        np.append(input_std[:num_observations], reward_std),
        fit_binning(train.returns, num_classes),
    )


def _inputs_of(rollouts: Rollouts) -> Float[np.ndarray, "items inputs"]:
    actions = rollouts.actions.reshape(len(rollouts.actions), -1)
    return np.concatenate([rollouts.start, actions], axis=-1).astype(np.float64)


def _frames_of(rollouts: Rollouts) -> Float[np.ndarray, "items steps frame"]:
    parts = [rollouts.observations, rollouts.rewards[..., None]]
    return np.concatenate(parts, axis=-1).astype(np.float64)


def _spread(std: np.ndarray) -> np.ndarray:
    """Leaves alone what never changes, in place of dividing it by nothing."""
    return np.where(std > 0, std, 1.0)
