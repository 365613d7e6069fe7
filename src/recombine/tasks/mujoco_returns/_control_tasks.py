"""The four bodies, and what their rewards are made of.

The published environments were the `-v2` of an older library, which are gone. The `-v4` of
Gymnasium have the same sizes, frame skips, starts and rewards. The `-v5` do not: there a fallen
Hopper or Walker2d is no longer paid for being alive, and Walker2d stands on another foot.
"""

import dataclasses
import difflib


@dataclasses.dataclass(frozen=True)
class ControlTask:
    """A body in a simulator, with the numbers of its reward.

    In every step the reward is the displacement along x divided by the time it took, plus the
    bonus, minus the cost of the actions.
    """

    name: str
    environment: str
    """The name in Gymnasium."""
    num_observations: int
    num_actions: int
    step_seconds: float
    action_cost: float
    """Times the sum of the squared actions."""
    bonus: float
    """Paid in every step, also after a fall."""

    @property
    def num_inputs(self) -> int:
        """The size of the input: one observation and all actions."""
        return self.num_observations + NUM_STEPS * self.num_actions

    @property
    def frame_size(self) -> int:
        """The size of one frame of the privileged trajectory: an observation and its reward."""
        return self.num_observations + 1


NUM_STEPS = 16
"""The length of a trajectory (Neitz, thesis, §4.4.3)."""

WARM_UP = (10, 30)
"""The least and the most random steps before a trajectory (Neitz, thesis, App. C.2)."""

CONTROL_TASKS = {
    task.name: task
    for task in (
        ControlTask("swimmer", "Swimmer-v4", 8, 2, 0.04, 1e-4, 0.0),
        ControlTask("walker2d", "Walker2d-v4", 17, 6, 0.008, 1e-3, 1.0),
        ControlTask("hopper", "Hopper-v4", 11, 3, 0.008, 1e-3, 1.0),
        ControlTask("halfcheetah", "HalfCheetah-v4", 17, 6, 0.05, 0.1, 0.0),
    )
}
"""The tasks by their names: `swimmer`, `walker2d`, `hopper`, `halfcheetah`."""


def control_task(name: str) -> ControlTask:
    """Returns the task called `name`, or suggests the nearest names.

    Example:
        >>> control_task("hopper").num_inputs  # 11 observations and 16 times 3 actions
        59
    """
    if name not in CONTROL_TASKS:
        nearest = difflib.get_close_matches(name, CONTROL_TASKS, cutoff=0.3) or CONTROL_TASKS
        raise LookupError(f"no control task is called {name!r}; try {', '.join(nearest)}")
    return CONTROL_TASKS[name]
