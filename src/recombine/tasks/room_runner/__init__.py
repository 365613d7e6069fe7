"""Room runner: a runner finds its way through rooms to one of two coloured ones.

Watched from above, where does it end (Neitz, thesis, §2.3.1)? Maps, physics and drawing follow the
numbers of the authors' generator; the code is our own.

What the thesis says otherwise: it describes noise on the runner's acceleration in every step. The
authors' generator has none; in its place every room has a hidden coin that makes the runner fast or
slow there. We do the same, and `push_std` adds the noise of the thesis.
"""

from recombine.tasks.room_runner._maps import (
    FEWEST_CELLS as FEWEST_CELLS,
    SIZE as SIZE,
    RoomMap as RoomMap,
    room_at as room_at,
    sample_map as sample_map,
)
from recombine.tasks.room_runner._outcome import (
    RoomMasks as RoomMasks,
    RoomReader as RoomReader,
)
from recombine.tasks.room_runner._physics import (
    MOST_FRAMES as MOST_FRAMES,
    Ways as Ways,
    simulate as simulate,
)
from recombine.tasks.room_runner._render import (
    IMAGE_SIZE as IMAGE_SIZE,
    draw_map as draw_map,
    draw_runner as draw_runner,
)
from recombine.tasks.room_runner._runs import (
    RoomRuns as RoomRuns,
    load_runs as load_runs,
    render as render,
)
from recombine.tasks.room_runner._vectors import (
    STATE_SIZE as STATE_SIZE,
    VIEW_SIZE as VIEW_SIZE,
    RoomStateReader as RoomStateReader,
    room_view as room_view,
    state_vectors as state_vectors,
)
from recombine.tasks.room_runner._walls import (
    Walls as Walls,
    make_walls as make_walls,
)
