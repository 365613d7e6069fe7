"""Training on a global alignment, hard or soft.

The frame that scheduled sampling would feed depends on the alignment, and the alignment on what was
fed (Neitz, thesis, §2.2). Hard alignment goes around this: the model runs freely without gradients,
its predictions are aligned, and then it is trained along this alignment, with sampling. Soft
alignment trains through the free run itself, without sampling.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from recombine.methods.skipping._alignment import best_alignment, soft_alignment_cost
from recombine.methods.skipping._frames import BINARY_CROSS_ENTROPY, FrameLoss, as_floats
from recombine.methods.skipping._loss import Rollout, skip_loss
from recombine.methods.skipping._matching import Batch, batched_model
from recombine.methods.skipping._skips import Coins, Skips

BOUND = 1e3
"""Before it has learned, a model that runs freely for long would overflow."""


def free_run(
    model: Callable[..., Float[Array, " *shape"]],
    first: Float[Array, " batch *shape"],
    steps: int,
    context: Float[Array, " batch *context"] | None = None,
    *,
    bound: float | None = None,
    rematerialize: bool = False,
) -> Float[Array, "steps batch *shape"]:
    """Feeds the model its own predictions, from the first frames on.

    With a `bound`, no number in a prediction grows beyond it, however badly the model behaves.

    Example:
        >>> free_run(lambda x: x + 3, jnp.zeros((1, 1)), 3)[:, 0, 0].tolist()
        [3.0, 6.0, 9.0]
    """
    predict = batched_model(model, context)

    def step(frames: Array, _: None) -> tuple[Array, Array]:
        frames = predict(frames)
        if bound is not None:
            frames = jnp.clip(frames, -bound, bound)
        return frames, frames

    return jax.lax.scan(jax.checkpoint(step) if rematerialize else step, first, length=steps)[1]


def alignment_costs(
    predictions: Float[Array, "steps batch *shape"], batch: Batch, frame_loss: FrameLoss
) -> Float[Array, "batch steps time"]:
    """Returns the loss of every prediction against every frame of its trajectory.

    Padding counts as frames of zeros, whatever it is; no path leads through it.
    """

    def one(predicted: Array, frames: Array, length: Array) -> Float[Array, "steps time"]:
        inside = jnp.arange(len(frames)) < length
        frames = jnp.where(inside.reshape(-1, *[1] * (frames.ndim - 1)), as_floats(frames), 0.0)
        return jax.lax.map(lambda prediction: frame_loss.against(prediction, frames), predicted)

    return jax.vmap(one, in_axes=(1, 0, 0))(predictions, batch.frames, batch.lengths)


def aligned_loss(
    model: Callable[..., Float[Array, " *shape"]],
    batch: Batch,
    coins: Coins,
    *,
    skips: Skips,
    truth: Float[Array, ""] | float = 0.0,
    frame_loss: FrameLoss = BINARY_CROSS_ENTROPY,
    temperature: Float[Array, ""] | float | None = None,
    step_cost: Float[Array, ""] | float = 0.0,
    steps: int | None = None,
    keep_predictions: bool = False,
    rematerialize: bool = False,
    chunk: int = 1,
    lanes: int | None = None,
) -> tuple[Float[Array, ""], Rollout]:
    """Returns the loss of a batch whose predictions are aligned as a whole.

    Args:
        model: from one frame to the next one; with a context, from frame and context.
        batch: the trajectories; what stands beyond their ends does not matter.
        coins: from `flip_coins`; only those of feeding the truth are used.
        skips: how far a prediction may skip; the shortest skip must be 1.
        truth: the probability that the matched frame is fed next, in the hard version.
        frame_loss: the distance of a prediction from a frame.
        temperature: of the soft version; None is the hard one.
        step_cost: what every prediction adds to the mean cost of a path.
        steps: how far the model runs freely; by default as many steps as there can be.
        keep_predictions: whether to return all predicted frames.
        rematerialize: whether to compute predictions again for the backward pass.
        chunk: of the hard version: how many steps are made at a time, as in `skip_loss`.
        lanes: of the hard version: how many trajectories are followed at a time.
    """
    time = batch.frames.shape[1]
    steps = skips.most_predictions(time) if steps is None else steps
    first = as_floats(batch.frames[:, 0])
    predictions = free_run(
        model, first, steps, batch.context, bound=BOUND, rematerialize=rematerialize
    )
    if temperature is None:
        predictions = jax.lax.stop_gradient(predictions)
    costs = alignment_costs(predictions, batch, frame_loss)
    found = jax.vmap(lambda cost, length: best_alignment(cost, length, skips, step_cost=step_cost))(
        jax.lax.stop_gradient(costs), batch.lengths
    )
    targets = found.matched.T
    if temperature is None:
        return skip_loss(
            model,
            batch,
            coins,
            skips=skips,
            truth=truth,
            frame_loss=frame_loss,
            targets=targets,
            keep_predictions=keep_predictions,
            rematerialize=rematerialize,
            chunk=chunk,
            lanes=lanes,
        )
    soft = jax.vmap(
        lambda cost, length: soft_alignment_cost(
            cost, length, skips, temperature, step_cost=step_cost
        )
    )(costs, batch.lengths)
    has_steps = batch.lengths > 1
    loss = jnp.sum(soft) / jnp.maximum(jnp.sum(has_steps), 1)
    # Soft minima pass over what is not a number; whoever trains must hear of it.
    loss = jnp.where(jnp.all(jnp.isfinite(costs)), loss, jnp.nan)
    is_step = targets >= 0
    at = jnp.maximum(found.matched, 0)
    losses = jnp.take_along_axis(costs, at[..., None], axis=2)[..., 0].T
    return loss, Rollout(
        matched=targets,
        losses=jnp.where(is_step, losses, 0.0),
        num_predictions=found.num_predictions,
        num_calls=jnp.int32(steps * len(batch.lengths)),
        predictions=predictions if keep_predictions else None,
        costs=None,
    )
