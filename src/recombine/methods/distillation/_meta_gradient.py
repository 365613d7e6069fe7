r"""The gradient of the validation loss for the teacher (Neitz, thesis, §4.3.4, Eq. 4.1).

From the student's present weights $\theta_0 = \theta$, n steps are taken on
$L_\text{train} = L_y + \alpha L_t$; the label loss of $\theta_n$ on the validation part is
differentiated with respect to the teacher's weights $\varphi$, which act through all n updates.

A teacher does not depend on the student, so its targets for all n batches are computed at once,
before the loop ("hoisted"): one large product in place of n small ones, and none again when steps
are recomputed. Each batch keeps its own batch statistics.
"""

from typing import Any, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from recombine.methods._numbers import number, optional_number
from recombine.methods.adaptation import Adapted, Keep, Order, adapt
from recombine.methods.distillation._data import PrivilegedExamples
from recombine.methods.distillation._interface import (
    Objective,
    Optimizer,
    TeachingLoss,
    ask,
    targets_of,
)


class Lesson(eqx.Module):
    r"""What a student is trained on: $L_y + \alpha L_t$."""

    objective: Objective
    teaching_loss: TeachingLoss | None = None
    teaching_weight: Float[Array, ""] = eqx.field(converter=number, default=1.0)
    """α, the teaching coefficient."""

    def label_loss(self, student: Any, examples: PrivilegedExamples) -> Float[Array, ""]:
        """Returns the mean label loss, which alone judges a teacher."""
        predictions = ask(student, examples.inputs).prediction
        return jnp.mean(jax.vmap(self.objective.loss)(predictions, examples.labels))

    def losses(
        self, student: Any, examples: PrivilegedExamples, targets: Any
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Returns label loss and teaching loss, means over a batch; the latter is 0 untaught."""
        answers = ask(student, examples.inputs)
        label = jnp.mean(jax.vmap(self.objective.loss)(answers.prediction, examples.labels))
        if self.teaching_loss is None or targets is None:
            return label, jnp.zeros_like(label)
        return label, jnp.mean(jax.vmap(self.teaching_loss)(answers.activations, targets))

    def loss(
        self, student: Any, examples: PrivilegedExamples, targets: Any = None
    ) -> Float[Array, ""]:
        """Returns what the student descends on."""
        label, teaching = self.losses(student, examples, targets)
        if self.teaching_loss is None or targets is None:
            return label
        return label + self.teaching_weight * teaching


class TeacherTraining(eqx.Module):
    """How a teacher learns: the inner loop, and what is done with the meta-gradient.

    The defaults are those of the control tasks (Neitz, thesis, Table C.6).
    """

    optimizer: Optimizer
    """Of the teacher."""
    inner: Optimizer | None = None
    """Of the inner loop, fresh in every iteration. None: the student's own, which begins with a
    copy of its present state (moments and count); the copy is dropped afterwards."""
    clip: Float[Array, ""] = eqx.field(converter=number, default=1e8)
    """Every component of the meta-gradient is clipped to ± this."""
    skips_runaways: bool = eqx.field(static=True, default=False)
    """Whether a meta-step is left out where its inner loop ran away, and counted; otherwise the run
    ends there. The loop is hypothetical: the student goes on with the teacher as it was."""
    longest_meta_gradient: Float[Array, ""] | None = eqx.field(
        converter=optional_number, default=None
    )
    """A longer meta-gradient also counts as that of a loop that ran away; None: any finite one is
    taken. One that is a thousand times too long says nothing, and Adam, which divides by the
    squares that it remembers, hardly moves a teacher for long after it."""
    inner_steps: int = eqx.field(static=True, default=96)
    order: Order = eqx.field(static=True, default="second")
    """`partial` drops the Hessian of the inner loss; see `recombine.methods.adaptation.Order`."""
    last_steps: int | None = eqx.field(static=True, default=None)
    """Differentiates so many of the last inner steps only; None: all."""
    keep: Keep = eqx.field(static=True, default="steps")
    """What is kept for the backward pass; the result is the same."""
    hoist: bool = eqx.field(static=True, default=True)
    """Whether all targets are computed before the loop. Targets that are large and cheap, such as
    mixtures of frames, need less memory when they are computed within."""
    packed: bool = eqx.field(static=True, default=False)
    """Whether the inner loop holds the student as one long vector: faster on accelerators, for an
    `inner` optimizer that treats every number by itself, as `Momentum` and `Adam` do."""

    def __check_init__(self) -> None:
        if self.inner_steps < 1:
            raise ValueError(f"`inner_steps` must be at least 1; got {self.inner_steps}")
        if self.last_steps is not None and not 1 <= self.last_steps <= self.inner_steps:
            raise ValueError(
                f"`last_steps` must be between 1 and the {self.inner_steps} inner steps; got "
                f"{self.last_steps}"
            )
        if self.order not in ("second", "partial"):
            raise ValueError(
                f"`order` must be second or partial, got {self.order!r}: where every update is a "
                f"constant, nothing depends on the teacher"
            )
        if self.longest_meta_gradient is not None and not self.skips_runaways:
            raise ValueError(
                "`longest_meta_gradient` says which meta-steps are left out: it needs "
                "`skips_runaways=True`"
            )
        if self.packed and (self.inner is None or self.last_steps is not None):
            raise ValueError(
                "a `packed` inner loop starts with an optimizer of its own: it needs `inner`, and "
                "no `last_steps`"
            )
        if self.keep not in get_args(Keep):
            known = ", ".join(get_args(Keep))
            raise ValueError(f"`keep` must be one of {known}; got {self.keep!r}")


class MetaGradient(NamedTuple):
    """A meta-gradient, and what led to it."""

    loss: Float[Array, ""]
    """The label loss on the validation part, after the inner loop."""
    grads: PyTree[Any]
    """Of the teacher's arrays of floats; None for its other leaves."""
    inner: Adapted
    """The outcome of the inner loop; its student is only hypothetical."""


def meta_gradient(
    teacher: Any,
    student: Any,
    batches: PrivilegedExamples,
    validation: PrivilegedExamples,
    *,
    lesson: Lesson,
    training: TeacherTraining,
    optimizer: optax.GradientTransformation,
    opt_state: PyTree[Any] = None,
) -> MetaGradient:
    """Unrolls an inner loop from the student's weights and differentiates through it.

    Args:
        teacher: a `Teacher`; all its arrays of floats are differentiated.
        student: where the loop starts; it is not changed.
        batches: of the inner steps: arrays have leading axes of steps and examples.
        validation: all examples that judge the teacher.
        lesson: what the student is trained on.
        training: how the loop is differentiated; its optimizers are not used here.
        optimizer: of the inner loop.
        opt_state: where the inner optimizer starts; None: afresh.
    """
    learned, rest = eqx.partition(teacher, eqx.is_inexact_array)

    def validation_loss(learned: Any) -> tuple[Float[Array, ""], Adapted]:
        inner = inner_loop(
            eqx.combine(learned, rest),
            student,
            batches,
            lesson=lesson,
            training=training,
            optimizer=optimizer,
            opt_state=opt_state,
        )
        return lesson.label_loss(inner.params, validation), inner

    (loss, inner), grads = jax.value_and_grad(validation_loss, has_aux=True)(learned)
    return MetaGradient(loss, grads, inner)


def inner_loop(
    teacher: Any,
    student: Any,
    batches: PrivilegedExamples,
    *,
    lesson: Lesson,
    training: TeacherTraining,
    optimizer: optax.GradientTransformation,
    opt_state: PyTree[Any] = None,
) -> Adapted:
    """Takes the hypothetical steps of a student with this teacher; see `meta_gradient`."""

    def loss(student: Any, batch: tuple[PrivilegedExamples, Any]) -> Float[Array, ""]:
        examples, targets = batch
        if not training.hoist:
            targets = targets_of(teacher, examples.privileged)
        return lesson.loss(student, examples, targets)

    targets = None
    if training.hoist:
        targets = jax.vmap(lambda privileged: targets_of(teacher, privileged))(batches.privileged)
        batches = batches._replace(privileged=None)
    parts = (batches, targets)
    if training.last_steps is None:
        return adapt(
            loss,
            student,
            optimizer,
            batches=parts,
            order=training.order,
            keep=training.keep,
            opt_state=opt_state,
            packed=training.packed,
        )
    steps = jax.tree.leaves(parts)[0].shape[0]
    first = jax.tree.map(lambda x: x[: steps - training.last_steps], parts)
    before = adapt(
        loss,
        student,
        optimizer,
        num_steps=steps - training.last_steps,
        batches=jax.lax.stop_gradient(first),
        opt_state=opt_state,
        order="first",
    )
    arrays, static = eqx.partition(before, eqx.is_array)
    before = eqx.combine(jax.lax.stop_gradient(arrays), static)
    after = adapt(
        loss,
        before.params,
        optimizer,
        batches=jax.tree.map(lambda x: x[steps - training.last_steps :], parts),
        order=training.order,
        keep=training.keep,
        opt_state=before.opt_state,
    )
    return after._replace(
        losses=jnp.concatenate([before.losses, after.losses]), finite=before.finite & after.finite
    )


class Sanitized(NamedTuple):
    """A gradient that can be followed, and how much of it had to be changed."""

    grads: PyTree[Any]
    clipped: Int[Array, ""]
    """Components beyond the bound."""
    replaced: Int[Array, ""]
    """Components that were not numbers, and are 0 now."""


def sanitize(grads: PyTree[Any], clip: float | Float[Array, ""]) -> Sanitized:
    """Zeroes components that are not numbers, and clips the others to ± `clip`.

    An array without a single number stays as it is: then something is wrong, and a run must end.

    Example:
        >>> import jax.numpy as jnp
        >>> found = sanitize([jnp.array([1.0, jnp.nan, -7.0])], 5.0)
        >>> found.grads[0].tolist(), int(found.clipped), int(found.replaced)
        ([1.0, 0.0, -5.0], 1, 1)
    """
    clipped, replaced, cleaned = jnp.int32(0), jnp.int32(0), []
    leaves, tree = jax.tree.flatten(grads)
    for leaf in leaves:
        is_nan = jnp.isnan(leaf)
        is_hopeless = jnp.all(is_nan)
        replaced += jnp.sum(is_nan & ~is_hopeless, dtype=jnp.int32)
        clipped += jnp.sum(jnp.abs(leaf) > clip, dtype=jnp.int32)
        bound = jnp.asarray(clip, leaf.dtype)
        tame = jnp.clip(jnp.where(is_nan, 0.0, leaf), -bound, bound)
        cleaned.append(jnp.where(is_hopeless, leaf, tame))
    return Sanitized(tree.unflatten(cleaned), clipped, replaced)
