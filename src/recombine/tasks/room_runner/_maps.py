"""Maps of rooms, of which exactly one chain of doors leads from the start to the end.

Rooms of 3 x 2 or 2 x 3 cells grow from a first one, breadth first, in a world of 16 x 16 cells. A
room has a door to at most one of its children, so that following the doors from the first room
gives one path. Its end is one of the two coloured rooms; the other is the end of a path that the
first room has no door to.
"""

from collections import deque
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

SIZE = 16
"""Cells in each direction."""
FEWEST_CELLS = 8
"""In each direction, that rooms may be kept to: the first one needs two more beside it."""

SHAPES = ((3, 2), (2, 3))  # height and width of a room, in cells
MOST_ROOMS = SIZE * SIZE // 6
NO_ROOM = -1
FORCES = (10.0, 3.5)  # of a runner that goes straight ahead, and of one that looks around


class RoomMap(NamedTuple):
    """One map; arrays have a place for as many rooms as fit. Cells are (row from below, column)."""

    num_rooms: int
    boxes: Int[np.ndarray, "rooms 4"]
    """Lower left cell, height, width."""
    parents: Int[np.ndarray, " rooms"]
    exits: Int[np.ndarray, " rooms"]
    """The room behind the door, or -1 where there is no door."""
    doors: Int[np.ndarray, "rooms 2"]
    """The cell in front of the door, inside the room."""
    normals: Int[np.ndarray, "rooms 2"]
    """The direction through the door."""
    forces: Float[np.ndarray, " rooms"]
    """How hard the runner pushes in each room; hidden from who watches."""
    chain: Int[np.ndarray, " rooms"]
    """The rooms on the way, from the first to the final one, then -1."""
    decoy: int
    """The coloured room that the runner does not come to."""
    label: int
    """0 where the final room is red, 1 where it is blue."""

    @property
    def final(self) -> int:
        """The room where the runner's way ends."""
        return int(self.chain[self.chain != NO_ROOM][-1])

    @property
    def red(self) -> int:
        """The red room."""
        return self.final if self.label == 0 else self.decoy

    @property
    def blue(self) -> int:
        """The blue room."""
        return self.decoy if self.label == 0 else self.final


def sample_map(generator: np.random.Generator, cells: int = SIZE) -> RoomMap:
    """Draws a map (Neitz, thesis, §2.3.1; the numbers are those of the authors' generator).

    Args:
        generator: of all that is drawn.
        cells: rooms are kept to so many cells in each direction, in the middle of the world.

    Example:
        >>> drawn = sample_map(np.random.default_rng(0))
        >>> drawn.boxes[0, 2:].tolist(), drawn.final != drawn.decoy
        ([3, 2], True)
    """
    inside = middle_cells(cells)
    while True:
        boxes, children = _grow(generator, inside)
        if len(children[0]) == 2:  # without a second child there is no decoy
            return _connect(generator, boxes, children)


def middle_cells(cells: int) -> slice:
    """Returns which rows, and which columns, are the `cells` in the middle of the world.

    Example:
        >>> middle_cells(8)
        slice(4, 12, None)
    """
    if not FEWEST_CELLS <= cells <= SIZE:
        raise ValueError(
            f"`cells` must be from {FEWEST_CELLS} to {SIZE}, the size of the world; got {cells}"
        )
    low = (SIZE - cells) // 2
    return slice(low, low + cells)


Box = tuple[int, int, int, int]


def _grow(generator: np.random.Generator, inside: slice) -> tuple[list[Box], list[list[int]]]:
    first = (int(generator.integers(5, 8)), int(generator.integers(5, 9)), 3, 2)
    boxes: list[Box] = [first]
    children: list[list[int]] = [[]]
    is_taken = np.ones((SIZE, SIZE), bool)
    is_taken[inside, inside] = False
    _take(is_taken, first)
    queue = deque([0])
    num_popped = 0
    while queue:
        room = queue.popleft()
        for _ in range(2 if num_popped % 8 == 0 else 1):
            height, width = SHAPES[generator.integers(2)]
            places = _places(is_taken, boxes[room], height, width)
            if places:
                row, column = places[generator.integers(len(places))]
                box = (row, column, height, width)
                _take(is_taken, box)
                children[room].append(len(boxes))
                queue.append(len(boxes))
                boxes.append(box)
                children.append([])
        num_popped += 1
    return boxes, children


