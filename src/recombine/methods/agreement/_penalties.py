r"""Objectives that penalize what differs between environments: IRM, V-REx and Fishr.

Each adds a penalty to the mean of the environments' losses,

$$\frac{1}{d}\sum_e R_e + \lambda\, P$$

and holds $\lambda$ back at the start, while there is nothing yet to be invariant about. DomainBed
also starts Adam anew when $\lambda$ jumps; we do not.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from recombine.methods.agreement._environments import LabelledEnvironments
from recombine.methods.agreement._methods import Found, Problem, Seen, gradient_of
from recombine.methods.agreement._objectives import Objective

BEFORE = 1.0
"""The weight of the penalty of IRM and V-REx before annealing ends, as in their authors' code."""


class IRM(eqx.Module):
    r"""Invariant risk minimization, in the form IRMv1 (Arjovsky et al. 2019, Eq. IRMv1).

    $$P = \frac{1}{d}\sum_e \Big(\frac{\partial}{\partial w} R_e(w \cdot f)\Big|_{w=1}\Big)^2$$

    The same scale of the outputs f should be best in every environment. As in the authors' code
    the whole objective is divided by $\lambda$ where that is above 1, which matters only in
    proportion to other regularizers.
    """

    weight: Float[Array, ""] = eqx.field(converter=jnp.float32, default=100.0)
    anneal_steps: Int[Array, ""] = eqx.field(converter=jnp.int32, default=0)

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
        """Returns the gradient of the penalized objective."""

        def total(seen: Seen) -> Any:
            slopes = scale_gradients(problem.objective, seen.logits, seen.labels)
            penalty = jnp.mean(slopes**2)
            weight = jnp.where(step < self.anneal_steps, BEFORE, self.weight)
            value = (jnp.mean(seen.losses) + weight * penalty) / jnp.maximum(weight, 1.0)
            return value, (None, {"penalty": penalty})

        return gradient_of(total, problem, model, batches, key)


class VREx(eqx.Module):
    r"""Risk extrapolation: the variance of the environments' losses (Krueger et al. 2021, Eq. 8).

    $$P = \frac{1}{d}\sum_e (R_e - \bar R)^2$$
    """

    weight: Float[Array, ""] = eqx.field(converter=jnp.float32, default=10.0)
    anneal_steps: Int[Array, ""] = eqx.field(converter=jnp.int32, default=0)

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
        """Returns the gradient of the penalized objective."""

        def total(seen: Seen) -> Any:
            penalty = jnp.var(seen.losses)
            weight = jnp.where(step < self.anneal_steps, BEFORE, self.weight)
            return jnp.mean(seen.losses) + weight * penalty, (None, {"penalty": penalty})

        return gradient_of(total, problem, model, batches, key)


class Fishr(eqx.Module):
    r"""Matches the variances of gradients over environments (Ramé et al. 2022, Eq. 4).

    $$P = \frac{1}{d}\sum_e \lVert v_e - \bar v \rVert^2$$

    where $v_e$ is the variance, over the examples of environment e, of their gradients in the
    output layer. Variances are averaged over steps with weight `ema` on the past, and then divided
    by 1 - `ema`, so that the gradient of the newest batch keeps its size. The penalty is off during
    the first `anneal_steps` steps. The variance divides by n, as DomainBed's does; the paper prints
    n - 1.
    """

    weight: Float[Array, ""] = eqx.field(converter=jnp.float32, default=1000.0)
    anneal_steps: Int[Array, ""] = eqx.field(converter=jnp.int32, default=0)
    ema: Float[Array, ""] = eqx.field(converter=jnp.float32, default=0.95)

    def init(self, model: Any, num_envs: int) -> Float[Array, "envs parameters"]:
        """Returns the average variances before the first step: none."""
        units, outputs = model.weights[-1].shape
        return jnp.zeros((num_envs, (units + 1) * outputs))

    def gradient(
        self,
        problem: Problem,
        model: Any,
        batches: LabelledEnvironments,
        state: Float[Array, "envs parameters"],
        *,
        step: Int[Array, ""],
        key: PRNGKeyArray,
    ) -> Found:
        """Returns the gradient of the penalized objective."""

        def total(seen: Seen) -> Any:
            averages = self.ema * state + (1 - self.ema) * head_variances(problem.objective, seen)
            scaled = averages / (1 - self.ema)
            distances = jnp.sum((scaled - jnp.mean(scaled, axis=0, keepdims=True)) ** 2, axis=1)
            penalty = jnp.mean(distances)
            weight = jnp.where(step < self.anneal_steps, 0.0, self.weight)
            value = jnp.mean(seen.losses) + weight * penalty
            return value, (jax.lax.stop_gradient(averages), {"penalty": penalty})

        return gradient_of(total, problem, model, batches, key)


def scale_gradients(
    objective: Objective,
    logits: Float[Array, "envs examples outputs"],
    labels: Shaped[Array, "envs examples"],
) -> Float[Array, " envs"]:
    """Returns how the loss of each environment changes when its outputs are scaled, at scale 1.

    Example:
        >>> import jax.numpy as jnp
        >>> from recombine.methods.agreement import REGRESSION
        >>> outputs, targets = jnp.array([[[2.0]], [[3.0]]]), jnp.array([[2.0], [1.0]])
        >>> scale_gradients(REGRESSION, outputs, targets).tolist()  # d/dw (w f - y)²
        [0.0, 12.0]
    """

    def loss(scale: Float[Array, ""], logits: Array, labels: Array) -> Float[Array, ""]:
        return jnp.mean(jax.vmap(objective.loss)(scale * logits, labels))

    return jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(jnp.float32(1.0), logits, labels)


def head_variances(objective: Objective, seen: Seen) -> Float[Array, "envs parameters"]:
    """Returns the variance over examples of each output-layer gradient, in every environment.

    The gradient of an example is the outer product of what the loss asks of its outputs and what
    the layer reads (and 1, for the biases), so that squares and means need no gradient of a single
    example: the variance is E[δ² x²] - (E[δ x])².
    """
    asked = jax.vmap(jax.vmap(jax.grad(objective.loss)))(seen.logits, seen.labels)
    ones = jnp.ones((*seen.labels.shape, 1), seen.features.dtype)
    read = jnp.concatenate([seen.features, ones], axis=-1)
    examples = seen.labels.shape[1]

    def moment(power: int) -> Float[Array, "envs units outputs"]:
        return jnp.einsum("enu,eno->euo", read**power, asked**power) / examples

    return (moment(2) - moment(1) ** 2).reshape(len(asked), -1)
