"""Where the walls of a map stand: unit segments on the borders of its rooms, less the doors."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from recombine.tasks.room_runner._maps import NO_ROOM, SIZE, RoomMap

THICKNESS = 0.2


class Walls(NamedTuple):
    """Which unit segments of the grid are walls."""

    lying: Bool[np.ndarray, "17 16"]
    """Along the columns: below row `i`, over column `j`."""
    standing: Bool[np.ndarray, "16 17"]
    """Along the rows: at row `i`, left of column `j`."""


def make_walls(room_map: RoomMap, *, as_drawn: bool = False) -> Walls:
    """Builds walls around the map and around every room, less the cells of doors.

    Walls `as_drawn` have no doors, and none surrounds the map.
    """
    lying = np.zeros((SIZE + 1, SIZE), bool)
    standing = np.zeros((SIZE, SIZE + 1), bool)
    if not as_drawn:
        lying[[0, -1]] = True
        standing[:, [0, -1]] = True
    for row, column, height, width in room_map.boxes[: room_map.num_rooms]:
        lying[row, column : column + width] = lying[row + height, column : column + width] = True
        standing[row : row + height, column] = standing[row : row + height, column + width] = True
    for room in np.flatnonzero(room_map.exits != NO_ROOM) if not as_drawn else ():
        (row, column), (up, right) = room_map.doors[room], room_map.normals[room]
        if up:
            lying[row + (up > 0), column] = False
        else:
            standing[row, column + (right > 0)] = False
    return Walls(lying, standing)
