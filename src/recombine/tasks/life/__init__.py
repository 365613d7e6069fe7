"""The Game of Life as a learning task: is the cell in the middle alive after three steps?

The boards in between are privileged data. Their order is scrambled, in the same way for all
examples, so that a teacher has to find out which board belongs where (Neitz, thesis, §4.4.2 and
App. C.3).

What the thesis leaves open: what lies beyond the edge. Here it is dead; the middle cell is eight
cells away from it and never notices. Training sizes are only on a figure that cannot be read.
"""

from recombine.tasks.life._examples import (
    ALIVE as ALIVE,
    LABEL_RATE as LABEL_RATE,
    SIZE as SIZE,
    LifeExamples as LifeExamples,
    sample_life as sample_life,
)
from recombine.tasks.life._oracle import (
    LAYERS_PER_STEP as LAYERS_PER_STEP,
    LifeOracle as LifeOracle,
    make_oracle as make_oracle,
)
from recombine.tasks.life._order import (
    NUM_STEPS as NUM_STEPS,
    draw_time_order as draw_time_order,
    restore_time as restore_time,
    scramble_time as scramble_time,
)
from recombine.tasks.life._pictures import (
    draw_boards as draw_boards,
)
from recombine.tasks.life._rules import (
    advance as advance,
    evolve as evolve,
)
