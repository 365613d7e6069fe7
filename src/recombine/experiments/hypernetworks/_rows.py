"""All rows of the system, in the order of the paper."""

from recombine.experiments._row import System
from recombine.experiments.hypernetworks._grid_rows import GOAL_TASKS, PREFERENCES
from recombine.experiments.hypernetworks._hyperteacher_rows import (
    AMORTISATION,
    COMPOSITION,
    COMPOSITIONAL,
    CONNECTION,
    HELD_OUT_SHARES,
    NO_COMPOSITION,
    NUMBERS_OF_EXAMPLES,
    NUMBERS_OF_MODULES,
)
from recombine.experiments.hypernetworks._theory_rows import (
    CONTINUOUS,
    DISCRETE,
    OVERPARAMETERIZED,
)

MODULAR = System(
    id="modular",
    title="Modular hypernetworks",
    summary="Infers which modules a task is made of, and recombines them: combinations that were "
    "never trained work, if those that were trained link all modules.",
    groups=(
        *(CONTINUOUS, DISCRETE, OVERPARAMETERIZED),
        *(COMPOSITION, NO_COMPOSITION, CONNECTION, AMORTISATION),
        *(HELD_OUT_SHARES, NUMBERS_OF_MODULES, NUMBERS_OF_EXAMPLES),
        *(PREFERENCES, GOAL_TASKS),
    ),
    demo=(f"{COMPOSITIONAL}/linear-hnet", f"{COMPOSITIONAL}/maml"),
)
