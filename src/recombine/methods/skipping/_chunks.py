"""A rollout in chunks of steps, which ends with its batch and is cheap to go back along.

How many predictions a batch takes is known only when it ends. A scan visits all that there could
be, and keeps for each of them what a backward pass needs. Here a loop goes from chunk to chunk
until every trajectory has ended, and keeps little more than what the model was fed.

On the way back the model's passes over a chunk are made again, for all its steps at once. Only the
gradient through predictions that were fed back goes one step after the other; that of the weights
is taken for all steps at once. So more is computed, but most of it in large pieces, where the
passes of one step after the other would leave an accelerator idle.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from recombine.methods.skipping._branching import anyone
from recombine.methods.skipping._course import Course, Draw
from recombine.methods.skipping._frames import as_floats
from recombine.methods.skipping._matching import NOT_MATCHED, Walk, frames_at


class Track(NamedTuple):
    """All steps of a rollout, in chunks."""

    matched: Int[Array, "chunks steps batch"]
    losses: Float[Array, "chunks steps batch"]
    is_fed_back: Bool[Array, "chunks steps batch"]
    inputs: Float[Array, "chunks steps batch *shape"]
    """What the model was fed."""


class Rolled(NamedTuple):
    """A rollout that has ended."""

    track: Track
    num_chunks: Int[Array, ""]
    """How many of them were needed; the others are blank."""


def roll_in_chunks(model: Any, course: Course, draws: Draw, chunk: int) -> Rolled:
    """Leads a model along a batch until all trajectories have ended.

    Gradients reach the model, through the losses, and nothing else.

    Args:
        model: its floating-point arrays are trained.
        course: the batch and the rules.
        draws: for every step that there could be.
        chunk: how many steps are made before one looks whether all have ended.
    """
    steps = len(draws.coin.truth)
    whole = -(-steps // chunk) * chunk

    def cut(leaf: Array) -> Array:
        blank = NOT_MATCHED if jnp.issubdtype(leaf.dtype, jnp.integer) else 0
        fill = [(0, whole - steps)] + [(0, 0)] * (leaf.ndim - 1)
        filled = jnp.pad(leaf, fill, constant_values=blank)
        return filled.reshape(-1, chunk, *leaf.shape[1:])

    arrays, static = eqx.partition(model, eqx.is_inexact_array)
    rolled: Rolled = _roll(arrays, static, course, jax.tree.map(cut, draws))
    return rolled


@eqx.filter_custom_vjp
def _roll(arrays: PyTree[Array], static: Any, course: Course, draws: Draw) -> Rolled:
    model = eqx.combine(arrays, static)
    batch = course.batch
    start = Walk(jnp.zeros_like(batch.lengths), as_floats(batch.frames[:, 0]))
    rows = draws.coin.truth.shape
    blank = Track(
        matched=jnp.full(rows, NOT_MATCHED, batch.lengths.dtype),
        losses=jnp.zeros(rows),
        is_fed_back=jnp.zeros(rows, bool),
        inputs=jnp.zeros((*rows, *start.inputs.shape[1:])),
    )

    def wants_more(carry: tuple[Array, Walk, Track]) -> Bool[Array, ""]:
        number, walk, _ = carry
        following = jax.tree.map(lambda leaf: leaf[jnp.minimum(number, rows[0] - 1), 0], draws)
        return (number < rows[0]) & anyone(course.needed(walk, following))

    def make_chunk(carry: tuple[Array, Walk, Track]) -> tuple[Array, Walk, Track]:
        number, walk, track = carry

        def advance(walk: Walk, draw: Draw) -> tuple[Walk, Track]:
            after, step = course.advance(model, walk, draw)
            return after, Track(step.matched, step.losses, step.is_fed_back, walk.inputs)

        now = jax.tree.map(lambda leaf: leaf[number], draws)
        walk, made = jax.lax.scan(advance, walk, now)
        track = jax.tree.map(lambda all_, new: all_.at[number].set(new), track, made)
        return number + 1, walk, track

    number, _, track = jax.lax.while_loop(wants_more, make_chunk, (jnp.int32(0), start, blank))
    return Rolled(track, number)


@_roll.def_fwd
def _roll_forward(
    perturbed: Any, arrays: PyTree[Array], static: Any, course: Course, draws: Draw
) -> tuple[Rolled, Rolled]:
    del perturbed
    rolled: Rolled = _roll(arrays, static, course, draws)
    return rolled, rolled


@_roll.def_bwd
def _roll_backward(
    rolled: Rolled,
    gradient: Any,
    perturbed: Any,
    arrays: PyTree[Array],
    static: Any,
    course: Course,
    draws: Draw,
) -> PyTree[Array]:
    del perturbed, draws
    wanted = gradient.track.losses  # of the losses; nothing else is differentiable

    def predict(arrays: PyTree[Array], inputs: Array) -> Array:
        return course.predict(eqx.combine(arrays, static), inputs)

    def back_one_chunk(done: Array, carry: tuple[PyTree[Array], Array]) -> tuple[Any, Array]:
        total, from_inputs = carry
        number = rolled.num_chunks - 1 - done
        track = jax.tree.map(lambda leaf: leaf[number], rolled.track)
        predictions, to_inputs = jax.vmap(lambda x: jax.vjp(lambda y: predict(arrays, y), x))(
            track.inputs
        )
        own = _gradient_of_losses(course, predictions, track.matched, wanted[number])

        def back_one_step(from_inputs: Array, step: tuple[Any, ...]) -> tuple[Array, Array]:
            own, is_fed_back, to_input = step
            shape = (-1, *[1] * (own.ndim - 1))
            of_prediction = own + jnp.where(is_fed_back.reshape(shape), from_inputs, 0.0)
            return to_input(of_prediction)[0], of_prediction

        from_inputs, of_predictions = jax.lax.scan(
            back_one_step, from_inputs, (own, track.is_fed_back, to_inputs), reverse=True
        )
        _, to_arrays = jax.vjp(lambda a: jax.vmap(lambda x: predict(a, x))(track.inputs), arrays)
        (part,) = to_arrays(of_predictions)
        return jax.tree.map(jnp.add, total, part), from_inputs

    nothing = (jax.tree.map(jnp.zeros_like, arrays), jnp.zeros_like(rolled.track.inputs[0, 0]))
    return jax.lax.fori_loop(0, rolled.num_chunks, back_one_chunk, nothing)[0]


def _gradient_of_losses(
    course: Course,
    predictions: Float[Array, "steps batch *shape"],
    matched: Int[Array, "steps batch"],
    wanted: Float[Array, "steps batch"],
) -> Float[Array, "steps batch *shape"]:
    """Returns what the losses of a chunk want of its predictions."""

    def losses(predictions: Array) -> Float[Array, "steps batch"]:
        frames = jax.vmap(lambda at: frames_at(course.batch, jnp.maximum(at, 0)))(matched)
        return jax.vmap(course.losses)(predictions, frames)

    is_step = matched != NOT_MATCHED
    return jax.vjp(losses, predictions)[1](jnp.where(is_step, wanted, 0.0))[0]
