"""The network of the synthetic experiments (Neitz, thesis, App. B), with its optional layers.

A network is called on one example when it is used. While it is trained it sees whole batches
(`train_pass`), since batch norm couples their examples: linear layer, batch norm, leaky ReLU,
dropout.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

BIAS = 0.01
SLOPE = 0.01
NORM_EPS = 1e-5
NORM_MOMENTUM = 0.1  # the share of the newest batch in the running statistics

Start = Literal["normal", "uniform"]
"""How the weights are drawn: as the authors' code does, or uniform in ±1/√fan-in, biases too."""


class TrainPass(NamedTuple):
    """What a network makes of a batch while it is trained."""

    logits: Float[Array, "examples outputs"]
    features: Float[Array, "examples units"]  # that the output layer reads
    model: Any  # the network with its running statistics moved on


class Network(Protocol):
    """A network that a learner can train."""

    def __call__(self, x: Float[Array, " *features"], /) -> Float[Array, " outputs"]:
        """Returns the logits of one example, as the network is used after training."""
        ...

    def train_pass(
        self,
        inputs: Float[Array, " examples *features"],
        *,
        key: PRNGKeyArray | None = None,
        dropout: Float[Array, ""] | None = None,
    ) -> TrainPass:
        """Returns what training needs to know of a batch.

        Args:
            inputs: the examples of all environments, or of one, where nothing couples them.
            key: of the units that are dropped.
            dropout: the probability of zeroing a hidden unit; None is no dropout.
        """
        ...


class Running(eqx.Module):
    """Averages over the batches seen in training; measured, not learned."""

    mean: Float[Array, " units"]
    variance: Float[Array, " units"]


class BatchNorm(eqx.Module):
    """Batch normalization: by the batch's own statistics in training, by their averages after."""

    scale: Float[Array, " units"]
    shift: Float[Array, " units"]
    running: Running

    def __init__(self, units: int):
        self.scale = jnp.ones(units)
        self.shift = jnp.zeros(units)
        self.running = Running(jnp.zeros(units), jnp.ones(units))

    def __call__(self, x: Float[Array, " units"]) -> Float[Array, " units"]:
        """Normalizes the units of one example."""
        spread = jnp.sqrt(self.running.variance + NORM_EPS)
        return (x - self.running.mean) / spread * self.scale + self.shift

    def over_batch(
        self, xs: Float[Array, "examples units"]
    ) -> tuple[Float[Array, "examples units"], "BatchNorm"]:
        """Normalizes a batch by its own statistics, and moves the running ones towards them."""
        mean, variance = jnp.mean(xs, axis=0), jnp.var(xs, axis=0)
        now = eqx.tree_at(lambda norm: norm.running, self, Running(mean, variance))
        unbiased = variance * (len(xs) / max(len(xs) - 1, 1))
        batch = jax.lax.stop_gradient(Running(mean, unbiased))
        running = jax.tree.map(
            lambda old, new: (1 - NORM_MOMENTUM) * old + NORM_MOMENTUM * new, self.running, batch
        )
        return jax.vmap(now)(xs), eqx.tree_at(lambda norm: norm.running, self, running)


class MLP(eqx.Module):
    """Linear layers with leaky ReLUs of slope 0.01 between them.

    Weights start normal with variance 2/fan-in, the last layer's too, and all biases at 0.01, as
    in the authors' code; with `start="uniform"` as PyTorch's own layers do.
    """

    weights: list[Float[Array, "inputs outputs"]]
    biases: list[Float[Array, " outputs"]]
    norms: list[BatchNorm]  # one for each hidden layer, or none

    def __init__(
        self,
        sizes: tuple[int, ...],
        *,
        key: PRNGKeyArray,
        batch_norm: bool = False,
        start: Start = "normal",
    ):
        pairs = list(pairwise(sizes))
        keys = jr.split(key, len(pairs))
        layers = [_start_layer(k, *pair, start) for k, pair in zip(keys, pairs, strict=True)]
        self.weights = [weight for weight, _ in layers]
        self.biases = [bias for _, bias in layers]
        self.norms = [BatchNorm(outputs) for _, outputs in pairs[:-1]] if batch_norm else []

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """Returns the logits of one example."""
        *hidden, last = zip(self.weights, self.biases, strict=True)
        for number, (weight, bias) in enumerate(hidden):
            x = x @ weight + bias
            if self.norms:
                x = self.norms[number](x)
            x = jax.nn.leaky_relu(x, SLOPE)
        return x @ last[0] + last[1]

    def train_pass(
        self,
        inputs: Float[Array, "examples inputs"],
        *,
        key: PRNGKeyArray | None = None,
        dropout: Float[Array, ""] | None = None,
    ) -> TrainPass:
        """Returns logits, features and moved statistics of a batch; see `Network`."""
        *hidden, last = zip(self.weights, self.biases, strict=True)
        x, norms = inputs, []
        for number, (weight, bias) in enumerate(hidden):
            x = x @ weight + bias[None]
            if self.norms:
                x, norm = self.norms[number].over_batch(x)
                norms.append(norm)
            x = jax.nn.leaky_relu(x, SLOPE)
            if dropout is not None:
                assert key is not None
                x = _drop(x, dropout, jr.fold_in(key, number))
        moved = eqx.tree_at(lambda model: model.norms, self, norms)
        return TrainPass(x @ last[0] + last[1][None], x, moved)


@dataclass(frozen=True)
class MLPShape:
    """The sizes of an `MLP`, from inputs to logits; calling it makes one."""

    sizes: tuple[int, ...]
    batch_norm: bool = False
    start: Start = "normal"

    def __call__(self, key: PRNGKeyArray) -> MLP:
        """Returns a network at its random start."""
        return MLP(self.sizes, key=key, batch_norm=self.batch_norm, start=self.start)


def split_running(model: PyTree[Any]) -> tuple[PyTree[Any], PyTree[Any]]:
    """Parts a network into what is learned and its running statistics; `eqx.combine` joins them.

    Running statistics must reach neither the mask nor the regularizer.
    """

    def is_running(node: Any) -> bool:
        return isinstance(node, Running)

    learned = jax.tree.map(
        lambda node: jax.tree.map(lambda _: not is_running(node), node), model, is_leaf=is_running
    )
    return eqx.partition(model, learned)


def _start_layer(
    key: PRNGKeyArray, inputs: int, outputs: int, start: Start
) -> tuple[Float[Array, "inputs outputs"], Float[Array, " outputs"]]:
    if start == "normal":
        weight = jr.normal(key, (inputs, outputs)) * (2.0 / inputs) ** 0.5
        return weight, jnp.full(outputs, BIAS, jnp.float32)
    weight_key, bias_key = jr.split(key)
    reach = inputs**-0.5
    weight = jr.uniform(weight_key, (inputs, outputs), minval=-reach, maxval=reach)
    return weight, jr.uniform(bias_key, (outputs,), minval=-reach, maxval=reach)


def _drop(
    x: Float[Array, "examples units"], dropout: Float[Array, ""], key: PRNGKeyArray
) -> Float[Array, "examples units"]:
    kept = jr.bernoulli(key, 1.0 - dropout, x.shape)
    return jnp.where(kept, x / (1.0 - dropout), 0.0)
