"""All rows of the system, in the order of the paper."""

from dataclasses import replace

from recombine.experiments._row import System
from recombine.experiments.hypernetworks._connected_rows import WITHOUT_MODULES
from recombine.experiments.hypernetworks._control_rows import CONTROL
from recombine.experiments.hypernetworks._distilled_rows import DISTILLATION
from recombine.experiments.hypernetworks._goal_rows import GOAL_TASKS
from recombine.experiments.hypernetworks._hyperteacher_rows import (
    AMORTISATION,
    COMPOSITION,
    CONNECTION,
    NO_COMPOSITION,
)
from recombine.experiments.hypernetworks._hyperteacher_sweeps import (
    HELD_OUT_SHARES,
    NUMBERS_OF_EXAMPLES,
    NUMBERS_OF_MODULES,
)
from recombine.experiments.hypernetworks._larger_student_rows import OVERPARAMETERIZED
from recombine.experiments.hypernetworks._making_hyperteacher_rows import COMPOSITIONAL
from recombine.experiments.hypernetworks._preference_rows import PREFERENCES
from recombine.experiments.hypernetworks._theory_rows import CONTINUOUS, DISCRETE

ALL_CONNECTION = replace(CONNECTION, rows=(*CONNECTION.rows, *WITHOUT_MODULES))

MODULAR = System(
    id="modular",
    title="Modular hypernetworks",
    summary="Infers which modules a task is made of, and recombines them: combinations that were "
    "never trained work, if those that were trained link all modules.",
    groups=(
        *(CONTINUOUS, DISCRETE, OVERPARAMETERIZED),
        *(COMPOSITION, NO_COMPOSITION, ALL_CONNECTION, CONTROL),
        *(AMORTISATION, DISTILLATION),
        *(HELD_OUT_SHARES, NUMBERS_OF_MODULES, NUMBERS_OF_EXAMPLES),
        *(PREFERENCES, GOAL_TASKS),
    ),
    demo=(f"{COMPOSITIONAL}/linear-hnet", f"{COMPOSITIONAL}/maml"),
)
