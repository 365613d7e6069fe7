"""How the runner moves: a bang-bang controller, drag, and collisions with walls.

All runners of a batch are moved together. Everything is float64 and uses only sums, products,
quotients and roots, so that a runner's way depends neither on the machine nor on the others.

Positions are (row, column) with rows counted from below, in cells. The square of the runner is
swept along one axis after the other; a wall stops it, reverses or ends its speed across the wall,
and takes some of its speed along the wall.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from recombine.tasks.room_runner._maps import RoomMap, room_at
from recombine.tasks.room_runner._walls import THICKNESS, make_walls

TIME_STEP = 0.1
STEPS_PER_FRAME = 3
MOST_STEPS = 300  # to reach the final room
STEPS_AFTER = 6
DRAG = 5.0
HALF_SIDE = 0.24
SKIN = 0.02  # by which walls are thicker than they look
TOUCH = 1e-9
RESTITUTION = 0.3
BOUNCING_SPEED = 1.0  # slower impacts do not bounce
FRICTION = 0.4
MOST_FRAMES = (MOST_STEPS + STEPS_AFTER) // STEPS_PER_FRAME + 1
"""The frames of the longest trajectory: 103."""


class Ways(NamedTuple):
    """How a batch of runners moved, at the times of the frames."""

    positions: Float[np.ndarray, "items frames 2"]
    velocities: Float[np.ndarray, "items frames 2"]
    lengths: Int[np.ndarray, " items"]
    arrived: Bool[np.ndarray, " items"]
    """Whether the final room was reached in time."""


def simulate(maps: list[RoomMap], pushes: Float[np.ndarray, "items steps 2"] | None = None) -> Ways:
    """Lets a runner run through each map (Neitz, thesis, §2.3.1).

    Args:
        maps: one for every runner.
        pushes: forces added to the runner's own in every step, as many as `MOST_STEPS` and
            `STEPS_AFTER` together.
    """
    world = _World(maps)
    everyone = np.arange(len(maps))
    position, velocity = world.start(), np.zeros((len(maps), 2))
    steps = MOST_STEPS + STEPS_AFTER
    positions, velocities = [position], [velocity]
    arrival = np.full(len(maps), steps + 1)
    for step in range(1, steps + 1):
        force = world.force(position)
        if pushes is not None:
            force = force + pushes[:, step - 1]
        velocity = velocity + TIME_STEP * (force - DRAG * velocity)
        position, velocity = world.move(position, velocity)
        cells = np.floor(position).astype(int)
        is_there = world.rooms[everyone, cells[:, 0], cells[:, 1]] == world.final
        arrival = np.where(is_there, np.minimum(arrival, step), arrival)
        if step % STEPS_PER_FRAME == 0:
            positions.append(position)
            velocities.append(velocity)
    arrived = arrival <= MOST_STEPS
    lengths = -(-(arrival + STEPS_AFTER) // STEPS_PER_FRAME) + 1
    return Ways(
        positions=np.stack(positions, axis=1),
        velocities=np.stack(velocities, axis=1),
        lengths=np.where(arrived, lengths, 0).astype(np.int32),
        arrived=arrived,
    )


class _World:
    """The maps of a batch as arrays that all runners can be looked up in at once."""

    def __init__(self, maps: list[RoomMap]):
        self.everyone = np.arange(len(maps))
        self.rooms = np.stack([room_at(one) for one in maps])
        self.boxes = np.stack([one.boxes for one in maps]).astype(float)
        self.doors = np.stack([one.doors for one in maps]).astype(float)
        self.normals = np.stack([one.normals for one in maps]).astype(float)
        self.has_door = np.stack([one.exits for one in maps]) >= 0
        self.forces = np.stack([one.forces for one in maps])
        self.final = np.asarray([one.final for one in maps])
        walls = [make_walls(one) for one in maps]
        # A margin of two, so that looking around the runner never leaves the arrays.
        margin = ((0, 0), (2, 2), (2, 2))
        self.lying = np.pad(np.stack([wall.lying for wall in walls]), margin)
        self.standing = np.pad(np.stack([wall.standing for wall in walls]), margin)

    def start(self) -> np.ndarray:
        """Returns the centre of the lower left cell of the first room."""
        return self.boxes[:, 0, :2] + 0.5

    def force(self, position: np.ndarray) -> np.ndarray:
        """Pushes towards a point near the door, or towards the middle of a room without one."""
        cells = np.floor(position).astype(int)
        room = self.rooms[self.everyone, cells[:, 0], cells[:, 1]]
        place = position - 0.5
        boxes = self.boxes[self.everyone, room]
        middle = boxes[:, :2] + boxes[:, 2:] / 2 - 0.5
        normal = self.normals[self.everyone, room]
        base = self.doors[self.everyone, room] + normal / 2
        offset = base - place
        across = np.abs(offset[:, 0] * normal[:, 1] - offset[:, 1] * normal[:, 0])
        aim = base + normal * (0.25 - np.minimum(0.9, across))[:, None]
        distance = np.sqrt(offset[:, 0] * offset[:, 0] + offset[:, 1] * offset[:, 1])
        far = np.minimum(1.0, distance / 2)[:, None]
        target = (1 - far) * aim + far * middle
        target = np.where(self.has_door[self.everyone, room][:, None], target, middle)
        return self.forces[self.everyone, room][:, None] * np.sign(target - place)

    def move(self, position: np.ndarray, velocity: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Moves along the columns, then along the rows, as far as the walls let it."""
        position, velocity = position.copy(), velocity.copy()
        centers, halves, stands = self._walls_near(position)
        for axis in (1, 0):
            self._sweep(axis, position, velocity, centers, halves, stands)
        return position, velocity

    def _walls_near(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns centres and half sizes of the 24 possible walls around each runner."""
        cells = np.floor(position).astype(int)
        item = self.everyone[:, None]
        centers, halves, stands = [], [], []
        for along, table in ((1, self.lying), (0, self.standing)):
            lines, places = np.meshgrid([-1, 0, 1, 2], [-1, 0, 1], indexing="ij")
            steps = np.stack([lines.ravel(), places.ravel()], axis=-1)
            steps = steps if along == 1 else steps[:, ::-1]
            index = cells[:, None] + steps[None]
            center = index.astype(float)
            center[..., along] += 0.5
            half = np.full(center.shape, THICKNESS / 2 + SKIN)
            half[..., along] = 0.5 + SKIN
            centers.append(center)
            halves.append(half)
            stands.append(table[item, index[..., 0] + 2, index[..., 1] + 2])
        return tuple(np.concatenate(parts, axis=1) for parts in (centers, halves, stands))  # pyright: ignore[reportReturnType]

    @staticmethod
    def _sweep(
        axis: int,
        position: np.ndarray,
        velocity: np.ndarray,
        centers: np.ndarray,
        halves: np.ndarray,
        stands: np.ndarray,
    ) -> None:
        other = 1 - axis
        old, speed = position[:, axis], velocity[:, axis]
        wanted = old + TIME_STEP * speed
        apart = np.abs(position[:, None, other] - centers[..., other])
        # A square that only touches a wall slides along it, whatever the rounding.
        is_beside = stands & (apart < halves[..., other] + HALF_SIDE - TOUCH)
        gap = halves[..., axis] + HALF_SIDE
        ahead = centers[..., axis] - gap  # where the square meets a wall in front of it
        behind = centers[..., axis] + gap
        middle = centers[..., axis]
        is_front = is_beside & (middle > old[:, None])
        is_back = is_beside & (middle <= old[:, None])
        highest = np.min(np.where(is_front, ahead, np.inf), axis=1)
        lowest = np.max(np.where(is_back, behind, -np.inf), axis=1)
        # A square that already overlaps a wall by rounding is stopped, not thrown out.
        new = np.minimum(wanted, np.maximum(highest, old))
        new = np.maximum(new, np.minimum(lowest, old))
        is_hit = new != wanted
        bounced = np.where(np.abs(speed) > BOUNCING_SPEED, -RESTITUTION * speed, 0.0)
        impulse = np.where(is_hit, np.abs(bounced - speed), 0.0)
        along = velocity[:, other]
        slowed = np.sign(along) * np.maximum(np.abs(along) - FRICTION * impulse, 0.0)
        position[:, axis] = new
        velocity[:, axis] = np.where(is_hit, bounced, speed)
        velocity[:, other] = np.where(is_hit, slowed, along)
