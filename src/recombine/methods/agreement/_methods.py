"""What can be made of the batches of several environments: one gradient.

A method either computes the gradient of every environment and joins them (`JoinGradients`, by the
AND-mask, the geometric mean or the plain mean), or follows the gradient of one objective over the
losses of all environments (`Pooled`, and the penalties beside). Learners know only `Method`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree, Shaped

from recombine.methods.agreement._aggregators import AndMask
from recombine.methods.agreement._environments import LabelledEnvironments
from recombine.methods.agreement._gradients import environment_gradients
from recombine.methods.agreement._network import split_running
from recombine.methods.agreement._objectives import Objective

Metrics = dict[str, Float[Array, ""]]


class Seen(NamedTuple):
    """What a network in training makes of one batch of every environment."""

    losses: Float[Array, " envs"]
    logits: Float[Array, "envs examples outputs"]
    features: Float[Array, "envs examples units"]
    labels: Shaped[Array, "envs examples"]
    model: Any  # with its running statistics moved on


class Problem(NamedTuple):
    """How outputs are judged, and how units are dropped on the way to them."""

    objective: Objective
    dropout: Float[Array, ""] | None = None

    def look(self, model: Any, batches: LabelledEnvironments, key: PRNGKeyArray) -> Seen:
        """Passes all environments through the network as one batch, and parts them again."""
        envs, examples = batches.labels.shape
        flat = batches.inputs.reshape(envs * examples, *batches.inputs.shape[2:])
        passed = model.train_pass(flat, key=key, dropout=self.dropout)
        logits = passed.logits.reshape(envs, examples, -1)
        losses = jnp.mean(jax.vmap(jax.vmap(self.objective.loss))(logits, batches.labels), axis=1)
        features = passed.features.reshape(envs, examples, -1)
        return Seen(losses, logits, features, batches.labels, passed.model)


class Found(NamedTuple):
    """The gradient to follow, and what was learned on the way."""

    grads: PyTree[Any]
    losses: Float[Array, " envs"]
    running: PyTree[Any]  # the statistics of the network after this batch
    state: Any  # of the method
    metrics: Metrics


class Method(Protocol):
    """A way to train on several environments."""

    def init(self, model: Any, num_envs: int) -> Any:
        """Returns what the method remembers from step to step; it may be None."""
        ...

    def gradient(
        self,
        problem: Problem,
        model: Any,
        batches: LabelledEnvironments,
        state: Any,
        *,
        step: Int[Array, ""],
        key: PRNGKeyArray,
    ) -> Found:
        """Returns one gradient for what is learned in `model`."""
        ...


class JoinGradients(eqx.Module):
    """Computes a gradient in every environment, and joins them by a rule such as `and_mask`.

    Without batch norm each environment is a problem of its own. With it the gradient of one
    environment's loss reaches the examples of all others through the statistics that they share,
    as in the authors' code: one pass forward, one back for every environment.
    """

    rule: optax.GradientTransformation | AndMask

    def init(self, model: Any, num_envs: int) -> Any:
        """Returns the rule's state: the shares that it kept."""
        return self.rule.init(split_running(model)[0])

    def gradient(
        self,
        problem: Problem,
        model: Any,
        batches: LabelledEnvironments,
        state: Any,
        *,
        step: Int[Array, ""],
        key: PRNGKeyArray,
    ) -> Found:
        """Joins the gradients of the environments."""
        params, running = split_running(model)
        if jax.tree.leaves(running):
            losses, grads, running = _coupled(problem, params, running, batches, key)
        else:
            losses, grads = _separate(problem, params, running, batches, key)
        grads, state = self.rule.update(grads, state, params)
        return Found(grads, losses, running, state, kept_metrics(state.kept, params))


class Pooled(eqx.Module):
    """Follows the mean of the environments' losses: plain training."""

    def init(self, model: Any, num_envs: int) -> None:
        """Remembers nothing."""

    def gradient(
        self,
        problem: Problem,
        model: Any,
        batches: LabelledEnvironments,
        state: None,
        *,
        step: Int[Array, ""],
        key: PRNGKeyArray,
    ) -> Found:
        """Returns the gradient of the mean loss."""

        def total(seen: Seen) -> Any:
            return jnp.mean(seen.losses), (None, {})

        return gradient_of(total, problem, model, batches, key)


