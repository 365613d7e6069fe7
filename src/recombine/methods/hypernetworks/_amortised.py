"""Amortised inference: an encoder reads the support and predicts the embedding in one pass.

The paper infers embeddings by gradient descent and asks for this in its discussion (Schug et al.
2024). With no inner steps the encoder works alone; with a few it gives them their start. The
encoder's answer is added to the embedding that the hypernetwork learns as its start.
"""

from dataclasses import dataclass, field

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.hypernetworks._encoders import DeepSet, EncoderConfig, SetTransformer
from recombine.methods.hypernetworks._hypernetwork import (
    HyperNetwork,
    HyperNetworkConfig,
    TaskEmbedding,
)


class AmortisedHyperNetwork(eqx.Module):
    """A hypernetwork with an encoder of support sets."""

    hypernetwork: HyperNetwork
    encoder: DeepSet | SetTransformer

    def start(
        self,
        inputs: Float[Array, "rows inputs"],
        targets: Float[Array, "rows outputs"],
        weights: Float[Array, " rows"] | None,
        *,
        key: PRNGKeyArray,
    ) -> TaskEmbedding:
        """Predicts the embedding of a task from its support."""
        learned = self.hypernetwork.start(inputs, targets, weights, key=key)
        found = self.encoder(jnp.concatenate([inputs, targets], axis=-1), weights)
        found = found.reshape(-1, learned.input.shape[-1])
        return learned._replace(
            input=learned.input + found[:1],
            hidden=learned.hidden + found[1:-1],
            output=learned.output + found[-1:],
        )

    def read(self, inputs: Float[Array, "rows inputs"]) -> Float[Array, "rows inputs"]:
        """Returns the inputs: every layer depends on the task."""
        return self.hypernetwork.read(inputs)

    def predict(
        self, task: TaskEmbedding, features: Float[Array, "rows inputs"]
    ) -> Float[Array, "rows outputs"]:
        """Generates the network of a task, once, and runs it on all rows."""
        return self.hypernetwork.predict(task, features)


@dataclass(frozen=True)
class AmortisedConfig:
    """The sizes of an `AmortisedHyperNetwork`."""

    hypernetwork: HyperNetworkConfig = field(default_factory=HyperNetworkConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)

    @property
    def num_inputs(self) -> int:
        """The width of an input."""
        return self.hypernetwork.num_inputs

    @property
    def num_outputs(self) -> int:
        """The width of an output."""
        return self.hypernetwork.num_outputs

    def make(self, *, key: PRNGKeyArray) -> AmortisedHyperNetwork:
        """Builds the model with fresh parameters."""
        network_key, encoder_key = jr.split(key)
        config = self.hypernetwork
        num_rows = config.num_hidden + 1
        return AmortisedHyperNetwork(
            config.make(key=network_key),
            self.encoder.make(
                config.num_inputs + config.num_outputs,
                num_rows * config.num_templates,
                key=encoder_key,
            ),
        )
