"""Training on several environments with a rule that joins their gradients (Neitz, thesis, §3.3.1).

A step takes one batch from every environment; an epoch visits every example of every environment
once, in a fresh order, and drops the last partial batch. The regulariser is added after the mask
and before the optimizer, as in the authors' code: the mask sees the gradient of the data alone.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recombine.methods.agreement._environments import Source, Split
from recombine.methods.agreement._gradients import environment_gradients
from recombine.methods.agreement._network import MLP, MLPShape
from recombine.methods.agreement._objectives import Objective


class AgreementTraining(NamedTuple):
    """The state of one seed."""

    model: MLP
    optimizer: Any
    drawn: Any  # the data set, where every seed has its own
    order: Int[Array, "envs examples"]  # of this epoch
    step: Int[Array, ""]


class AgreementLearner(eqx.Module):
    """A classifier trained with an environment-wise gradient rule and Adam.

    Numbers that only scale are array leaves, so that one compiled program serves all their values.
    """

    source: Source
    network: MLPShape = eqx.field(static=True)
    objective: Objective = eqx.field(static=True)
    aggregator: optax.GradientTransformation = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)  # per environment
    decay_steps: tuple[int, ...] = eqx.field(static=True)  # where the learning rate falls tenfold
    learning_rate: Float[Array, ""] = eqx.field(converter=jnp.float32)
    l2: Float[Array, ""] = eqx.field(converter=jnp.float32)
    probe: Float[Array, " *grid features"] | None = None  # inputs worth a picture of the logits

    def init(self, key: PRNGKeyArray) -> AgreementTraining:
        """Draws the data, if they are to be drawn, and the network."""
        data_key, model_key = jr.split(key)
        drawn = self.source.draw(data_key)
        labels = self.source.split(drawn).train.labels
        if self.batch_size > labels.shape[1]:
            raise ValueError(
                f"`batch_size` is per environment and must not exceed its {labels.shape[1]} "
                f"examples; got {self.batch_size}"
            )
        model = self.network(model_key)
        return AgreementTraining(
            model=model,
            optimizer=self._optimizer().init(model),
            drawn=drawn,
            order=jnp.zeros(labels.shape, jnp.int32),
            step=jnp.int32(0),
        )

    def step(
        self, state: AgreementTraining, key: PRNGKeyArray
    ) -> tuple[AgreementTraining, dict[str, Float[Array, ""]]]:
        """Takes one batch from every environment and makes one update."""
        train = self.source.split(state.drawn).train
        order, batches = self._next_batches(train, state, key)
        losses, grads = environment_gradients(self._batch_loss, state.model, batches)
        updates, optimizer = self._optimizer().update(grads, state.optimizer, state.model)
        model = eqx.apply_updates(state.model, updates)
        metrics = {"loss": jnp.mean(losses), "kept": _kept_fraction(optimizer[0].kept, state.model)}
        new = AgreementTraining(model, optimizer, state.drawn, order, state.step + 1)
        return new, metrics

    def evaluate(self, state: AgreementTraining, key: PRNGKeyArray) -> dict[str, Float[Array, ""]]:
        """Returns the accuracy on all training examples and on the test examples."""
        split: Split = self.source.split(state.drawn)
        envs, examples = split.train.labels.shape
        inputs = split.train.inputs.reshape(envs * examples, *split.train.inputs.shape[2:])
        return {
            "test_accuracy": self._accuracy(state.model, *split.test),
            "train_accuracy": self._accuracy(state.model, inputs, split.train.labels.reshape(-1)),
        }

    def inspect(self, state: AgreementTraining, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns the logits on the probe."""
        if self.probe is None:
            return {}
        flat = self.probe.reshape(-1, self.probe.shape[-1])
        logits = jax.vmap(state.model)(flat)
        return {"probe_logits": logits.reshape(*self.probe.shape[:-1], -1)}

    def _optimizer(self) -> Any:
        schedule = optax.piecewise_constant_schedule(
            self.learning_rate,  # pyright: ignore[reportArgumentType]
            dict.fromkeys(self.decay_steps, 0.1),
        )
        return optax.chain(
            self.aggregator, optax.add_decayed_weights(self.l2), optax.adam(schedule)
        )

    def _batch_loss(self, model: MLP, batch: tuple[Array, Array]) -> Float[Array, ""]:
        inputs, labels = batch
        return jnp.mean(jax.vmap(self.objective.loss)(jax.vmap(model)(inputs), labels))

    def _accuracy(
        self,
        model: MLP,
        inputs: Float[Array, " examples *features"],
        labels: Int[Array, " examples"],
    ) -> Float[Array, ""]:
        return jnp.mean(jax.vmap(self.objective.is_right)(jax.vmap(model)(inputs), labels))

    def _next_batches(
        self, train: Any, state: AgreementTraining, key: PRNGKeyArray
    ) -> tuple[Int[Array, "envs examples"], tuple[Array, Array]]:
        envs, examples = train.labels.shape
        position = state.step % (examples // self.batch_size)

        def shuffle() -> Int[Array, "envs examples"]:
            keys = jr.split(key, envs)
            return jax.vmap(lambda k: jr.permutation(k, examples))(keys).astype(jnp.int32)

        order = jax.lax.cond(position == 0, shuffle, lambda: state.order)
        chosen = jax.lax.dynamic_slice_in_dim(
            order, position * self.batch_size, self.batch_size, axis=1
        )
        rows = jnp.arange(envs)[:, None]
        return order, (train.inputs[rows, chosen], train.labels[rows, chosen])


def _kept_fraction(kept: Any, model: MLP) -> Float[Array, ""]:
    sizes = jnp.asarray([leaf.size for leaf in jax.tree.leaves(model)], jnp.float32)
    return jnp.sum(jnp.stack(jax.tree.leaves(kept)) * sizes) / jnp.sum(sizes)
