"""The form in which both worlds hand over what happened in them."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped


class Trajectories(NamedTuple):
    """Several trajectories, padded to the longest, with what came of each."""

    frames: Shaped[np.ndarray, "items time *shape"]
    """Bytes for images, float32 for state vectors; the last frame is repeated as padding."""
    lengths: Int[np.ndarray, " items"]
    labels: Int[np.ndarray, " items"]
    context: Float[np.ndarray, " items *context"] | None = None
    """What a state vector leaves out because it never changes; images show it."""
