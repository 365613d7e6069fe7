"""Trajectories of random actions, made once and kept on disk."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Int8

from recombine.tasks.mujoco_returns._control_tasks import ControlTask, control_task
from recombine.tasks.mujoco_returns._processes import simulate_in_processes
from recombine.tasks.mujoco_returns._simulate import GENERATOR_VERSION
from recombine.tasks.trajectories import SPLITS, Split, keep_or_make


class Rollouts(NamedTuple):
    """Trajectories as the simulator gave them; nothing is standardised."""

    start: Float[np.ndarray, "items observation"]
    """What was observed before the first of the actions."""
    actions: Int8[np.ndarray, "items steps action"]
    """-1, 0 or 1."""
    observations: Float[np.ndarray, "items steps observation"]
    """What was observed after each action."""
    rewards: Float[np.ndarray, "items steps"]
    displacements: Float[np.ndarray, "items steps"]
    """How far the body moved along x in each step."""
    has_fallen: Bool[np.ndarray, "items steps"]
    """Whether the environment would have ended the episode here; nothing depends on it."""
    num_before: Int[np.ndarray, " items"]
    """How many random steps were done before."""
    versions: tuple[str, ...]
    """What made them, for example "mujoco 4.0.0"."""

    @property
    def returns(self) -> Float[np.ndarray, " items"]:
        """The sum of the rewards, which is to be predicted."""
        return self.rewards.sum(axis=1)


class RewardParts(NamedTuple):
    """What a reward consists of: forward plus bonus minus cost."""

    forward: Float[np.ndarray, "items steps"]
    bonus: Float[np.ndarray, "items steps"]
    cost: Float[np.ndarray, "items steps"]

    @property
    def total(self) -> Float[np.ndarray, "items steps"]:
        """The rewards, computed anew."""
        return self.forward + self.bonus - self.cost


def load_rollouts(
    task: str,
    num_items: int = 4000,
    *,
    seed: int = 0,
    split: Split = "train",
    num_processes: int | None = None,
    keep: bool = True,
) -> Rollouts:
    """Returns trajectories, made now or read from the cache folder.

    Item `i` is the same whatever else is asked for; splits share no item. The published sizes are
    4,000 for training and 10,000 for testing. Data that are in the cache folder need no simulator,
    and may have been made on another machine: `versions` says by what.

    Args:
        task: `swimmer`, `walker2d`, `hopper` or `halfcheetah`.
        num_items: how many trajectories.
        seed: of the data set.
        split: of the data set: "train", "validation" or "test".
        num_processes: to make them with; by default as many as there are cores.
        keep: whether to use the cache folder.

    Raises:
        SimulatorMissingError: they have to be made and the extra `mujoco` is not installed.
    """
    about = control_task(task)
    if num_items < 1:
        raise ValueError(f"`num_items` must be at least 1; got {num_items}")
    if split not in SPLITS:
        raise ValueError(f"`split` must be one of {', '.join(SPLITS)}; got {split!r}")
    if seed < 0:
        raise ValueError(f"`seed` counts from 0; got {seed}")
    if num_processes is not None and num_processes < 1:
        raise ValueError(f"`num_processes` must be at least 1; got {num_processes}")

    def make() -> dict[str, np.ndarray]:
        return simulate_in_processes(
            about, num_items=num_items, seed=seed, split=split, num_processes=num_processes
        )

    if keep:
        parameters = {
            "task": task,
            "environment": about.environment,
            "num_items": num_items,
            "seed": seed,
            "split": split,
        }
        arrays = keep_or_make("mujoco_returns", parameters, GENERATOR_VERSION, make)
    else:
        arrays = make()
    versions = tuple(arrays["versions"].tolist())
    measured = {name: arrays[name] for name in Rollouts._fields if name != "versions"}
    return Rollouts(**measured, versions=versions)


def reward_parts(task: ControlTask, rollouts: Rollouts) -> RewardParts:
    """Computes what the rewards consist of, from displacements and actions alone."""
    squares = (rollouts.actions.astype(float) ** 2).sum(axis=-1)
    return RewardParts(
        rollouts.displacements.astype(float) / task.step_seconds,
        np.full(squares.shape, task.bonus),
        task.action_cost * squares,
    )
