"""Which coloured room is reached, read off frames: the classifier ψ (Neitz, thesis, §2.2).

It is fixed and sees every frame. Of the first one it remembers where the red and the blue room are,
with some of the floor before their doors; in each frame it counts the runner's pixels there.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

SMOOTHING = 1e-4  # added to the evidence for each class
OVERFLOW = 8  # pixels that a mask spreads over pale floor
KERNEL = (0.25, 0.5, 0.25)
# The authors ask for 0.25, which the dark ground outside all rooms exceeds as well (0.264; no grey
# has more than 0.31): every frame would show a runner. The runner itself has 1.
PRESENT = 0.4


class RoomMasks(NamedTuple):
    """Where the two coloured rooms are, with soft edges."""

    red: Float[Array, "height width"]
    blue: Float[Array, "height width"]


class RoomReader(eqx.Module):
    """Tells from frames whether the runner came to the red or to the blue room."""

    num_classes: int = eqx.field(static=True, default=2)

    def look(
        self, first: Float[Array, "height width 3"], context: Array | None = None
    ) -> RoomMasks:
        """Remembers of the first frame where the coloured rooms are."""
        del context
        red, green, blue = first[..., 0], first[..., 1], first[..., 2]
        is_pale = jnp.mean(first, axis=-1) > 0.9
        is_red = red * (1 - green) * (1 - blue) > 0.15
        is_blue = (1 - red) * (1 - green) * blue > 0.15
        return RoomMasks(_soften(_overflow(is_red, is_pale)), _soften(_overflow(is_blue, is_pale)))

    def evidence(
        self, memory: RoomMasks, frame: Float[Array, "height width 3"]
    ) -> Float[Array, " classes"]:
        """Counts the runner's pixels in the red and in the blue room."""
        red, green, blue = frame[..., 0], frame[..., 1], frame[..., 2]
        runner = ((1 - red) * green * (1 - blue) > 0.25).astype(jnp.float32)
        return jnp.stack([jnp.sum(memory.red * runner), jnp.sum(memory.blue * runner)])

    def probabilities(self, evidence: Float[Array, " classes"]) -> Float[Array, " classes"]:
        """Turns the evidence of all frames into probabilities; without any they are equal."""
        return (evidence + SMOOTHING) / (jnp.sum(evidence) + 2 * SMOOTHING)

    def is_present(self, frame: Float[Array, "height width 3"]) -> Bool[Array, ""]:
        """Says whether a runner can be seen."""
        red, green, blue = frame[..., 0], frame[..., 1], frame[..., 2]
        return jnp.any((1 - red) * (1 - 1.5 * (green - 0.8) ** 2) * (1 - blue) > PRESENT)


def _overflow(mask: Bool[Array, "h w"], is_pale: Bool[Array, "h w"]) -> Bool[Array, "h w"]:
    """Lets a mask spread over pale floor, and so through a door into the room before."""

    def spread(_: int, grown: Bool[Array, "h w"]) -> Bool[Array, "h w"]:
        wide = jax.lax.reduce_window(grown, False, jax.lax.bitwise_or, (3, 3), (1, 1), "SAME")
        return grown | (wide & is_pale)

    return jax.lax.fori_loop(0, OVERFLOW, spread, mask)


def _soften(mask: Bool[Array, "h w"]) -> Float[Array, "h w"]:
    """Smooths with (1, 2, 1)/4 along both axes; at the border the image is mirrored."""
    image = jnp.pad(mask.astype(jnp.float32), 1, mode="symmetric")
    low, middle, high = KERNEL
    image = low * image[:-2] + middle * image[1:-1] + high * image[2:]
    return low * image[:, :-2] + middle * image[:, 1:-1] + high * image[:, 2:]
