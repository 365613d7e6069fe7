"""The same falls as state vectors, for models that need no images.

A frame is the ball's place and velocity, scaled to about one. The board, which never changes, is
the context: six rows of five sliders and six rows of five funnels, without what is hidden. A model
sees the slider and the funnel that are next (`board_view`).
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from recombine.tasks.funnel_board._boards import HALF_WIDTH, PITCH, ROWS, places
from recombine.tasks.funnel_board._falls import BallFalls
from recombine.tasks.funnel_board._outcome import NUM_PLATFORMS, SMOOTHING
from recombine.tasks.trajectories import Trajectories
from recombine.tasks.trajectories._padding import padded_index

SCALE = np.asarray([HALF_WIDTH, 10.5, 5.0, 10.0], np.float32)  # x, y, and their velocities
STATE_SIZE = 4
"""Place from left to right, height, and the two velocities."""

VIEW_SIZE = 16
"""How many numbers `board_view` returns."""

AHEAD = 0.6  # units below the ball, around which the next slider and funnel are looked for
LOW = -9.0  # below this height a platform is certain


def state_vectors(falls: BallFalls, *, time: int | None = None) -> Trajectories:
    """Returns the falls as float32 vectors of shape (items, time, 4), with their boards.

    Args:
        falls: what happened.
        time: frames per fall, by default those of the longest; the last frame fills the rest.
    """
    index = padded_index(falls.lengths, time, what="fall")[..., None]
    both = np.concatenate([falls.positions, falls.velocities], axis=-1)
    frames = (np.take_along_axis(both, index, axis=1) / SCALE).astype(np.float32)
    return Trajectories(frames, falls.lengths, falls.labels, _context(falls))


def board_view(state: Float[Array, " 4"], context: Float[Array, "2 6 5 5"]) -> Float[Array, " 16"]:
    """Returns what is next to the ball: its velocity, the slider and the funnel just below.

    Of the funnel row the second nearest column counts too: rims overlap.
    """
    x, y = state[0] * SCALE[0], state[1] * SCALE[1]
    sliders, funnels = context[0], context[1]
    slider_row = jnp.clip(jnp.round((y - AHEAD) / 3 + 3.5), 1, 6).astype(jnp.int32) - 1
    funnel_row = jnp.clip(jnp.round((y - AHEAD) / 3 + 3.0), 0, 5).astype(jnp.int32)
    slider = sliders[slider_row][_nearest(x, sliders[slider_row])[0]]
    order = _nearest(x, funnels[funnel_row])
    funnel, neighbor = funnels[funnel_row][order[0]], funnels[funnel_row][order[1]]
    return jnp.concatenate(
        [
            state,
            jnp.stack([x - slider[1], y - slider[2], 2 * slider[3], slider[4] - 1.4]),
            jnp.stack([x - funnel[1], y - funnel[2], funnel[0], funnel[3] - 1.46]),
            jnp.stack([x - neighbor[1], y - neighbor[2], neighbor[0], funnel[4] * 4 - 1]),
        ]
    )


class PlatformStateReader(eqx.Module):
    """Tells from state vectors on which platform the ball fell."""

    num_classes: int = eqx.field(static=True, default=NUM_PLATFORMS)
    """How many platforms there are."""

    def look(self, first: Float[Array, " 4"], context: Array | None = None) -> None:
        """Remembers nothing of the first frame."""
        del first, context

    def evidence(self, memory: None, frame: Float[Array, " 4"]) -> Float[Array, " classes"]:
        """Says above which platform the ball is, once it is low."""
        del memory
        x, y = frame[0] * SCALE[0], frame[1] * SCALE[1]
        column = jnp.floor(x / PITCH[0] + self.num_classes / 2)
        return ((column == jnp.arange(self.num_classes)) & (y < LOW)).astype(jnp.float32)

    def probabilities(self, evidence: Float[Array, " classes"]) -> Float[Array, " classes"]:
        """Turns the evidence of all frames into probabilities; without any they are equal."""
        return (evidence + SMOOTHING) / (jnp.sum(evidence) + self.num_classes * SMOOTHING)

    def is_present(self, frame: Float[Array, " 4"]) -> Bool[Array, ""]:
        """Says whether the ball is on the board."""
        is_beside = jnp.abs(frame[0] * SCALE[0]) > self.num_classes * PITCH[0] / 2
        return ~is_beside & (frame[1] >= -1.05) & (frame[1] <= 1)


def _nearest(x: Float[Array, ""], row: Float[Array, "5 5"]) -> Int[Array, " 5"]:
    """Orders the columns of a row by their distance; places that do not exist come last."""
    return jnp.argsort(jnp.abs(x - row[:, 1]))


def _context(falls: BallFalls) -> Float[np.ndarray, "items 2 6 5 5"]:
    """Puts presence, centre and two sizes of every slider and funnel side by side."""
    boards = falls.boards
    rows = np.minimum(np.arange(ROWS), falls.size.rows - 1)  # above the highest there is itself
    exists = np.asarray(boards.has_slider)[..., None]
    sliders = [
        exists,
        np.where(exists, boards.slider_center, [1e3, 0.0]),
        boards.slider_angle[..., None],
        boards.slider_length[..., None],
    ]
    is_place = places(np.arange(ROWS), falls.size)  # an absent funnel keeps its place
    funnels = [
        np.asarray(boards.has_funnel)[..., None],
        np.where(is_place[None, ..., None], boards.funnel_center, [1e3, 0.0]),
        boards.funnel_height[..., None],
        boards.funnel_thickness[..., None],
    ]
    both = [np.concatenate(parts, axis=-1) for parts in (sliders, funnels)]
    return np.stack(both, axis=1)[:, :, rows].astype(np.float32)
