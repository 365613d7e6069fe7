"""The same runs as state vectors, for models that need no images.

A frame is the runner's place and velocity, scaled to about one. The map, which never changes, is
the context: one row per room. A model sees the room that the runner is in (`room_view`).
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from recombine.tasks.room_runner._maps import MOST_ROOMS, NO_ROOM, SIZE
from recombine.tasks.room_runner._outcome import SMOOTHING
from recombine.tasks.room_runner._runs import RoomRuns
from recombine.tasks.trajectories import Trajectories
from recombine.tasks.trajectories._padding import padded_index

CENTER = SIZE / 2
PLACE_SCALE = SIZE / 2  # cells
SPEED_SCALE = 2.0  # cells per second, the fastest
STATE_SIZE = 4
"""Row, column, and the two velocities."""

VIEW_SIZE = 13
"""How many numbers `room_view` returns."""

COLUMNS = 11  # of the context: box (4), door (2), normal (2), has a door, is red, is blue


def state_vectors(runs: RoomRuns, *, time: int | None = None) -> Trajectories:
    """Returns the runs as float32 vectors of shape (items, time, 4), with their maps.

    Args:
        runs: what happened.
        time: frames per run, by default those of the longest; the last frame fills the rest.
    """
    index = padded_index(runs.lengths, time, what="run")[..., None]
    places = np.take_along_axis(runs.positions, index, axis=1)
    speeds = np.take_along_axis(runs.velocities, index, axis=1)
    frames = np.concatenate([(places - CENTER) / PLACE_SCALE, speeds / SPEED_SCALE], axis=-1)
    return Trajectories(frames.astype(np.float32), runs.lengths, runs.labels, _context(runs))


def room_view(state: Float[Array, " 4"], context: Float[Array, "rooms 11"]) -> Float[Array, " 13"]:
    """Returns what there is around the runner: its velocity, its room, and the way to the door.

    In a place that is in no room the nearest one is seen.
    """
    place, speed = _place(state), state[2:]
    boxes, doors, normals = context[:, :4], context[:, 4:6], context[:, 6:8]
    middles = boxes[:, :2] + boxes[:, 2:] / 2
    outside = jnp.maximum(jnp.abs(place[None] - middles) - boxes[:, 2:] / 2, 0.0)
    distance = jnp.sum(outside**2, axis=-1) + jnp.where(boxes[:, 2] > 0, 0.0, jnp.inf)
    room = jnp.argmin(distance)
    has_door = context[room, 8]
    door = doors[room] + 0.5 + normals[room] / 2
    return jnp.concatenate(
        [
            speed,
            place - middles[room],
            boxes[room, 2:] - 2.5,
            (door - place) * has_door,
            normals[room],
            jnp.stack([has_door, context[room, 9], context[room, 10]]),
        ]
    )


class RoomStateReader(eqx.Module):
    """Tells from state vectors whether the runner came to the red or to the blue room."""

    num_classes: int = eqx.field(static=True, default=2)

    def look(self, first: Float[Array, " 4"], context: Float[Array, "rooms 11"]) -> Array:
        """Remembers the boxes of the red and of the blue room."""
        del first
        return jnp.stack([context[:, column] @ context[:, :4] for column in (9, 10)])

    def evidence(
        self, memory: Float[Array, "2 4"], frame: Float[Array, " 4"]
    ) -> Float[Array, " classes"]:
        """Says in which of the two rooms the runner is, if in any."""
        inside = _place(frame)[None] - memory[:, :2]
        is_there = jnp.all((inside >= 0) & (inside < memory[:, 2:]), axis=-1)
        return is_there.astype(jnp.float32)

    def probabilities(self, evidence: Float[Array, " classes"]) -> Float[Array, " classes"]:
        """Turns the evidence of all frames into probabilities; without any they are equal."""
        return (evidence + SMOOTHING) / (jnp.sum(evidence) + 2 * SMOOTHING)

    def is_present(self, frame: Float[Array, " 4"]) -> Bool[Array, ""]:
        """Says whether the runner is on the map."""
        return jnp.all(jnp.abs(frame[:2]) <= 1)


def _place(state: Float[Array, " 4"]) -> Float[Array, " 2"]:
    return state[:2] * PLACE_SCALE + CENTER


def _context(runs: RoomRuns) -> Float[np.ndarray, "items rooms 11"]:
    items = len(runs.lengths)
    context = np.zeros((items, MOST_ROOMS, COLUMNS), np.float32)
    maps = runs.maps
    context[..., :4] = maps.boxes
    context[..., 4:6] = maps.doors
    context[..., 6:8] = maps.normals
    context[..., 8] = np.asarray(maps.exits) != NO_ROOM
    for item in range(items):
        one = runs.map_of(item)
        context[item, one.red, 9] = context[item, one.blue, 10] = 1.0
    return context
