"""Cloning the expert of the side-scroller with many settings of an optimizer, side by side.

A trial is a setting: a learning rate, Adam's first decay rate, weight decay and, for the temporal
AND-mask, the memory of signs and the threshold. All trials are one vectorised program. They share
the levels, the start of the network and the batches, so that nothing but the setting tells them
apart; and both methods draw the same rates and decays from the same seed.

One step of the learner is one epoch: all levels once, in random order, each with a batch of its
own. After every epoch the loss on the test states is measured, and the lowest is remembered: the
thesis reports the minimum over training, chosen by the states that it is reported on.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree, UInt8

from recombine.experiments.agreement._best_runs import mean_of_best
from recombine.experiments.agreement._cloning_config import CloningConfig
from recombine.experiments.agreement._search_learner import is_finite
from recombine.methods.agreement import (
    MLPShape,
    adam_with_decay,
    cycle_environments,
    temporal_and_mask_adam,
)
from recombine.tasks import side_scroller
from recombine.tasks.side_scroller import ExpertStates

FIRST_STATES = 100  # of each training level, on which the training loss is measured


class Trial(NamedTuple):
    """The numbers of one setting, or of all of them."""

    learning_rate: Float[Array, "*trials"]
    b1: Float[Array, "*trials"]
    weight_decay: Float[Array, "*trials"]
    decays_after: Bool[Array, "*trials"]  # Adam's step, on its own; otherwise with the gradient
    b3: Float[Array, "*trials"]
    threshold: Float[Array, "*trials"]


class Cloning(NamedTuple):
    """The state of a search; trials have a leading axis."""

    train: ExpertStates
    test: ExpertStates
    order_key: PRNGKeyArray
    trials: Trial
    models: Any
    optimizers: Any
    test_kl: Float[Array, " trials"]  # after the last epoch
    lowest: Float[Array, " trials"]  # the lowest so far
    lowest_epoch: Int[Array, " trials"]
    diverged: Bool[Array, " trials"]
    epoch: Int[Array, ""]


class CloningLearner(eqx.Module):
    """Trains all trials of a search at once; see the module."""

    config: CloningConfig = eqx.field(static=True)
    epochs: int = eqx.field(static=True)

    def init(self, key: PRNGKeyArray) -> Cloning:
        """Draws levels and states, the trials and one network, from which all of them start."""
        config = self.config
        train_key, test_key, trials_key, model_key, order_key = jr.split(key, 5)
        train = side_scroller.sample_training_states(
            train_key, num_levels=config.num_levels, num_states=config.num_states
        )
        test = side_scroller.sample_test_states(test_key, num_states=config.num_test)
        trials = draw_trials(config, trials_key)
        model = self._network(model_key)
        models = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (config.num_trials, *leaf.shape)), model
        )
        start = jnp.full(config.num_trials, kl_on(model, test))
        return Cloning(
            train=train,
            test=test,
            order_key=order_key,
            trials=trials,
            models=models,
            optimizers=jax.vmap(lambda trial: self._optimizer(trial).init(model))(trials),
            test_kl=start,
            lowest=start,
            lowest_epoch=jnp.zeros(config.num_trials, jnp.int32),
            diverged=jnp.zeros(config.num_trials, bool),
            epoch=jnp.int32(0),
        )

    def step(self, state: Cloning, key: PRNGKeyArray) -> tuple[Cloning, dict[str, Array]]:
        """Visits every level once with every trial, and measures on the test states."""
        num_levels = self.config.num_levels
        updates = state.epoch * num_levels + jnp.arange(num_levels)
        levels = jax.vmap(cycle_environments(state.order_key, num_levels))(updates)
        states = jr.randint(key, (num_levels, self.config.batch_size), 0, self.config.num_states)
        update_all: Any = jax.vmap(self._update, in_axes=(0, 0, 0, None))

        def visit(carry: Any, where: Any) -> tuple[Any, None]:
            level, chosen = where
            batch = jax.tree.map(lambda leaf: leaf[level, chosen], state.train)
            return update_all(state.trials, *carry, batch), None

        (models, optimizers), _ = jax.lax.scan(
            visit, (state.models, state.optimizers), (levels, states)
        )
        test_kl = jax.vmap(kl_on, in_axes=(0, None))(models, state.test)
        broken = state.diverged | ~jax.vmap(is_finite)(models) | ~jnp.isfinite(test_kl)
        test_kl = jnp.where(broken, state.test_kl, test_kl)
        is_lower = test_kl < state.lowest
        new = state._replace(
            models=_held(broken, state.models, models),
            optimizers=_held(broken, state.optimizers, optimizers),
            test_kl=test_kl,
            lowest=jnp.where(is_lower, test_kl, state.lowest),
            lowest_epoch=jnp.where(is_lower, state.epoch + 1, state.lowest_epoch),
            diverged=broken,
            epoch=state.epoch + 1,
        )
        return new, {"diverged": jnp.mean(broken.astype(jnp.float32))}

    def evaluate(self, state: Cloning, key: PRNGKeyArray) -> dict[str, Float[Array, ""]]:
        """Returns the mean of the best trials with its interval, and how all of them do."""
        num_best = self.config.num_best
        top = mean_of_best(state.lowest, num_best)
        best = jnp.argsort(state.lowest)[:num_best]
        return {
            "top_test_kl": top.mean,
            "top_low": top.low,
            "top_high": top.high,
            "lowest_test_kl": jnp.min(state.lowest),
            "median_test_kl": jnp.median(state.lowest),
            "top_test_kl_now": jnp.mean(state.test_kl[best]),
            "top_train_kl_now": jnp.mean(self._train_kl(state)[best]),
            "share_diverged": jnp.mean(state.diverged.astype(jnp.float32)),
        }

    def inspect(self, state: Cloning, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns the settings that were read and the losses of all trials, arrays over trials."""
        unread = {"adam": ("b3", "threshold"), "temporal-and-mask": ("decays_after",)}
        settings = state.trials._asdict()
        for name in unread[self.config.method]:
            del settings[name]
        shown = {
            **settings,
            "lowest_test_kl": state.lowest,
            "lowest_epoch": state.lowest_epoch,
            "last_test_kl": state.test_kl,
            "last_train_kl": self._train_kl(state),
            "diverged": state.diverged,
        }
        return {f"trial_{name}": value for name, value in shown.items()}

    def _network(self, key: PRNGKeyArray) -> Any:
        config = self.config
        pixels = 3 * side_scroller.SIZE**2
        hidden = [config.hidden_units] * config.hidden_layers
        return MLPShape((pixels, *hidden, len(side_scroller.ACTIONS)))(key)

    def _optimizer(self, trial: Trial) -> optax.GradientTransformationExtraArgs:
        updates = self.epochs * self.config.num_levels
        schedule: Any = optax.piecewise_constant_schedule(
            trial.learning_rate,  # pyright: ignore[reportArgumentType]
            {int(share * updates): 0.1 for share in self.config.decay_at},
        )
        if self.config.method == "temporal-and-mask":
            return temporal_and_mask_adam(
                schedule,
                trial.b1,
                b3=trial.b3,
                threshold=trial.threshold,
                weight_decay=trial.weight_decay,
            )
        before = jnp.where(trial.decays_after, 0.0, trial.weight_decay)
        after = trial.weight_decay - before
        adam = adam_with_decay(schedule, trial.b1, weight_decay=after, decay_placement="after")
        return optax.chain(optax.add_decayed_weights(before), adam)

    def _update(
        self, trial: Trial, model: Any, optimizer: Any, batch: ExpertStates
    ) -> tuple[Any, Any]:
        grads = jax.grad(kl_on)(model, batch)
        updates, optimizer = self._optimizer(trial).update(grads, optimizer, model)
        return optax.apply_updates(model, updates), optimizer

    def _train_kl(self, state: Cloning) -> Float[Array, " trials"]:
        few = jax.tree.map(lambda leaf: leaf[:, :FIRST_STATES], state.train)

        def of_level(level: ExpertStates) -> Float[Array, " trials"]:
            return jax.vmap(kl_on, in_axes=(0, None))(state.models, level)

        return jnp.mean(jax.lax.map(of_level, few), axis=0)


