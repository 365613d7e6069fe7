"""Funnel board: a ball falls through funnels and over sliders onto one of five platforms.

From the first frame alone, which one (Neitz, thesis, §2.3.1)? Boards, physics and drawing follow
the numbers of the authors' generator; the code is our own.

What differs from the published data. Those were made with a general physics engine; ours is a small
solver for one disc, which falls as long (120 ± 20 frames against 125 ± 19), leaves the board as
often and bounces by the same rules. Label and frames come from one fall. The variant without
bounces is played on the same boards; in the authors' code its bounciness is 0.05, not zero.
"""

from recombine.tasks.funnel_board._boards import (
    WHOLE as WHOLE,
    Board as Board,
    Size as Size,
    sample_board as sample_board,
    slider_corners as slider_corners,
    wall_line as wall_line,
)
from recombine.tasks.funnel_board._falls import (
    BallFalls as BallFalls,
    Variant as Variant,
    load_falls as load_falls,
    render as render,
)
from recombine.tasks.funnel_board._outcome import (
    NUM_PLATFORMS as NUM_PLATFORMS,
    PlatformReader as PlatformReader,
)
from recombine.tasks.funnel_board._physics import (
    STANDARD as STANDARD,
    ZERO_BOUNCE as ZERO_BOUNCE,
    Falls as Falls,
    simulate as simulate,
)
from recombine.tasks.funnel_board._render import (
    IMAGE_SHAPE as IMAGE_SHAPE,
    Scene as Scene,
    draw_ball as draw_ball,
    make_scene as make_scene,
)
from recombine.tasks.funnel_board._segments import (
    Bounciness as Bounciness,
    Things as Things,
    make_things as make_things,
)
from recombine.tasks.funnel_board._vectors import (
    STATE_SIZE as STATE_SIZE,
    VIEW_SIZE as VIEW_SIZE,
    PlatformStateReader as PlatformStateReader,
    board_view as board_view,
    state_vectors as state_vectors,
)
