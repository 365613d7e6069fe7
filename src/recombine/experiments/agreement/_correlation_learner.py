"""What is in the gradient of a random network: mechanism or shortcut (Neitz, thesis, Fig. 3.7).

No network is trained. A step of this learner draws one, and compares three mean gradients: (i) of
the data, (ii) of the data with the mechanism shuffled over all examples, so that only the shortcuts
tell the classes apart, and (iii) of the data with the shortcuts shuffled, so that only the
mechanism does. The components on which the environments agree (AND-mask) or are split (XOR-mask) in
(i) are the ones compared.

The initial weights are not printed. With those of the synthetic experiments (`start="normal"`) the
memorisation hardly falls; with PyTorch's own (`"uniform"`) it does, as in the figure.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from recombine.experiments.agreement._config import CorrelationConfig
from recombine.methods.agreement import (
    BINARY,
    LabelledEnvironments,
    MLPShape,
    agreement_mask,
    dispute_mask,
    environment_gradients,
    stacked_statistics,
)
from recombine.tasks import spirals

JUDGED_AT = {"and": 0.75, "unanimous": 1.0, "xor": -0.75}
"""Where on the axis the rows are judged: thresholds, and minus the strength of the XOR-mask."""


class Curves(NamedTuple):
    """Of every network drawn: correlations at each level of the masks."""

    mechanism: Float[Array, "networks levels"]
    shortcut: Float[Array, "networks levels"]
    kept: Float[Array, "networks levels"]


class Correlating(NamedTuple):
    """The state: the data, and what the networks so far have shown."""

    train: LabelledEnvironments
    curves: Curves
    step: Any


class CorrelationLearner(eqx.Module):
    """Draws one network in every step and looks at its gradients; see the module."""

    config: CorrelationConfig = eqx.field(static=True)
    num_networks: int = eqx.field(static=True)

    @property
    def levels(self) -> list[float]:
        """From the strictest XOR-mask (-1) over no mask (0) to the strictest AND-mask (1)."""
        steps = max(2, min(8, self.config.num_envs // 2))
        return [level / steps for level in range(-steps, steps + 1)]

    def init(self, key: PRNGKeyArray) -> Correlating:
        """Draws the data."""
        config = self.config
        train = spirals.sample_environments(
            key,
            num_envs=config.num_envs,
            num_examples=config.num_examples,
            num_shortcuts=config.num_shortcuts,
            style=spirals.STYLES[config.style],
        )
        blank = jnp.zeros((self.num_networks, len(self.levels)))
        return Correlating(LabelledEnvironments(*train), Curves(blank, blank, blank), jnp.int32(0))

    def step(
        self, state: Correlating, key: PRNGKeyArray
    ) -> tuple[Correlating, dict[str, Float[Array, ""]]]:
        """Draws a network and correlates its gradients."""
        found = self._correlate(state.train, key)
        curves = jax.tree.map(
            lambda rows, row: rows.at[state.step].set(row, mode="drop"), state.curves, found
        )
        kept = found.kept[len(self.levels) // 2]
        return Correlating(state.train, curves, state.step + 1), {"kept": kept}

    def evaluate(self, state: Correlating, key: PRNGKeyArray) -> dict[str, Float[Array, ""]]:
        """Returns means over the networks so far: correlations without a mask and with strong ones.

        `rho_mechanism` is that of gradient (i) with (iii), `rho_shortcut` that with (ii); what a
        mask changes about them is `change_…`. A network of which fewer than three components are
        left does not count.
        """
        drawn = jnp.arange(self.num_networks) < state.step

        def mean_at(values: Float[Array, "networks levels"], level: float) -> Float[Array, ""]:
            nearest = min(self.levels, key=lambda known: abs(known - level))
            column = values[:, self.levels.index(nearest)]
            known = drawn & jnp.isfinite(column)
            return jnp.sum(jnp.where(known, column, 0.0)) / jnp.maximum(jnp.sum(known), 1)

        metrics: dict[str, Float[Array, ""]] = {}
        for signal in ("mechanism", "shortcut"):
            values = getattr(state.curves, signal)
            without = mean_at(values, 0.0)
            metrics[f"rho_{signal}"] = without
            for mask, level in JUDGED_AT.items():
                metrics[f"rho_{signal}_{mask}"] = mean_at(values, level)
                metrics[f"change_{signal}_{mask}"] = mean_at(values, level) - without
        return metrics

    def inspect(self, state: Correlating, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns the curves of all networks; NaN where fewer than three components are left."""
        return {"levels": jnp.asarray(self.levels), **state.curves._asdict()}

    def _correlate(self, train: LabelledEnvironments, key: PRNGKeyArray) -> Curves:
        config = self.config
        model_key, mechanism_key, shortcut_key = jr.split(key, 3)
        inputs = spirals.NUM_MECHANISM + config.num_shortcuts
        layers = [config.hidden_units] * config.hidden_layers
        model = MLPShape((inputs, *layers, 1), start=config.start)(model_key)
        envs, examples = train.labels.shape
        flat = train.inputs.reshape(envs * examples, -1)
        mechanism, shortcut = jnp.split(flat, [spirals.NUM_MECHANISM], axis=1)
        shortcut_only = jnp.concatenate(
            [jr.permutation(mechanism_key, mechanism), shortcut], axis=1
        )
        mechanism_only = jnp.concatenate(
            [mechanism, jr.permutation(shortcut_key, shortcut)], axis=1
        )

        _, grads = environment_gradients(_loss, model, tuple(train))
        stats = stacked_statistics(grads)
        whole = _flat(stats.total) / envs
        labels = train.labels.reshape(-1)
        of_shortcut = _flat(jax.grad(_loss)(model, (shortcut_only, labels)))
        of_mechanism = _flat(jax.grad(_loss)(model, (mechanism_only, labels)))

        def at(level: float) -> tuple[Float[Array, ""], ...]:
            masks = agreement_mask(stats, level) if level >= 0 else dispute_mask(stats, -level)
            keep = _flat(masks) & (whole != 0)
            return (
                correlation(whole, of_mechanism, keep),
                correlation(whole, of_shortcut, keep),
                jnp.mean(keep.astype(jnp.float32)),
            )

        return Curves(*(jnp.stack(values) for values in zip(*map(at, self.levels), strict=True)))


