"""Preference grid: four rooms, and objects that are worth what a mix of modules says.

Learned is the value of every action, from demonstrations (Schug et al. 2024). Environment, values
and tasks are pure functions for `jit` and `vmap`.

What differs from the authors' code: the seed's preferences, its split and its data have keys of
their own; sets with as many queries as in training stand beside those with one.
"""

from recombine.tasks.preference_grid._environment import (
    ACTIONS as ACTIONS,
    FREE_CELLS as FREE_CELLS,
    HORIZON as HORIZON,
    NEXT_CELLS as NEXT_CELLS,
    NOTHING as NOTHING,
    NUM_OBJECTS as NUM_OBJECTS,
    NUM_STATES as NUM_STATES,
    WALLS as WALLS,
    PreferenceScene as PreferenceScene,
    PreferenceState as PreferenceState,
    available_index as available_index,
    film_of as film_of,
    observe as observe,
    reset as reset,
    state_index as state_index,
    state_of as state_of,
    step as step,
)
from recombine.tasks.preference_grid._optimal import (
    DISCOUNT as DISCOUNT,
    action_values as action_values,
    arrival_values as arrival_values,
    best_action as best_action,
    values_at as values_at,
)
from recombine.tasks.preference_grid._source import (
    PreferenceGrid as PreferenceGrid,
    PreferenceWorld as PreferenceWorld,
    make_preference_grid as make_preference_grid,
)
