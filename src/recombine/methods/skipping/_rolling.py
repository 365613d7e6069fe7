"""Leading a model along a batch of trajectories, and the way back.

How many predictions a batch takes is known only when it ends. A scan would visit all that there
could be, and a loop that ends early has no derivative of its own. So it is given one here: on the
way along, what the backward passes of the predictions need is written down; the way back visits
only the steps that were made, each once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree, Shaped

from recombine.methods.skipping._branching import anyone
from recombine.methods.skipping._course import Course, Step, Walk
from recombine.methods.skipping._matching import NOT_MATCHED, frames_at
from recombine.methods.skipping._passes import differentiate, look_at_passes, make_restorer


class Loop(NamedTuple):
    """How a rollout is made, and what is written down of it."""

    lanes: int
    """How many trajectories, or pieces of them, are followed at a time."""
    chunk: int = 1
    """How many steps are made before one looks whether all have ended."""
    keep_predictions: bool = False
    keep_costs: bool = False
    keep_inputs_only: bool = False
    """For the way back only what the model was fed; predictions are then made twice."""

    def most_steps(self, course: Course) -> int:
        """Returns how many steps a batch takes at most; whole chunks.

        A lane is idle only when nothing is left to begin, so at the end, and then for no longer
        than one trajectory takes.
        """
        steps, batch = course.draws.coins.truth.shape
        most = steps
        if self.lanes < len(course.pieces.items):
            most = -(-(batch + self.lanes - 1) * steps // self.lanes)
        return -(-most // self.chunk) * self.chunk


class Rolled(NamedTuple):
    """A rollout that has ended."""

    steps: Step
    """As they were made, the others blank: not matched."""
    num_steps: Int[Array, ""]
    """How many were made: to the end of the batch, or of that chunk."""


def roll(model: Any, course: Course, loop: Loop) -> Rolled:
    """Leads a model along a batch until all of it has ended.

    Gradients reach what the model holds or closes over, through losses and predictions.

    Args:
        model: predicts one frame from another.
        course: the batch and the rules.
        loop: how it is made.
    """
    start = course.start(loop.lanes)
    predict = eqx.filter_closure_convert(
        lambda items, inputs: course.predict(model, items, inputs), start.items, start.inputs
    )
    arrays, static = eqx.partition(predict, eqx.is_inexact_array)
    return _roll(arrays, static, course, loop)


class Notes(NamedTuple):
    """What the way back needs of a step."""

    prediction: Float[Array, " lanes *shape"]
    passes: list[Array]
    """Of the backward pass; or what the model was fed, where that is all that is kept."""


@eqx.filter_custom_vjp
def _roll(arrays: PyTree[Array], static: Any, course: Course, loop: Loop) -> Rolled:
    def predict(walk: Walk) -> tuple[Array, None]:
        return eqx.combine(arrays, static)(walk.items, walk.inputs), None

    return _go_along(predict, course, loop)[0]


@_roll.def_fwd
def _roll_forward(
    perturbed: Any, arrays: PyTree[Array], static: Any, course: Course, loop: Loop
) -> tuple[Rolled, tuple[Rolled, Notes]]:
    del perturbed

    start = course.start(loop.lanes)
    changes = look_at_passes(static, arrays, start.items, start.inputs).changes

    def predict(walk: Walk) -> tuple[Array, Notes]:
        if loop.keep_inputs_only:
            prediction = eqx.combine(arrays, static)(walk.items, walk.inputs)
            return prediction, Notes(prediction, [walk.inputs])
        prediction, passes, _ = differentiate(static, arrays, walk.items, walk.inputs)
        changing = [one for one, does in zip(passes, changes, strict=True) if does]
        return prediction, Notes(prediction, changing)

    rolled, notes = _go_along(predict, course, loop)
    return rolled, (rolled, notes)


@_roll.def_bwd
def _roll_backward(
    residuals: tuple[Rolled, Notes],
    gradient: Any,
    perturbed: Any,
    arrays: PyTree[Array],
    static: Any,
    course: Course,
    loop: Loop,
) -> PyTree[Array]:
    del perturbed
    rolled, notes = residuals
    start = course.start(loop.lanes)
    restore = make_restorer(static, arrays, start.items, start.inputs)

    def back_one_step(done: Array, carry: tuple[PyTree[Array], Array]) -> tuple[Any, Array]:
        total, from_inputs = carry
        number = rolled.num_steps - 1 - done
        step, note, wanted = jax.tree.map(
            lambda leaf: leaf[number], (rolled.steps, notes, gradient.steps)
        )
        of_prediction = jnp.where(_beside(step.is_fed_back, from_inputs), from_inputs, 0.0)
        if wanted.losses is not None:  # None: nothing asks for their gradient
            of_prediction += _gradient_of_losses(course, note.prediction, step, wanted.losses)
        if wanted.prediction is not None:
            of_prediction += wanted.prediction
        if loop.keep_inputs_only:
            go_back = differentiate(static, arrays, step.items, note.passes[0])[2]
        else:
            go_back = restore(note.passes)
        to_arrays, to_inputs = go_back(of_prediction)
        return jax.tree.map(jnp.add, total, to_arrays), to_inputs

    def back_one_chunk(done: Array, carry: Any) -> Any:
        return jax.lax.fori_loop(
            0, loop.chunk, lambda one, carry: back_one_step(loop.chunk * done + one, carry), carry
        )

    nothing = (jax.tree.map(jnp.zeros_like, arrays), jnp.zeros_like(start.inputs))
    return jax.lax.fori_loop(0, rolled.num_steps // loop.chunk, back_one_chunk, nothing)[0]


def _go_along(
    predict: Callable[[Walk], tuple[Array, Any]], course: Course, loop: Loop
) -> tuple[Rolled, Any]:
    """Makes steps, chunk by chunk, until all have ended, and notes what `predict` says of each."""
    rows = loop.most_steps(course)

    def advance(walk: Walk) -> tuple[Walk, tuple[Step, Any]]:
        prediction, notes = predict(walk)
        walk, step = course.advance(prediction, walk)
        if not loop.keep_predictions:
            step = step._replace(prediction=None)
        if not loop.keep_costs:
            step = step._replace(costs=None)
        return walk, (step, notes)

    def wants_more(carry: tuple[Array, Walk, Any]) -> Bool[Array, ""]:
        number, walk, _ = carry
        return (number < rows) & anyone(course.needed(walk))

    def make_one(_: Any, carry: tuple[Array, Walk, Any]) -> tuple[Array, Walk, Any]:
        number, walk, made = carry
        walk, (step, notes) = advance(walk)
        new = (_pack(step), notes)
        made = jax.tree.map(
            lambda rows, row: jax.lax.dynamic_update_index_in_dim(rows, row, number, 0), made, new
        )
        return number + 1, walk, made

    def make_chunk(carry: tuple[Array, Walk, Any]) -> tuple[Array, Walk, Any]:
        return jax.lax.fori_loop(0, loop.chunk, make_one, carry)

    start = course.start(loop.lanes)
    _, like = jax.eval_shape(advance, start)
    steps, notes = jax.tree.map(lambda leaf: jnp.zeros((rows, *leaf.shape), leaf.dtype), like)
    blank = (_pack(steps._replace(matched=jnp.full_like(steps.matched, NOT_MATCHED))), notes)
    number, _, (packed, notes) = jax.lax.while_loop(
        wants_more, make_chunk, (jnp.int32(0), start, blank)
    )
    return Rolled(_unpack(packed, like[0]), number), notes


class _Packed(NamedTuple):
    """A step whose numbers of lanes are one array: a device writes it down in one go."""

    numbers: Float[Array, "*steps lanes five"]
    prediction: Array | None
    costs: Array | None


def _pack(step: Step) -> _Packed:
    numbers = (step.items, step.steps, step.matched, step.losses, step.is_fed_back)
    kind = step.losses.dtype  # in which all of these are exact
    stacked = jnp.stack([number.astype(kind) for number in numbers], axis=-1)
    return _Packed(stacked, step.prediction, step.costs)


def _unpack(packed: _Packed, like: Any) -> Step:
    names = ("items", "steps", "matched", "losses", "is_fed_back")
    numbers = {
        name: packed.numbers[..., place].astype(getattr(like, name).dtype)
        for place, name in enumerate(names)
    }
    return Step(**numbers, prediction=packed.prediction, costs=packed.costs)


def _gradient_of_losses(
    course: Course,
    prediction: Float[Array, " lanes *shape"],
    step: Step,
    wanted: Float[Array, " lanes"],
) -> Float[Array, " lanes *shape"]:
    """Returns what the losses of a step want of its predictions."""
    frames = frames_at(course.batch, step.items, jnp.maximum(step.matched, 0))
    (of_prediction,) = jax.vjp(lambda made: course.losses(made, frames), prediction)[1](
        jnp.where(step.matched != NOT_MATCHED, wanted, 0.0)
    )
    return of_prediction


def _beside(of_lanes: Shaped[Array, " lanes"], values: Array) -> Shaped[Array, "lanes ..."]:
    return of_lanes.reshape(-1, *[1] * (values.ndim - 1))
