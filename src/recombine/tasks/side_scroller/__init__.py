"""Levels of a side-scrolling game, and an expert who runs through them: a substitute for CoinRun.

A runner goes to the right, over pits, steps and crates, and is tempted by coins. How the world
works and what the expert does is the same everywhere. To clone the expert is to learn his
distribution over four actions from a picture of 16 × 16 pixels.

Every level has a layout of its own and looks of its own: colours, a backdrop, and a frieze along
the top of the view, with one pattern over plain ground, one where a hop is due and one where a leap
is. Within a level the frieze gives away what to do, and so it is a shortcut. The patterns of one
level say nothing in another: who has learned them has learned nothing for a level that he has not
seen.

What it stands for: the behavioural cloning of CoinRun in Neitz, thesis, §3.3.3 and App. B.2.6. That
game and its trained expert are no part of this library. What it keeps: procedural levels with the
same physics and with looks that differ, states that the expert visits, his soft distribution over
actions, 64 training levels with 1,000 states each, and 2,000 test states from as many unseen
levels. What differs: 16 × 16 pixels in place of 64 × 64, 4 actions in place of 15, a scripted
expert in place of one trained by PPO, and the game itself. The frieze is ours.
"""

from recombine.tasks.side_scroller._expert import (
    expert_policy as expert_policy,
)
from recombine.tasks.side_scroller._game import (
    ACTIONS as ACTIONS,
    HOP as HOP,
    LEAP as LEAP,
    RUN as RUN,
    WAIT as WAIT,
    Runner as Runner,
    start_runner as start_runner,
    tick as tick,
)
from recombine.tasks.side_scroller._levels import (
    Level as Level,
    Looks as Looks,
    sample_level as sample_level,
)
from recombine.tasks.side_scroller._pictures import (
    draw_states as draw_states,
)
from recombine.tasks.side_scroller._render import (
    SIZE as SIZE,
    render as render,
)
from recombine.tasks.side_scroller._states import (
    ExpertStates as ExpertStates,
    play as play,
    sample_test_states as sample_test_states,
    sample_training_states as sample_training_states,
)
