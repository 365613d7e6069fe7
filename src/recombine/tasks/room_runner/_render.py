"""How a map and its runner look from above: 64 x 64 pixels, 4 to a cell.

What stands still is drawn once, on 20 sub-pixels per cell: all its edges fall between sub-pixels.
The runner is laid over it by the exact area of every pixel that it covers.

Walls are drawn around every room without a gap; the pale patch of a door, laid over them, is the
opening that one sees. The runner itself passes through the whole cell.

The colours are those of the authors' generator after its drawing library rounded them. There a
wall between two rooms had the grey 152, by rounding twice; here it is 153, which is exact.
"""

import numpy as np
from jaxtyping import Float, UInt8

from recombine.tasks.room_runner._maps import NO_ROOM, SIZE, RoomMap
from recombine.tasks.room_runner._walls import THICKNESS, make_walls

PIXELS = 4  # per cell
SUB_PIXELS = 20  # per cell
BLOCK = SUB_PIXELS // PIXELS
IMAGE_SIZE = SIZE * PIXELS
"""Pixels in each direction: 64."""

BACKGROUND = (38, 38, 38)
FLOOR = (255, 255, 255)
RED = (255, 128, 128)
BLUE = (128, 128, 255)
WALL = (0, 0, 0)
DOOR = (230, 243, 255)
RUNNER = (0, 204, 0)
DRAWN_HALF_SIDE = 0.36  # half as large again as the runner is
PATCH = 4  # pixels in each direction that the runner can touch: 2.88 wide


def draw_map(room_map: RoomMap) -> UInt8[np.ndarray, "64 64 3"]:
    """Draws a map without its runner; the first row of the image is the upper one."""
    canvas = np.empty((SIZE * SUB_PIXELS, SIZE * SUB_PIXELS, 3), np.uint8)
    canvas[:] = BACKGROUND
    boxes = room_map.boxes[: room_map.num_rooms] * SUB_PIXELS
    for room, (row, column, height, width) in enumerate(boxes):
        color = {room_map.red: RED, room_map.blue: BLUE}.get(room, FLOOR)
        canvas[row : row + height, column : column + width] = color
    _draw_walls(canvas, room_map)
    for room in np.flatnonzero(room_map.exits != NO_ROOM):
        _draw_door(canvas, room_map.doors[room], room_map.normals[room])
    return _block_means(canvas)[::-1].copy()


def draw_runner(
    background: UInt8[np.ndarray, "64 64 3"], positions: Float[np.ndarray, "frames 2"]
) -> UInt8[np.ndarray, "frames 64 64 3"]:
    """Draws one frame for every position of the runner, (row from below, column) in cells."""
    frames = np.repeat(background[None], len(positions), axis=0)
    rows, row_shares = _covered(SIZE - positions[:, 0])
    columns, column_shares = _covered(positions[:, 1])
    shares = (row_shares[:, :, None] * column_shares[:, None, :])[..., None]
    index = np.arange(len(positions))[:, None, None], rows[:, :, None], columns[:, None, :]
    mixed = (1 - shares) * frames[index] + shares * np.asarray(RUNNER, float)
    frames[index] = np.floor(mixed + 1e-9).astype(np.uint8)
    return frames


def _block_means(canvas: np.ndarray) -> UInt8[np.ndarray, "64 64 3"]:
    # Adding slices is ten times faster than a sum over two short axes.
    rows = canvas.reshape(IMAGE_SIZE, BLOCK, IMAGE_SIZE * BLOCK * 3)
    tall = sum(rows[:, i].astype(np.uint16) for i in range(BLOCK))
    columns = np.asarray(tall).reshape(IMAGE_SIZE, IMAGE_SIZE, BLOCK, 3)
    sums = np.asarray(sum(columns[:, :, i] for i in range(BLOCK)))
    return (sums // BLOCK**2).astype(np.uint8)


def _covered(center: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the pixels along one axis that the runner can touch, and the share it covers."""
    low, high = PIXELS * (center - DRAWN_HALF_SIDE), PIXELS * (center + DRAWN_HALF_SIDE)
    first = np.clip(np.floor(low).astype(int), 0, IMAGE_SIZE - PATCH)
    pixels = first[:, None] + np.arange(PATCH)
    shares = np.minimum(pixels + 1, high[:, None]) - np.maximum(pixels, low[:, None])
    return pixels, np.clip(shares, 0.0, 1.0)


def _draw_walls(canvas: np.ndarray, room_map: RoomMap) -> None:
    walls = make_walls(room_map, as_drawn=True)
    half = round(THICKNESS / 2 * SUB_PIXELS)
    for row, column in np.argwhere(walls.lying) * SUB_PIXELS:
        canvas[max(row - half, 0) : row + half, column : column + SUB_PIXELS] = WALL
    for row, column in np.argwhere(walls.standing) * SUB_PIXELS:
        canvas[row : row + SUB_PIXELS, max(column - half, 0) : column + half] = WALL


def _draw_door(canvas: np.ndarray, cell: np.ndarray, normal: np.ndarray) -> None:
    """Lays a pale patch from inside the room over the wall line, a little into the next room."""
    quarter, beyond = SUB_PIXELS // 4, round(0.15 * SUB_PIXELS)
    ranges = []
    for place, step in zip(cell * SUB_PIXELS, normal, strict=True):
        if step > 0:
            low, high = place + quarter, place + SUB_PIXELS + beyond
        elif step < 0:
            low, high = place - beyond, place + SUB_PIXELS - quarter
        else:
            low, high = place + quarter, place + SUB_PIXELS - quarter
        ranges.append(slice(low, high))
    canvas[tuple(ranges)] = DOOR
