"""All rows of the system, in the order of the thesis."""

from recombine.experiments._row import System
from recombine.experiments.distillation._control_rows import CONTROL_GROUPS
from recombine.experiments.distillation._life_rows import LIFE_GROUP
from recombine.experiments.distillation._toy_rows import TOY_A, TOY_A_GROUP, TOY_B_GROUP

DISTILLATION = System(
    id="ldt",
    title="Learning to distill trajectories",
    summary="A teacher that learns what its student should take from data that exist in training "
    "only, such as what happened next.",
    groups=(TOY_A_GROUP, TOY_B_GROUP, LIFE_GROUP, *CONTROL_GROUPS),
    demo=(f"{TOY_A}/ldt", f"{TOY_A}/none"),
)
