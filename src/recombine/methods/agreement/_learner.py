"""Training on several environments (Neitz, thesis, §3.3.1).

A step takes one batch from environments, lets a method turn them into one gradient, and follows it.
The regularizer is added after the mask and before the optimizer, as in the authors' code: the mask
sees the gradient of the data alone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from recombine.methods._numbers import optional_number
from recombine.methods.agreement._batches import Batches, Groups
from recombine.methods.agreement._descent import Optimizer
from recombine.methods.agreement._environments import LabelledExamples, Source, Split
from recombine.methods.agreement._methods import (
    JoinGradients,
    Method,
    Pooled,
    Problem,
    layer_names,
)
from recombine.methods.agreement._network import Network, split_running
from recombine.methods.agreement._objectives import Objective

TRACED = 100
"""At so many moments of a run, at most, what the mask kept is remembered for a picture."""

MEASURED_TOGETHER = 32
"""Training accuracy is measured so many environments at a time, to save memory."""


class AgreementTraining(NamedTuple):
    """The state of one seed."""

    model: Any
    optimizer: Any
    method: Any
    drawn: Any  # the data set, where every seed has its own
    order: Int[Array, "envs examples"] | None  # of this epoch
    step: Int[Array, ""]
    trace: Float[Array, "moments layers"] | None  # the share of each layer that was kept


class AgreementLearner(eqx.Module):
    """A network, a method that makes one gradient of many environments, and an optimizer.

    Numbers that only scale are array leaves of the parts, so that one compiled program serves all
    their values.
    """

    source: Source
    network: Callable[[PRNGKeyArray], Network] = eqx.field(static=True)
    objective: Objective = eqx.field(static=True)
    method: Method
    batches: Batches = eqx.field(static=True)
    optimizer: Optimizer
    dropout: Float[Array, ""] | None = eqx.field(converter=optional_number, default=None)
    probe: Float[Array, " *grid features"] | None = None  # inputs worth a picture of the logits
    trace_steps: int = eqx.field(static=True, default=0)  # the length of the run, to trace masks

    def init(self, key: PRNGKeyArray) -> AgreementTraining:
        """Draws the data, if they are to be drawn, and the network."""
        data_key, model_key = jr.split(key)
        drawn = self.source.draw(data_key)
        train = self.source.split(drawn).train
        order = self.batches.init(train)
        if isinstance(self.batches, Groups) and not isinstance(self.method, JoinGradients | Pooled):
            raise ValueError(
                f"`Groups` draws other environments in every step, and "
                f"{type(self.method).__name__} must know which is which; use `Epochs`"
            )
        model = self.network(model_key)
        params, _ = split_running(model)
        return AgreementTraining(
            model=model,
            optimizer=self.optimizer.transformation().init(params),
            method=self.method.init(model, len(train.labels)),
            drawn=drawn,
            order=order,
            step=jnp.int32(0),
            trace=self._empty_trace(params),
        )

    def step(
        self, state: AgreementTraining, key: PRNGKeyArray
    ) -> tuple[AgreementTraining, dict[str, Float[Array, ""]]]:
        """Takes one batch from every environment and makes one update."""
        train = self.source.split(state.drawn).train
        order, batches = self.batches.next(train, state.order, state.step, key)  # pyright: ignore[reportArgumentType]
        found = self.method.gradient(
            Problem(self.objective, self.dropout),
            state.model,
            batches,
            state.method,
            step=state.step,
            key=jr.fold_in(key, 1),  # `key` itself made the order
        )
        params, _ = split_running(state.model)
        updates, optimizer = self.optimizer.transformation().update(
            found.grads, state.optimizer, params
        )
        new = AgreementTraining(
            model=eqx.combine(eqx.apply_updates(params, updates), found.running),
            optimizer=optimizer,
            method=found.state,
            drawn=state.drawn,
            order=order,
            step=state.step + 1,
            trace=self._traced(state, params, found.metrics),
        )
        return new, {"loss": jnp.mean(found.losses), **found.metrics}

    def evaluate(self, state: AgreementTraining, key: PRNGKeyArray) -> dict[str, Float[Array, ""]]:
        """Returns the score on the test examples and on all training examples."""
        split: Split = self.source.split(state.drawn)
        in_each = jax.lax.map(
            lambda env: self.score(state.model, LabelledExamples(*env)),
            split.train,
            batch_size=min(MEASURED_TOGETHER, len(split.train.labels)),
        )
        name = self.objective.score_name
        return {
            f"test_{name}": self.score(state.model, split.test),
            f"train_{name}": jnp.mean(in_each),
        }

    def score(self, model: Any, examples: LabelledExamples) -> Float[Array, ""]:
        """Returns the mean score of a network on some examples."""
        return jnp.mean(
            jax.vmap(self.objective.score)(jax.vmap(model)(examples.inputs), examples.labels)
        )

    def inspect(self, state: AgreementTraining, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns the logits on the probe, and what the mask kept of each layer over time."""
        shown: dict[str, Array] = {}
        if self.probe is not None:
            flat = self.probe.reshape(-1, self.probe.shape[-1])
            logits = jax.vmap(state.model)(flat)
            shown["probe_logits"] = logits.reshape(*self.probe.shape[:-1], -1)
            shown["probe_reach"] = jnp.max(self.probe[..., 0])
        if state.trace is not None:
            moments = len(state.trace)
            shown["kept_by_layer"] = state.trace
            shown["kept_steps"] = (jnp.arange(moments) + 1) * self.trace_steps // moments
        return shown

    def _empty_trace(self, params: PyTree[Any]) -> Float[Array, "moments layers"] | None:
        if not self.trace_steps:
            return None
        return jnp.zeros((min(TRACED, self.trace_steps), len(layer_names(params))))

    def _traced(
        self, state: AgreementTraining, params: PyTree[Any], metrics: dict[str, Float[Array, ""]]
    ) -> Float[Array, "moments layers"] | None:
        if state.trace is None:
            return None
        kept = jnp.stack([metrics[f"kept/{name}"] for name in layer_names(params)])
        moments = len(state.trace)
        moment = jnp.minimum(state.step * moments // self.trace_steps, moments - 1)
        return state.trace.at[moment].set(kept)  # the last step of a moment stays
