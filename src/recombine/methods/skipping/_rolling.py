"""Leading a model along a batch of trajectories, and the way back.

How many predictions a batch takes is known only when it ends. A scan would visit all that there
could be, and a loop that ends early has no derivative of its own. So it is given one here: on the
way along, what the backward passes of the predictions need is written down; the way back visits
only the steps that were made, each once.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from recombine.methods.skipping._branching import anyone
from recombine.methods.skipping._course import Course, Draw, Step
from recombine.methods.skipping._frames import as_floats
from recombine.methods.skipping._matching import NOT_MATCHED, Walk, frames_at


class Keep(NamedTuple):
    """What is to be written down."""

    predictions: bool = False
    costs: bool = False
    inputs_only: bool = False
    """For the backward passes only what the model was fed; predictions are then made twice."""


class Rolled(NamedTuple):
    """A rollout that has ended."""

    steps: Step
    """All that there could be; those that were not made are marked as not matched."""
    num_steps: Int[Array, ""]
    """How many were made: to the end of the batch, or of that chunk."""


def roll(model: Any, course: Course, draws: Draw, chunk: int, keep: Keep) -> Rolled:
    """Leads a model along a batch until all trajectories have ended.

    Gradients reach what the model holds or closes over, through losses and predictions.

    Args:
        model: predicts one frame from another.
        course: the batch and the rules.
        draws: for every step that there could be.
        chunk: how many steps are made before one looks whether all have ended.
        keep: what else is returned, and what is kept for the way back.
    """
    steps = len(draws.coin.truth)
    draws = jax.tree.map(partial(_fill_up, rows=-(-steps // chunk) * chunk), draws)
    first = as_floats(course.batch.frames[:, 0])
    predict = eqx.filter_closure_convert(lambda inputs: course.predict(model, inputs), first)
    arrays, static = eqx.partition(predict, eqx.is_inexact_array)
    rolled: Rolled = _roll(arrays, static, course, draws, chunk, keep)
    made = jax.tree.map(lambda leaf: leaf[:steps], rolled.steps)
    return Rolled(made, rolled.num_steps)


def _fill_up(leaf: Array, rows: int) -> Array:
    """Adds steps that nobody needs."""
    blank = NOT_MATCHED if jnp.issubdtype(leaf.dtype, jnp.integer) else 0
    fill = [(0, rows - len(leaf))] + [(0, 0)] * (leaf.ndim - 1)
    return jnp.pad(leaf, fill, constant_values=blank)


class Notes(NamedTuple):
    """What the way back needs of one step, or of all."""

    prediction: Float[Array, " batch *shape"]
    passes: list[Array]
    """Of the backward pass; or what the model was fed, where that is all that is kept."""


@eqx.filter_custom_vjp
def _roll(
    arrays: PyTree[Array], static: Any, course: Course, draws: Draw, chunk: int, keep: Keep
) -> Rolled:
    def predict(inputs: Array) -> tuple[Array, None]:
        return eqx.combine(arrays, static)(inputs), None

    return _go_along(predict, course, draws, chunk, keep)[0]


@_roll.def_fwd
def _roll_forward(
    perturbed: Any,
    arrays: PyTree[Array],
    static: Any,
    course: Course,
    draws: Draw,
    chunk: int,
    keep: Keep,
) -> tuple[Rolled, tuple[Rolled, Notes]]:
    del perturbed

    def predict(inputs: Array) -> tuple[Array, Notes]:
        if keep.inputs_only:
            prediction = eqx.combine(arrays, static)(inputs)
            return prediction, Notes(prediction, [inputs])
        prediction, passes, _ = _differentiated(static, arrays, inputs)
        return prediction, Notes(prediction, passes)

    rolled, notes = _go_along(predict, course, draws, chunk, keep)
    return rolled, (rolled, notes)


@_roll.def_bwd
def _roll_backward(
    residuals: tuple[Rolled, Notes],
    gradient: Any,
    perturbed: Any,
    arrays: PyTree[Array],
    static: Any,
    course: Course,
    draws: Draw,
    chunk: int,
    keep: Keep,
) -> PyTree[Array]:
    del perturbed, draws
    rolled, notes = residuals
    inputs = as_floats(course.batch.frames[:, 0])
    restore = _restorer(static, arrays, inputs)

    def back_one_step(done: Array, carry: tuple[PyTree[Array], Array]) -> tuple[Any, Array]:
        total, from_inputs = carry
        number = rolled.num_steps - 1 - done
        step, note, wanted = jax.tree.map(
            lambda leaf: leaf[number], (rolled.steps, notes, gradient.steps)
        )
        of_prediction = _gradient_of_losses(course, note.prediction, step.matched, wanted.losses)
        of_prediction += jnp.where(_beside(step.is_fed_back, from_inputs), from_inputs, 0.0)
        if keep.predictions:
            of_prediction += wanted.prediction
        if keep.inputs_only:
            go_back = _differentiated(static, arrays, note.passes[0])[2]
        else:
            go_back = restore(note.passes)
        to_arrays, to_inputs = go_back(of_prediction)
        return jax.tree.map(jnp.add, total, to_arrays), to_inputs

    def back_one_chunk(done: Array, carry: Any) -> Any:
        return jax.lax.fori_loop(
            0, chunk, lambda one, carry: back_one_step(chunk * done + one, carry), carry
        )

    nothing = (jax.tree.map(jnp.zeros_like, arrays), jnp.zeros_like(inputs))
    return jax.lax.fori_loop(0, rolled.num_steps // chunk, back_one_chunk, nothing)[0]


def _go_along(
    predict: Callable[[Array], tuple[Array, Any]],
    course: Course,
    draws: Draw,
    chunk: int,
    keep: Keep,
) -> tuple[Rolled, Any]:
    """Makes steps, chunk by chunk, until all have ended, and notes what `predict` says of each."""
    rows = len(draws.coin.truth)
    start = Walk(jnp.zeros_like(course.batch.lengths), as_floats(course.batch.frames[:, 0]))

    def advance(walk: Walk, draw: Draw) -> tuple[Walk, tuple[Step, Any]]:
        prediction, notes = predict(walk.inputs)
        walk, step = course.advance(prediction, walk, draw)
        if not keep.predictions:
            step = step._replace(prediction=None)
        if not keep.costs:
            step = step._replace(costs=None)
        return walk, (step, notes)

    def draw_of(number: Array) -> Draw:
        return jax.tree.map(lambda leaf: leaf[jnp.minimum(number, rows - 1)], draws)

    def wants_more(carry: tuple[Array, Walk, Any]) -> Bool[Array, ""]:
        number, walk, _ = carry
        return (number < rows) & anyone(course.needed(walk, draw_of(number)))

    def make_one(_: Any, carry: tuple[Array, Walk, Any]) -> tuple[Array, Walk, Any]:
        number, walk, made = carry
        walk, new = advance(walk, draw_of(number))
        made = jax.tree.map(lambda all_, one: all_.at[number].set(one), made, new)
        return number + 1, walk, made

    def make_chunk(carry: tuple[Array, Walk, Any]) -> tuple[Array, Walk, Any]:
        return jax.lax.fori_loop(0, chunk, make_one, carry)

    _, like = jax.eval_shape(advance, start, draw_of(jnp.int32(0)))
    steps, notes = jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype), like)
    blank = (steps._replace(matched=jnp.full_like(steps.matched, NOT_MATCHED)), notes)
    number, _, (steps, notes) = jax.lax.while_loop(
        wants_more, make_chunk, (jnp.int32(0), start, blank)
    )
    return Rolled(steps, number), notes


def _differentiated(
    static: Any, arrays: PyTree[Array], inputs: Array
) -> tuple[Array, list[Array], Callable[[Array], tuple[PyTree[Array], Array]]]:
    """Returns a prediction, what its backward pass needs beside `arrays`, and that pass."""
    prediction, go_back = jax.vjp(
        lambda arrays, inputs: eqx.combine(arrays, static)(inputs), arrays, inputs
    )
    leaves = jax.tree.leaves(go_back)
    own = jax.tree.leaves(arrays)
    return prediction, [leaf for leaf in leaves if _place(leaf, own) is None], go_back


def _restorer(
    static: Any, arrays: PyTree[Array], inputs: Array
) -> Callable[[list[Array]], Callable[[Array], tuple[PyTree[Array], Array]]]:
    """Returns what makes a backward pass of what was kept of it."""
    own, form, places = jax.tree.leaves(arrays), None, []

    def look(arrays: PyTree[Array], inputs: Array) -> Array:
        nonlocal form, places
        prediction, _, go_back = _differentiated(static, arrays, inputs)
        leaves, form = jax.tree.flatten(go_back)
        places = [_place(leaf, jax.tree.leaves(arrays)) for leaf in leaves]
        return prediction

    jax.eval_shape(look, arrays, inputs)

    def restore(passes: list[Array]) -> Callable[[Array], tuple[PyTree[Array], Array]]:
        kept = iter(passes)
        leaves = [next(kept) if place is None else own[place] for place in places]
        return jax.tree.unflatten(form, leaves)

    return restore


def _place(leaf: Array, own: list[Array]) -> int | None:
    """Says which of the model's arrays a leaf is, if it is one."""
    return next((place for place, one in enumerate(own) if one is leaf), None)


def _gradient_of_losses(
    course: Course,
    prediction: Float[Array, " batch *shape"],
    matched: Int[Array, " batch"],
    wanted: Float[Array, " batch"],
) -> Float[Array, " batch *shape"]:
    """Returns what the losses of a step want of its predictions."""
    frames = frames_at(course.batch, jnp.maximum(matched, 0))
    (of_prediction,) = jax.vjp(lambda made: course.losses(made, frames), prediction)[1](
        jnp.where(matched != NOT_MATCHED, wanted, 0.0)
    )
    return of_prediction


def _beside(flags: Bool[Array, " batch"], values: Array) -> Bool[Array, "batch ..."]:
    return flags.reshape(-1, *[1] * (values.ndim - 1))
