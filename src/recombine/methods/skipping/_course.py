"""One step of a rollout: predict, match, and decide what is fed next."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from recombine.methods.skipping._frames import FrameLoss
from recombine.methods.skipping._matching import (
    NOT_MATCHED,
    Batch,
    Match,
    Walk,
    batched_model,
    frames_at,
    match,
)
from recombine.methods.skipping._skips import Coins, Skips


class Draw(NamedTuple):
    """What is settled before a step is made."""

    coin: Coins
    target: Int[Array, " batch"] | None
    """The frames to match, where they are known; -1 after the end."""


class Step(NamedTuple):
    """What happened in a step; trajectories that have ended are marked."""

    matched: Int[Array, " batch"]
    losses: Float[Array, " batch"]
    is_fed_back: Bool[Array, " batch"]
    """Whether the prediction, and not the truth, is the input of the next step."""
    prediction: Float[Array, " batch *shape"] | None
    costs: Float[Array, "batch candidates"] | None
    """The last two only where they are kept."""


class Course(eqx.Module):
    """A batch of trajectories and the rules by which a model is led along them."""

    batch: Batch
    exploration: Float[Array, ""] | float
    truth: Float[Array, ""] | float
    skips: Skips = eqx.field(static=True)
    frame_loss: FrameLoss = eqx.field(static=True)

    def needed(self, walk: Walk, draw: Draw) -> Bool[Array, " batch"]:
        """Says which trajectories have not ended."""
        if draw.target is not None:
            return draw.target != NOT_MATCHED
        return walk.at + self.skips.shortest <= self.batch.lengths - 1

    def predict(self, model: Any, inputs: Float[Array, " batch *shape"]) -> Array:
        """Calls the model on what is fed to it."""
        return batched_model(model, self.batch.context)(inputs)

    def losses(
        self, predictions: Float[Array, " batch *shape"], frames: Float[Array, " batch *shape"]
    ) -> Float[Array, " batch"]:
        """Returns how far predictions are from frames."""
        return jax.vmap(self.frame_loss)(predictions, frames)

    def advance(
        self, prediction: Float[Array, " batch *shape"], walk: Walk, draw: Draw
    ) -> tuple[Walk, Step]:
        """Goes in every trajectory to the frame that the prediction fits."""
        active = self.needed(walk, draw)
        found = self._match(prediction, active, walk, draw)
        losses = jnp.where(active, self.losses(prediction, found.frame), 0.0)
        # A trajectory that has ended is fed its last frame: whatever the model makes of it is
        # finite, and does not count.
        is_truth = (draw.coin.truth < self.truth) | ~active
        inputs = _choose(is_truth, found.frame, prediction)
        matched = jnp.where(active, found.at, NOT_MATCHED)
        return Walk(found.at, inputs), Step(matched, losses, ~is_truth, prediction, found.costs)

    def _match(
        self, prediction: Array, active: Bool[Array, " batch"], walk: Walk, draw: Draw
    ) -> Match:
        skips, batch = self.skips, self.batch
        if draw.target is None:
            return match(
                *(prediction, active, walk.at, batch, skips, self.frame_loss),
                *(draw.coin, self.exploration),
            )
        at = jnp.where(active, draw.target, walk.at)
        costs = jnp.zeros((len(at), skips.longest - skips.shortest + 1))
        return Match(active, at, prediction, frames_at(batch, at), costs)


def _choose(which: Bool[Array, " batch"], yes: Array, no: Array) -> Array:
    return jnp.where(which.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)
