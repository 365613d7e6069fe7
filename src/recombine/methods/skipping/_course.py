"""One step of a rollout: match a prediction, and decide what is fed next.

What is followed are trajectories, or pieces of them. Of a batch only some may be followed at a
time, each in a lane of its own. Where one ends, the next one begins; the longest begin first, so
that few lanes are idle at the end.
"""

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
    batched_model,
    frames_at,
    match,
)
from recombine.methods.skipping._pieces import Pieces
from recombine.methods.skipping._skips import Coins, Skips


class Draws(NamedTuple):
    """What is settled beforehand, for every step that a trajectory may take."""

    coins: Coins
    targets: Int[Array, "steps batch"] | None
    """The frames to match, where they are known; -1 after the end."""


class Walk(NamedTuple):
    """How far those are that are followed now."""

    items: Int[Array, " lanes"]
    """Which trajectories of the batch they are, or are pieces of."""
    steps: Int[Array, " lanes"]
    """The number of the next prediction in its trajectory."""
    until: Int[Array, " lanes"]
    """The number that is not reached any more."""
    at: Int[Array, " lanes"]
    """The last frame that was matched."""
    inputs: Float[Array, " lanes *shape"]
    """What the model is fed next."""
    begun: Int[Array, ""]
    """How many have begun."""


class Step(NamedTuple):
    """What happened in a step; idle lanes are marked."""

    items: Int[Array, " lanes"]
    steps: Int[Array, " lanes"]
    """As in the walk before the step."""
    matched: Int[Array, " lanes"]
    losses: Float[Array, " lanes"]
    is_fed_back: Bool[Array, " lanes"]
    """Whether the prediction, and nothing else, is the input of the next step."""
    prediction: Float[Array, " lanes *shape"] | None
    costs: Float[Array, "lanes candidates"] | None
    """The last two only where they are kept."""


class Course(eqx.Module):
    """A batch of trajectories and the rules by which a model is led along them."""

    batch: Batch
    pieces: Pieces
    draws: Draws
    exploration: Float[Array, ""] | float
    truth: Float[Array, ""] | float
    skips: Skips = eqx.field(static=True)
    frame_loss: FrameLoss = eqx.field(static=True)

    def start(self, lanes: int) -> Walk:
        """Begins with the longest."""
        return self._begin(jnp.arange(lanes), jnp.int32(lanes))

    def needed(self, walk: Walk) -> Bool[Array, " lanes"]:
        """Says in which lanes there is more to predict."""
        is_inside = walk.steps < walk.until
        if self.draws.targets is not None:
            return is_inside & (self._drawn(self.draws.targets, walk) != NOT_MATCHED)
        return is_inside & (walk.at + self.skips.shortest <= self.batch.lengths[walk.items] - 1)

    def predict(
        self, model: Any, items: Int[Array, " lanes"], inputs: Float[Array, " lanes *shape"]
    ) -> Float[Array, " lanes *shape"]:
        """Calls the model on what is fed to it."""
        context = self.batch.context
        return batched_model(model, None if context is None else context[items])(inputs)

    def losses(
        self, predictions: Float[Array, " lanes *shape"], frames: Float[Array, " lanes *shape"]
    ) -> Float[Array, " lanes"]:
        """Returns how far predictions are from frames."""
        return jax.vmap(self.frame_loss)(predictions, frames)

    def advance(self, prediction: Float[Array, " lanes *shape"], walk: Walk) -> tuple[Walk, Step]:
        """Goes in every lane to the frame that the prediction fits, or on to what comes next."""
        active = self.needed(walk)
        coin: Coins = jax.tree.map(lambda rows: self._drawn(rows, walk), self.draws.coins)
        found = self._match(prediction, active, walk, coin)
        losses = found.losses
        if losses is None:
            losses = self.losses(prediction, found.frame)
        losses = jnp.where(active, losses, 0.0)
        # An idle lane is fed the last frame: whatever the model makes of it is finite, and does
        # not count.
        is_truth = (coin.truth < self.truth) | ~active
        inputs = _choose(is_truth, found.frame, prediction)
        after = walk._replace(steps=walk.steps + active, at=found.at, inputs=inputs)
        after, is_new = self._fill(after)
        matched = jnp.where(active, found.at, NOT_MATCHED)
        return after, Step(
            *(walk.items, walk.steps, matched, losses),
            is_fed_back=~is_truth & ~is_new,
            prediction=prediction,
            costs=found.costs,
        )

    def _fill(self, walk: Walk) -> tuple[Walk, Bool[Array, " lanes"]]:
        """Lets the next ones begin where others have ended."""
        everything = len(self.pieces.items)
        if len(walk.items) == everything:  # all have begun
            return walk, jnp.zeros(everything, bool)
        has_ended = ~self.needed(walk)
        place = walk.begun + jnp.cumsum(has_ended) - 1
        is_new = has_ended & (place < everything)
        new = self._begin(jnp.minimum(place, everything - 1), walk.begun + jnp.sum(is_new))
        chosen = jax.tree.map(
            lambda yes, no: _choose(is_new, yes, no),
            new._replace(begun=None),
            walk._replace(begun=None),
        )
        return chosen._replace(begun=new.begun), is_new

    def _begin(self, places: Int[Array, " lanes"], begun: Int[Array, ""]) -> Walk:
        items, first, until, at = jax.tree.map(lambda leaf: leaf[places], self.pieces)
        return Walk(items, first, until, at, frames_at(self.batch, items, at), begun)

    def _drawn(self, rows: Array, walk: Walk) -> Array:
        """Returns what was drawn for the next step of every lane; anything after the last one."""
        return rows.at[walk.steps, walk.items].get(mode="clip")

    def _match(
        self, prediction: Array, active: Bool[Array, " lanes"], walk: Walk, coin: Coins
    ) -> Match:
        skips, batch = self.skips, self.batch
        if self.draws.targets is None:
            return match(
                *(prediction, active, walk.items, walk.at, batch, skips, self.frame_loss),
                *(coin, self.exploration),
            )
        at = jnp.where(active, self._drawn(self.draws.targets, walk), walk.at)
        costs = jnp.zeros((len(at), skips.longest - skips.shortest + 1))
        return Match(at, frames_at(batch, walk.items, at), costs, None)


def _choose(which: Bool[Array, " lanes"], yes: Array, no: Array) -> Array:
    return jnp.where(which.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)