def correlation(
    x: Float[Array, " components"], y: Float[Array, " components"], keep: Bool[Array, " components"]
) -> Float[Array, ""]:
    """Returns Pearson's correlation of the kept components; NaN of fewer than three."""
    count = jnp.sum(keep)
    some = jnp.maximum(count, 1)

    def centred(values: Float[Array, " components"]) -> Float[Array, " components"]:
        # Gradients are small, and their squares would lose digits.
        values = values / jnp.maximum(jnp.max(jnp.where(keep, jnp.abs(values), 0.0)), 1e-30)
        mean = jnp.sum(jnp.where(keep, values, 0.0)) / some
        return jnp.where(keep, values - mean, 0.0)

    one, other = centred(x), centred(y)
    spread = jnp.sqrt(jnp.sum(one**2) * jnp.sum(other**2))
    rho = jnp.sum(one * other) / jnp.where(spread > 0, spread, 1.0)
    return jnp.where((count >= 3) & (spread > 0), rho, jnp.nan)


def make_correlation_learner(config: CorrelationConfig, steps: int) -> CorrelationLearner:
    """Returns the learner of the correlation rows; its steps are networks."""
    return CorrelationLearner(config, steps)


def _loss(model: Any, batch: tuple[Array, Array]) -> Float[Array, ""]:
    inputs, labels = batch
    return jnp.mean(jax.vmap(BINARY.loss)(jax.vmap(model)(inputs), labels))


def _flat(tree: PyTree[Any]) -> Array:
    return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(tree)])