def gradient_of(
    total: Callable[[Seen], tuple[Float[Array, ""], tuple[Any, Metrics]]],
    problem: Problem,
    model: Any,
    batches: LabelledEnvironments,
    key: PRNGKeyArray,
) -> Found:
    """Returns the gradient of one number that is computed from all environments together.

    Args:
        total: from what the network makes of the batches to (the number, (the method's new
            state, metrics)).
        problem: how outputs are judged.
        model: the network.
        batches: one batch of every environment.
        key: of dropout.
    """
    params, running = split_running(model)

    def objective(params: PyTree[Any]) -> Any:
        seen = problem.look(eqx.combine(params, running), batches, key)
        value, (state, metrics) = total(seen)
        return value, (seen.losses, split_running(seen.model)[1], state, metrics)

    grads, (losses, moved, state, metrics) = jax.grad(objective, has_aux=True)(params)
    return Found(grads, losses, moved, state, metrics)


def layer_names(params: PyTree[Any]) -> list[str]:
    """Returns a name for every layer: by its number where parameters stand in lists."""
    paths = [path for path, _ in jax.tree_util.tree_leaves_with_path(params)]
    return list(dict.fromkeys(map(_layer_of, paths)))


def kept_metrics(kept: PyTree[Float[Array, ""]], params: PyTree[Any]) -> Metrics:
    """Returns which share of all components a rule kept, and which of each layer's.

    A layer is its weights and biases together; `kept/layer1` is the one that reads the inputs.
    """
    sizes: dict[str, int] = {}
    counts: dict[str, Any] = {}
    leaves = zip(jax.tree_util.tree_leaves_with_path(params), jax.tree.leaves(kept), strict=True)
    for (path, leaf), share in leaves:
        name = _layer_of(path)
        sizes[name] = sizes.get(name, 0) + leaf.size
        counts[name] = counts.get(name, 0.0) + share * leaf.size
    total = jnp.sum(jnp.stack(list(counts.values()))) / sum(sizes.values())
    return {"kept": total, **{f"kept/{name}": counts[name] / sizes[name] for name in sizes}}


def _layer_of(path: tuple[Any, ...]) -> str:
    for part in path:
        if isinstance(part, jax.tree_util.SequenceKey):
            return f"layer{part.idx + 1}"
    return jax.tree_util.keystr(path, simple=True, separator=".") or "all"


def _separate(
    problem: Problem,
    params: PyTree[Any],
    running: PyTree[Any],
    batches: LabelledEnvironments,
    key: PRNGKeyArray,
) -> tuple[Float[Array, " envs"], PyTree[Any]]:
    def loss(params: PyTree[Any], batch: tuple[Array, Array, PRNGKeyArray]) -> Float[Array, ""]:
        inputs, labels, key = batch
        model: Any = eqx.combine(params, running)
        passed = model.train_pass(inputs, key=key, dropout=problem.dropout)
        return jnp.mean(jax.vmap(problem.objective.loss)(passed.logits, labels))

    keys = jr.split(key, len(batches.labels))
    return environment_gradients(loss, params, (*batches, keys))


def _coupled(
    problem: Problem,
    params: PyTree[Any],
    running: PyTree[Any],
    batches: LabelledEnvironments,
    key: PRNGKeyArray,
) -> tuple[Float[Array, " envs"], PyTree[Any], PyTree[Any]]:
    def all_losses(params: PyTree[Any]) -> tuple[Float[Array, " envs"], PyTree[Any]]:
        seen = problem.look(eqx.combine(params, running), batches, key)
        return seen.losses, split_running(seen.model)[1]

    losses, pull_back, moved = jax.vjp(all_losses, params, has_aux=True)
    one_each = jnp.eye(len(losses), dtype=losses.dtype)
    # A pass back over all examples is work enough for any device: environments take turns.
    return losses, jax.lax.map(lambda one: pull_back(one)[0], one_each), moved
