"""Goal grid: find an object in a maze and do the right thing to it, after one demonstration.

A task is a combination of quadrant, interaction, maze and type of goal; learned are the expert's
actions (Schug et al. 2024). Environment, shortest ways and tasks are pure functions for `jit` and
`vmap`.

What differs from the authors' code: every seed draws its five mazes from a hundred, where theirs
share four of five with the next seed; split and data have keys of their own; demonstrations are
padded to 64 steps in place of 120, since none is longer; and of equally short ways the expert
always takes the same.
"""

from recombine.tasks.goal_grid._environment import (
    ACTIONS as ACTIONS,
    FACTORS as FACTORS,
    NEAREST_START as NEAREST_START,
    NUM_CHANNELS as NUM_CHANNELS,
    NUM_DISTRACTORS as NUM_DISTRACTORS,
    NUM_MOVES as NUM_MOVES,
    GoalScene as GoalScene,
    GoalState as GoalState,
    GoalTask as GoalTask,
    Mazes as Mazes,
    expert_actions as expert_actions,
    film_of as film_of,
    observe as observe,
    observe_map as observe_map,
    quadrant_cells as quadrant_cells,
    reset as reset,
    step as step,
)
from recombine.tasks.goal_grid._mazes import (
    FIRST_SEED as FIRST_SEED,
    SIZE as SIZE,
    make_maze as make_maze,
)
from recombine.tasks.goal_grid._shortest import (
    shortening_moves as shortening_moves,
    shortest_distances as shortest_distances,
)
from recombine.tasks.goal_grid._source import (
    NUM_STEPS as NUM_STEPS,
    GoalGrid as GoalGrid,
    GoalWorld as GoalWorld,
    make_goal_grid as make_goal_grid,
)
from recombine.tasks.goal_grid._splits import (
    FEWEST as FEWEST,
    NUM_TASKS as NUM_TASKS,
    GoalSupport as GoalSupport,
    draw_goal_split as draw_goal_split,
    make_goal_split as make_goal_split,
    task_factors as task_factors,
)
