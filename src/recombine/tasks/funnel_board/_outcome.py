"""Which platform is hit, read off frames: the classifier ψ (Neitz, thesis, §2.2).

It is fixed and sees every frame: it adds up how much blue there is in the lowest rows, in as many
columns as there are platforms. The two last rows, which show the platforms, do not count.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from recombine.tasks.funnel_board._boards import PITCH
from recombine.tasks.funnel_board._render import PIXELS

NUM_PLATFORMS = 5
"""From left to right: green, yellow, red, magenta, blue. A board of three columns has the middle
ones."""

SMOOTHING = 2e-4  # added to the evidence for each class
PLATFORM_ROWS = 2
WATCHED_ROWS = 10
FAINTEST = 0.3


class PlatformReader(eqx.Module):
    """Tells from frames on which platform the ball fell."""

    num_classes: int = eqx.field(static=True, default=NUM_PLATFORMS)
    """How many platforms there are."""

    def look(self, first: Float[Array, "height width 3"], context: Array | None = None) -> None:
        """Remembers nothing of the first frame."""
        del first, context

    def evidence(
        self, memory: None, frame: Float[Array, "height width 3"]
    ) -> Float[Array, " classes"]:
        """Adds up the blue above each platform."""
        del memory
        wide = round(PIXELS * PITCH[0]) * self.num_classes
        if frame.shape[1] != wide:
            raise ValueError(
                f"a board with {self.num_classes} platforms is {wide} pixels wide; got frames of "
                f"shape {frame.shape}. Give `PlatformReader` the number of platforms in the frames"
            )
        lowest = _ball(frame)[-PLATFORM_ROWS - WATCHED_ROWS : -PLATFORM_ROWS]
        return jnp.sum(lowest.reshape(WATCHED_ROWS, self.num_classes, -1), axis=(0, 2))

    def probabilities(self, evidence: Float[Array, " classes"]) -> Float[Array, " classes"]:
        """Turns the evidence of all frames into probabilities; without any they are equal."""
        return (evidence + SMOOTHING) / (jnp.sum(evidence) + self.num_classes * SMOOTHING)

    def is_present(self, frame: Float[Array, "height width 3"]) -> Bool[Array, ""]:
        """Says whether a ball can be seen above the platforms."""
        return jnp.any(_ball(frame)[:-PLATFORM_ROWS] > 0.04)


def _ball(frame: Float[Array, "height width 3"]) -> Float[Array, "height width"]:
    red, green, blue = frame[..., 0], frame[..., 1], frame[..., 2]
    ball = (1 - red) * (1 - green) * blue
    return jnp.where(ball < FAINTEST, 0.0, ball)
