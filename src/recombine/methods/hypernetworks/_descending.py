"""The inner loop of one task: on its support, on a few of its rows, or on new examples."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.adaptation import Adapted, adapt
from recombine.methods.hypernetworks._interface import Objective
from recombine.methods.hypernetworks._loops import InnerLoop

Loss = Callable[[Any, Any], Float[Array, ""]]


def descend(
    loop: InnerLoop,
    objective: Objective,
    model: Any,
    support: Any,
    features: Float[Array, "rows features"] | None,
    fresh: Callable[[PRNGKeyArray], Any] | None,
    *,
    num_outputs: int,
    key: PRNGKeyArray,
) -> Adapted:
    """Adapts a model's task parameters.

    Args:
        loop: the settings.
        objective: the loss.
        model: a `FewShotModel`.
        support: the task's `Examples`; with `fresh`, only what the start is made from.
        features: what the model reads in the support's inputs; not needed with `fresh`.
        fresh: draws new examples for a step, instead of the support.
        num_outputs: the width of the model's outputs.
        key: of the start and of what the steps draw.
    """
    start_key, batch_key = jr.split(key)
    described = objective.describe(support.targets, num_outputs)
    start = model.start(support.inputs, described, support.weights, key=start_key)

    def loss_of(task: Any, features: Any, targets: Any, weights: Any) -> Float[Array, ""]:
        return objective.loss(model.predict(task, features), targets, weights)

    def on_fresh(task: Any, key: Any) -> Float[Array, ""]:
        assert fresh is not None
        drawn = fresh(key)
        return loss_of(task, model.read(drawn.inputs), drawn.targets, drawn.weights)

    def on_all(task: Any, _: Any) -> Float[Array, ""]:
        return loss_of(task, features, support.targets, support.weights)

    def on_weighted(task: Any, weights: Any) -> Float[Array, ""]:
        return loss_of(task, features, support.targets, weights)

    def on_rows(task: Any, rows: Any) -> Float[Array, ""]:
        return loss_of(task, *rows)

    steps, size = loop.num_steps, loop.batch_size
    loss: Loss
    if fresh is not None:
        loss, batches = on_fresh, jr.split(batch_key, steps)
    elif size is None:
        loss, batches = on_all, None
    elif loop.minibatch_by == "weights":
        loss, batches = on_weighted, draw_weights(batch_key, steps, size, support)
    else:
        chosen = jr.randint(batch_key, (steps, size), 0, support.inputs.shape[0])
        rows = (features, support.targets, support.weights)
        loss, batches = on_rows, jax.tree.map(lambda array: array[chosen], rows)
    return adapt(
        loss,
        start,
        loop.transformation(),
        num_steps=steps,
        batches=batches,
        order=loop.order,
        keep=loop.keep,
    )


def draw_weights(
    key: PRNGKeyArray, num_steps: int, size: int, support: Any
) -> Float[Array, "steps rows"]:
    """Draws `size` rows with replacement for every step, as how often each was drawn.

    A row that does not count in the support does not count here either.
    """
    count = support.inputs.shape[0]
    rows = jr.randint(key, (num_steps, size), 0, count)
    drawn = jax.vmap(lambda step: jnp.bincount(step, length=count))(rows)
    weights = drawn.astype(support.inputs.dtype)
    return weights if support.weights is None else weights * support.weights[None]