def _take(is_taken: np.ndarray, box: Box) -> None:
    row, column, height, width = box
    is_taken[row : row + height, column : column + width] = True


def _places(is_taken: np.ndarray, parent: Box, height: int, width: int) -> list[tuple[int, int]]:
    """Returns the free places that share at least one cell edge with the parent."""
    row, column, tall, wide = parent
    beside = [(r, c) for c in (column - width, column + wide)
              for r in range(row - height + 1, row + tall)]  # fmt: skip
    stacked = [(r, c) for r in (row - height, row + tall)
               for c in range(column - width + 1, column + wide)]  # fmt: skip
    return [
        (r, c)
        for r, c in beside + stacked
        if 0 <= r <= SIZE - height
        and 0 <= c <= SIZE - width
        and not is_taken[r : r + height, c : c + width].any()
    ]


def _connect(
    generator: np.random.Generator, boxes: list[Box], children: list[list[int]]
) -> RoomMap:
    num_rooms = len(boxes)
    exits = np.full(MOST_ROOMS, NO_ROOM, np.int32)
    doors = np.zeros((MOST_ROOMS, 2), np.int32)
    normals = np.zeros((MOST_ROOMS, 2), np.int32)
    parents = np.full(MOST_ROOMS, NO_ROOM, np.int32)
    for room in range(num_rooms):
        parents[children[room]] = room
        if children[room]:
            child = children[room][generator.integers(len(children[room]))]
            shared = _shared_edge(boxes[room], boxes[child])
            exits[room] = child
            doors[room], normals[room] = shared[generator.integers(len(shared))]
    padded = np.zeros((MOST_ROOMS, 4), np.int32)
    padded[:num_rooms] = boxes
    forces = np.asarray(FORCES)[generator.integers(2, size=MOST_ROOMS)]
    chain = _chain(exits, 0)
    walled_off = next(child for child in children[0] if child != exits[0])
    return RoomMap(
        num_rooms=num_rooms,
        boxes=padded,
        parents=parents,
        exits=exits,
        doors=doors,
        normals=normals,
        forces=forces,
        chain=np.asarray(chain + [NO_ROOM] * (MOST_ROOMS - len(chain)), np.int32),
        decoy=_chain(exits, walled_off)[-1],
        label=int(generator.integers(2)),
    )


def _shared_edge(room: Box, other: Box) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Returns the cells of `room` that lie along `other`, with the direction towards it."""
    row, column, height, width = room
    cells = [(r, c) for r in range(row, row + height) for c in range(column, column + width)]
    return [
        ((r, c), (dr, dc))
        for r, c in cells
        for dr, dc in ((1, 0), (-1, 0), (0, 1), (0, -1))
        if 0 <= r + dr - other[0] < other[2] and 0 <= c + dc - other[1] < other[3]
    ]


def _chain(exits: np.ndarray, room: int) -> list[int]:
    rooms = [room]
    while exits[rooms[-1]] != NO_ROOM:
        rooms.append(int(exits[rooms[-1]]))
    return rooms


def room_at(room_map: RoomMap) -> Int[np.ndarray, "16 16"]:
    """Returns which room every cell belongs to; -1 outside all rooms."""
    rooms = np.full((SIZE, SIZE), NO_ROOM, np.int32)
    for room, (row, column, height, width) in enumerate(room_map.boxes[: room_map.num_rooms]):
        rooms[row : row + height, column : column + width] = room
    return rooms
