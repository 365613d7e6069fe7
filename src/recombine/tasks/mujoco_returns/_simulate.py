"""What the simulator is asked to do, item by item; this file decides what the data are.

An example starts with a reset and a few random steps; then 16 random actions are carried out
(Neitz, thesis, App. C.2). A body that falls is simulated on and goes on collecting rewards: under
random actions most Hoppers and Walkers have fallen before the 16 steps begin, and the published
errors are reached only so.

Item `i` has random numbers of its own and starts from a simulator that was reset, so that it is
the same in whatever order and by however many processes items are made.
"""

import importlib
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from recombine.tasks.mujoco_returns._control_tasks import NUM_STEPS, WARM_UP, ControlTask
from recombine.tasks.trajectories import Split, item_generator

GENERATOR_VERSION = "1"
"""Part of the name under which data are kept: raise it when other data would be made.

It is written by hand, and not a hash of this file, because a hash of parsed source differs between
versions of Python, and data are carried to machines that have no simulator to make them again.
"""


def make_environment(task: ControlTask) -> Any:
    """Makes the bare environment: without the wrappers that end episodes and check every step."""
    gymnasium = importlib.import_module("gymnasium")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is a newer version; see `_control_tasks`
        return gymnasium.make(task.environment).unwrapped


def simulate_items(
    task: ControlTask, *, seed: int, split: Split, items: Iterable[int]
) -> dict[str, np.ndarray]:
    """Makes items one after the other, and returns them stacked."""
    environment = make_environment(task)
    found = [_simulate_item(environment, task, seed, split, item) for item in items]
    return {name: np.stack([item[name] for item in found]) for name in found[0]}


def _simulate_item(
    environment: Any, task: ControlTask, seed: int, split: Split, item: int
) -> dict[str, np.ndarray]:
    generator = item_generator(seed, split, item, attempt=0)
    environment.reset(seed=int(generator.integers(2**31)))
    num_before = int(generator.integers(WARM_UP[0], WARM_UP[1] + 1))
    before = _random_actions(generator, num_before, task)
    actions = _random_actions(generator, NUM_STEPS, task)
    start = None
    for action in before:
        start, *_ = environment.step(action.astype(float))
    observations, rewards, displacements, has_fallen = [], [], [], []
    for action in actions:
        place = float(environment.data.qpos[0])
        observation, reward, terminated, *_ = environment.step(action.astype(float))
        observations.append(observation)
        rewards.append(reward)
        displacements.append(float(environment.data.qpos[0]) - place)
        has_fallen.append(terminated)
    made = {
        "start": np.asarray(start, np.float32),
        "actions": actions,
        "observations": np.asarray(observations, np.float32),
        "rewards": np.asarray(rewards, np.float64),
        "displacements": np.asarray(displacements, np.float32),
        "has_fallen": np.asarray(has_fallen, bool),
        "num_before": np.asarray(num_before, np.int32),
    }
    if not all(np.isfinite(array).all() for array in made.values()):
        raise FloatingPointError(f"item {item} of {task.environment} left the finite numbers")
    return made


def _random_actions(
    generator: np.random.Generator, num_steps: int, task: ControlTask
) -> np.ndarray:
    """Draws each component of each action from -1, 0 and 1, all equally likely."""
    return generator.integers(-1, 2, (num_steps, task.num_actions)).astype(np.int8)
