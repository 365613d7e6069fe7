"""Returns of random actions in MuJoCo: what will 16 actions bring, from here?

Input is an observation and 16 actions, the label is the class of the sum of the 16 rewards, and
the trajectory in between is privileged (Neitz, thesis, §4.4.3 and App. C.2). Trajectories are made
with Gymnasium and MuJoCo, which the extra `mujoco` brings, in processes of their own, and kept in
the cache folder with a manifest; what is kept is read without the simulator.

What differs from the thesis: the environments are the `-v4` of Gymnasium in the place of the `-v2`,
which are gone; sizes, starts and rewards are the same, the simulator is newer. That bodies which
fall are simulated on is not said there, but the published errors are reached only so.
"""

from recombine.tasks.mujoco_returns._binning import (
    NUM_CLASSES as NUM_CLASSES,
    Binning as Binning,
    class_values as class_values,
    fit_binning as fit_binning,
    normalized_mse as normalized_mse,
)
from recombine.tasks.mujoco_returns._control_tasks import (
    CONTROL_TASKS as CONTROL_TASKS,
    NUM_STEPS as NUM_STEPS,
    WARM_UP as WARM_UP,
    ControlTask as ControlTask,
    control_task as control_task,
)
from recombine.tasks.mujoco_returns._examples import (
    Preparation as Preparation,
    ReturnExamples as ReturnExamples,
    fit_preparation as fit_preparation,
)
from recombine.tasks.mujoco_returns._processes import (
    SimulatorMissingError as SimulatorMissingError,
)
from recombine.tasks.mujoco_returns._rollouts import (
    RewardParts as RewardParts,
    Rollouts as Rollouts,
    load_rollouts as load_rollouts,
    reward_parts as reward_parts,
)
from recombine.tasks.mujoco_returns._sets import (
    ReturnSets as ReturnSets,
    load_returns as load_returns,
)
from recombine.tasks.mujoco_returns._simulate import (
    GENERATOR_VERSION as GENERATOR_VERSION,
)