def kl_on(model: Any, states: ExpertStates) -> Float[Array, ""]:
    r"""Returns the mean of $D_{KL}(\pi^* \| \pi)$ over states, \pi^* being the expert's."""
    logits = model.train_pass(as_inputs(states.images)).logits
    return jnp.mean(optax.losses.kl_divergence(jax.nn.log_softmax(logits), states.policies))


def as_inputs(images: UInt8[Array, "states 16 16 3"]) -> Float[Array, "states pixels"]:
    """Makes a row of numbers around zero of every picture."""
    return images.reshape(len(images), -1).astype(jnp.float32) / 64.0 - 2.0


def draw_trials(config: CloningConfig, key: PRNGKeyArray) -> Trial:
    """Draws the numbers of all trials; those that a method does not read do no harm."""
    chance = Trial(*jr.uniform(key, (len(Trial._fields), config.num_trials)))

    def within(ends: tuple[float, float], share: Float[Array, " trials"]) -> Array:
        return ends[0] + (ends[1] - ends[0]) * share

    def log_within(ends: tuple[float, float], share: Float[Array, " trials"]) -> Array:
        return ends[0] * (ends[1] / ends[0]) ** share

    return Trial(
        learning_rate=log_within(config.learning_rates, chance.learning_rate),
        b1=within(config.b1, chance.b1),
        weight_decay=log_within(config.weight_decays, chance.weight_decay),
        decays_after=chance.decays_after < 0.5,
        b3=within(config.b3, chance.b3),
        threshold=within(config.thresholds, chance.threshold),
    )


def sample_levels(config: CloningConfig) -> dict[str, np.ndarray]:
    """Returns a picture of the first states of a few levels."""
    levels, states = min(4, config.num_levels), min(5, config.num_states)
    drawn = side_scroller.sample_training_states(jr.key(0), num_levels=levels, num_states=states)
    return {"states": side_scroller.draw_states(drawn.images, pixels=8)}


def make_cloning_learner(config: CloningConfig, steps: int) -> CloningLearner:
    """Returns the learner of one row; its steps are epochs."""
    return CloningLearner(config, steps)


def _held(broken: Bool[Array, " trials"], old: PyTree[Any], new: PyTree[Any]) -> PyTree[Any]:
    """Keeps what was, for the trials that are broken."""

    def hold(one: Array, other: Array) -> Array:
        return jnp.where(broken.reshape(-1, *[1] * (one.ndim - 1)), one, other)

    return jax.tree.map(hold, old, new)
