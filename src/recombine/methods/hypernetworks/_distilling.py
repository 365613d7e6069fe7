"""Teaching an encoder what gradient descent infers: amortised inference with a teacher.

An encoder that is trained by the loss of its answers alone has to find out, together with the
modules, what embeddings should mean. Descent from the learned start needs no encoder for that. So
it is run beside the encoder in training, and the encoder is drawn towards what it found. Afterwards
the encoder does in one pass what took many steps.

Three losses are added up: that of the encoder's answer on the queries, that of the embedding which
descent found, and the distance between the two embeddings. The last one teaches the encoder alone:
what was found is a constant to it, and so is the start that the encoder's answer is added to.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from recombine.methods.hypernetworks._amortised import AmortisedHyperNetwork
from recombine.methods.hypernetworks._descending import descend
from recombine.methods.hypernetworks._hypernetwork import TaskEmbedding
from recombine.methods.hypernetworks._interface import FewShotTask, Objective
from recombine.methods.hypernetworks._loops import InnerLoop


def _number(value: Any) -> Float[Array, ""]:
    return jnp.asarray(value, jnp.float32)


class Distillation(eqx.Module):
    """How an encoder learns from the embeddings that gradient descent infers."""

    weight: Float[Array, ""] = eqx.field(converter=_number, default=1.0)
    """Of the distance between the two embeddings."""
    descent: InnerLoop = eqx.field(default_factory=InnerLoop)
    """What finds embeddings, from the start that all tasks share."""

    def __check_init__(self) -> None:
        if self.descent.num_steps < 1:
            raise ValueError(
                f"descent without steps infers nothing: its `num_steps` must be at least 1; got "
                f"{self.descent.num_steps}"
            )


class Lesson(NamedTuple):
    """What a task has to teach an encoder."""

    loss: Float[Array, ""]
    """Of the queries, with the embedding that descent found."""
    distance: Float[Array, ""]
    """Between that embedding and the encoder's answer."""
    finite: Bool[Array, ""]
    """Whether descent stayed finite."""


def give_lesson(
    distillation: Distillation,
    model: AmortisedHyperNetwork,
    objective: Objective,
    task: FewShotTask,
    *,
    key: PRNGKeyArray,
) -> Lesson:
    """Infers the embedding of a task by descent, and compares the encoder's answer with it."""
    support, query = task.support, task.query
    taught = model.hypernetwork
    num_outputs = taught.num_outputs
    found = descend(
        distillation.descent,
        objective,
        taught,
        support,
        taught.read(support.inputs),
        None,
        num_outputs=num_outputs,
        key=key,
    )
    outputs = taught.predict(found.params, taught.read(query.inputs))
    pupil = eqx.tree_at(lambda m: m.hypernetwork, model, jax.lax.stop_gradient(taught))
    described = objective.describe(support.targets, num_outputs)
    answer = pupil.start(support.inputs, described, support.weights, key=key)
    return Lesson(
        objective.loss(outputs, query.targets, query.weights),
        embedding_distance(answer, jax.lax.stop_gradient(found.params)),
        found.finite,
    )


def embedding_distance(one: TaskEmbedding, other: TaskEmbedding) -> Float[Array, ""]:
    """Returns one minus the cosine between rows, the mean over all rows.

    A hypernetwork uses the direction of a row and not its length, so lengths may differ.
    """

    def cosines(one: Float[Array, "rows size"], other: Float[Array, "rows size"]) -> Array:
        lengths = jnp.sum(jnp.square(one), axis=-1) * jnp.sum(jnp.square(other), axis=-1)
        return jnp.sum(one * other, axis=-1) / jnp.sqrt(lengths + 1e-12)

    pairs = zip(one[:3], other[:3], strict=True)  # input, hidden and output rows
    return 1 - jnp.mean(jnp.concatenate([cosines(a, b) for a, b in pairs]))
