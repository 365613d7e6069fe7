"""The inner loop of one task: on its support, on a few of its rows, or on new examples."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.adaptation import Adapted, adapt
from recombine.methods.hypernetworks._gauss_newton import solve
from recombine.methods.hypernetworks._interface import Objective
from recombine.methods.hypernetworks._loops import InnerLoop
from recombine.methods.hypernetworks._shared_features import SharedFeatures


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

    def on_fresh(key: Any) -> tuple[Any, Any, Any]:
        assert fresh is not None
        drawn = fresh(key)
        return model.read(drawn.inputs), drawn.targets, drawn.weights

    def on_all(_: Any) -> tuple[Any, Any, Any]:
        return features, support.targets, support.weights

    def on_weighted(weights: Any) -> tuple[Any, Any, Any]:
        return features, support.targets, weights

    def on_rows(rows: Any) -> tuple[Any, Any, Any]:
        return rows

    steps, size = loop.num_steps, loop.batch_size
    rows_of: Callable[[Any], tuple[Any, Any, Any]]
    if fresh is not None:
        rows_of, batches = on_fresh, jr.split(batch_key, steps)
    elif size is None:
        rows_of, batches = on_all, None
    elif loop.minibatch_by == "weights":
        rows_of, batches = on_weighted, draw_weights(batch_key, steps, size, support)
    else:
        chosen = jr.randint(batch_key, (steps, size), 0, support.inputs.shape[0])
        rows = (features, support.targets, support.weights)
        rows_of, batches = on_rows, jax.tree.map(lambda array: array[chosen], rows)

    if loop.optimizer == "gauss-newton":
        still = jax.lax.stop_gradient(model)

        def residuals(task: Any, batch: Any) -> Float[Array, " errors"]:
            features, targets, weights = jax.lax.stop_gradient(rows_of(batch))
            outputs = still.predict(task, features)
            return objective.residuals(outputs, targets, weights)  # pyright: ignore[reportAttributeAccessIssue]

        return solve(
            residuals,
            start,
            num_steps=steps,
            batches=batches,
            rate=loop.learning_rate,
            damping=loop.damping,
            pull=loop.pull,
        )

    # Where all steps see the same features, their gradient need not be added up step by step.
    shares = hasattr(model, "make_slots") and rows_of in (on_all, on_weighted)
    slots_of_steps = model.make_slots(features, steps) if shares else None
    still: Any = jax.lax.stop_gradient(features)

    def loss(task: Any, batch_and_slots: Any) -> Float[Array, ""]:
        batch, slots = batch_and_slots
        features, targets, weights = rows_of(batch)
        features = SharedFeatures(still, slots) if shares else features
        return objective.loss(model.predict(task, features), targets, weights)

    return adapt(
        loss,
        start,
        loop.transformation(),
        num_steps=steps,
        batches=(batches, slots_of_steps),
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
