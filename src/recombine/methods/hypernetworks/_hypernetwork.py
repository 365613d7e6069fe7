r"""A network whose weights are generated from the embedding of a task (Schug et al. 2024).

The target network is an MLP. Its input layer, its hidden layers and its output layer each have a
bank of modules and embedding rows of their own: one row for the input layer, one for each further
hidden layer (which share one bank), one for the output layer. All weights and biases are generated;
weights are divided by √fan-in.

An embedding row $e$ of length $T$ is used as $e \cdot \sqrt{T} / \lVert e \rVert$, the factor
being a constant for derivatives: its scale does not matter, and its gradient is not projected.
Adapted, and decoded, is the raw $e$. Its start is learned; an output bias, where there is one,
starts at zero for every task.

The published nonlinear configuration does not run as released: its generator's type is not among
those known. The parameter counts it lists are those of `DeepBank`, which is used here.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.hypernetworks._banks import TRUNK, BankKind, DeepBank, LinearBank, make_bank


class TaskEmbedding(NamedTuple):
    """What a hypernetwork's learner infers of a task."""

    input: Float[Array, "1 templates"]
    hidden: Float[Array, "layers templates"]
    output: Float[Array, "1 templates"]
    bias: Float[Array, " outputs"] | None  # added to the outputs


class TargetWeights(NamedTuple):
    """The weights and biases of a generated network, one pair for each layer."""

    weights: tuple[Float[Array, "inputs outputs"], ...]
    biases: tuple[Float[Array, " outputs"], ...]


class HyperNetwork(eqx.Module):
    """Banks of modules, and the embedding from which inference starts."""

    embedding: TaskEmbedding
    input_bank: LinearBank | DeepBank
    hidden_bank: LinearBank | DeepBank | None
    output_bank: LinearBank | DeepBank
    num_inputs: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True)
    adapts_bias: bool = eqx.field(static=True)

    def __init__(self, config: "HyperNetworkConfig", *, key: PRNGKeyArray):
        inputs, width, outputs = config.num_inputs, config.width, config.num_outputs
        rows = (1, config.num_hidden - 1, 1)
        keys = jr.split(key, 6)
        self.embedding = TaskEmbedding(
            *(_start_rows(k, r, config.num_templates) for k, r in zip(keys[:3], rows, strict=True)),
            bias=None,
        )

        def make(num_weights: int, key: PRNGKeyArray) -> LinearBank | DeepBank:
            return make_bank(config.bank, config.num_templates, num_weights, config.trunk, key)

        self.input_bank = make((inputs + 1) * width, keys[3])
        self.hidden_bank = make((width + 1) * width, keys[4]) if rows[1] else None
        self.output_bank = make((width + 1) * outputs, keys[5])
        self.num_inputs, self.width, self.num_outputs = inputs, width, outputs
        self.adapts_bias = config.adapts_bias

    def start(
        self,
        inputs: Float[Array, "rows inputs"],
        targets: Float[Array, "rows outputs"],
        weights: Float[Array, " rows"] | None,
        *,
        key: PRNGKeyArray,
    ) -> TaskEmbedding:
        """Returns the learned start, whatever the support."""
        bias = jnp.zeros(self.num_outputs) if self.adapts_bias else None
        return self.embedding._replace(bias=bias)

    def read(self, inputs: Float[Array, "rows inputs"]) -> Float[Array, "rows inputs"]:
        """Returns the inputs: every layer depends on the task."""
        return inputs

    def predict(
        self, task: TaskEmbedding, features: Float[Array, "rows inputs"]
    ) -> Float[Array, "rows outputs"]:
        """Generates the network of a task, once, and runs it on all rows."""
        outputs = run_target(self.generate(task), features)
        return outputs if task.bias is None else outputs.astype(task.bias.dtype) + task.bias[None]

    def generate(self, task: TaskEmbedding) -> TargetWeights:
        """Returns the network of a task, its weights divided by √fan-in."""
        width = self.width
        parts = [(self.input_bank, task.input, self.num_inputs, width)]
        if self.hidden_bank is not None:
            parts.append((self.hidden_bank, task.hidden, width, width))
        parts.append((self.output_bank, task.output, width, self.num_outputs))
        weights, biases = [], []
        for bank, rows, num_inputs, num_outputs in parts:
            mixes = bank.mix(normalize_embedding(rows))
            # Biases and weights of a layer apart: cut out of one array they would be copied.
            of_biases, of_weights = bank.modules[:, :num_outputs], bank.modules[:, num_outputs:]
            for mix in mixes:
                biases.append(mix @ of_biases)
                # Dividing the mix rather than the weights: it is the smaller array.
                weight = (mix / math.sqrt(num_inputs)) @ of_weights
                weights.append(weight.reshape(num_inputs, num_outputs))
        return TargetWeights(tuple(weights), tuple(biases))


@dataclass(frozen=True)
class HyperNetworkConfig:
    """The sizes of a `HyperNetwork`; the defaults are those of the hyperteacher with 8 modules."""

    num_inputs: int = 16
    num_outputs: int = 8
    bank: BankKind = "linear"
    num_templates: int = 32
    """The length of an embedding row; four times the number of the teacher's modules."""
    width: int = 128
    num_hidden: int = 3
    adapts_bias: bool = True
    """Whether each task has an output bias; the published linear hypernetworks have one, the
    nonlinear ones have none."""
    trunk: tuple[int, ...] = TRUNK
    """The hidden layers of deep banks."""

    def __post_init__(self) -> None:
        if self.bank not in get_args(BankKind):
            raise ValueError(f"`bank` must be linear or deep; got {self.bank!r}")
        for name in ("num_inputs", "num_outputs", "num_templates", "width", "num_hidden"):
            if getattr(self, name) < 1:
                raise ValueError(f"`{name}` must be at least 1; got {getattr(self, name)}")

    def make(self, *, key: PRNGKeyArray) -> HyperNetwork:
        """Builds a hypernetwork with fresh parameters."""
        return HyperNetwork(self, key=key)


def normalize_embedding(rows: Float[Array, "rows templates"]) -> Float[Array, "rows templates"]:
    """Scales every row to a root mean square of 1, by factors that have no derivative."""
    scale = jnp.sqrt(jnp.mean(jnp.square(rows), axis=-1, keepdims=True))
    return rows * jax.lax.stop_gradient(1 / jnp.maximum(scale, 1e-12))


def run_target(
    target: TargetWeights, rows: Float[Array, "rows inputs"]
) -> Float[Array, "rows outputs"]:
    """Runs a generated network, with ReLUs between layers, in the type of the rows of inputs."""
    last = len(target.weights) - 1
    for number, (weight, bias) in enumerate(zip(target.weights, target.biases, strict=True)):
        rows = rows @ weight.astype(rows.dtype) + bias[None].astype(rows.dtype)
        rows = rows if number == last else jax.nn.relu(rows)
    return rows


def _start_rows(key: PRNGKeyArray, rows: int, size: int) -> Float[Array, "rows size"]:
    reach = math.sqrt(3 / max(rows, 1))
    return jr.uniform(key, (rows, size), minval=-reach, maxval=reach)
