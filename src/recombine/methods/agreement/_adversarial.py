r"""Domain-adversarial training (Ganin et al. 2016), as far as the thesis describes it (App. B).

An embedding, a label classifier and a domain discriminator, each a two-layer perceptron; both of
the latter read the embedding. The discriminator learns to tell the environments apart. Its
gradient reaches the embedding reversed, so that the embedding learns to confuse it.

$$\frac{1}{d}\sum_e R_e + \mathrm{CE}(\text{discriminator}(\text{reversed embedding}), e)$$

The thesis prints no coefficient for the reversal, and no word on the embedding's last activation:
ours is a leaky ReLU, without which embedding and classifier would share a linear layer.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recombine.methods.agreement._environments import LabelledEnvironments
from recombine.methods.agreement._methods import Found, Problem, Seen, gradient_of
from recombine.methods.agreement._network import MLP, SLOPE, TrainPass


class AdversarialNetwork(eqx.Module):
    """A classifier on an embedding, with a discriminator of environments beside it."""

    embedding: MLP
    classifier: MLP
    discriminator: MLP

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """Returns the logits of one example; the discriminator takes no part."""
        return self.classifier(jax.nn.leaky_relu(self.embedding(x), SLOPE))

    def train_pass(
        self,
        inputs: Float[Array, "examples inputs"],
        *,
        key: PRNGKeyArray | None = None,
        dropout: Float[Array, ""] | None = None,
    ) -> TrainPass:
        """Returns logits and embeddings of a batch; see `Network`."""
        keys = (None, None) if key is None else jr.split(key)
        embedded = self.embedding.train_pass(inputs, key=keys[0], dropout=dropout)
        features = jax.nn.leaky_relu(embedded.logits, SLOPE)
        classified = self.classifier.train_pass(features, key=keys[1], dropout=dropout)
        moved = AdversarialNetwork(embedded.model, classified.model, self.discriminator)
        return TrainPass(classified.logits, features, moved)


@dataclass(frozen=True)
class AdversarialShape:
    """The sizes of an `AdversarialNetwork`; calling it makes one."""

    inputs: int
    hidden_units: int
    outputs: int
    num_envs: int
    batch_norm: bool = False

    def __call__(self, key: PRNGKeyArray) -> AdversarialNetwork:
        """Returns a network at its random start."""
        width, keys = self.hidden_units, jr.split(key, 3)
        sizes = (
            (self.inputs, width, width),
            (width, width, self.outputs),
            (width, width, self.num_envs),
        )
        parts = [
            MLP(size, key=part_key, batch_norm=self.batch_norm)
            for size, part_key in zip(sizes, keys, strict=True)
        ]
        return AdversarialNetwork(*parts)


class DANN(eqx.Module):
    """Trains an `AdversarialNetwork`; `reversal` scales the reversed gradient."""

    reversal: Float[Array, ""] = eqx.field(converter=jnp.float32, default=1.0)

    def init(self, model: AdversarialNetwork, num_envs: int) -> None:
        """Remembers nothing, but refuses a network that does not fit."""
        if not isinstance(model, AdversarialNetwork):
            raise TypeError(
                f"`DANN` trains a network with a discriminator of environments: give the learner "
                f"an `AdversarialShape`; got {type(model).__name__}"
            )
        known = model.discriminator.biases[-1].shape[0]
        if known != num_envs:
            raise ValueError(
                f"the discriminator tells {known} environments apart, but there are {num_envs}; "
                f"make the `AdversarialShape` with `num_envs={num_envs}`"
            )

    def gradient(
        self,
        problem: Problem,
        model: AdversarialNetwork,
        batches: LabelledEnvironments,
        state: None,
        *,
        step: Int[Array, ""],
        key: PRNGKeyArray,
    ) -> Found:
        """Returns the gradient of both losses, reversed where the discriminator's meets the net."""
        label_key, domain_key = jr.split(key)
        envs, examples = batches.labels.shape
        domains = jnp.repeat(jnp.arange(envs), examples)

        def total(seen: Seen) -> Any:
            embedded = seen.features.reshape(envs * examples, -1)
            guessed = seen.model.discriminator.train_pass(
                reverse_gradient(embedded, self.reversal), key=domain_key, dropout=problem.dropout
            )
            # Its running statistics are not kept: after training nobody asks the discriminator.
            wrong = optax.softmax_cross_entropy_with_integer_labels(guessed.logits, domains)
            domain_loss = jnp.mean(wrong)
            return jnp.mean(seen.losses) + domain_loss, (None, {"domain_loss": domain_loss})

        return gradient_of(total, problem, model, batches, label_key)


def reverse_gradient(
    x: Float[Array, "*shape"], coefficient: float | Float[Array, ""]
) -> Float[Array, "*shape"]:
    """Returns `x`, with a gradient that comes back times minus `coefficient`.

    Example:
        >>> import jax
        >>> jax.value_and_grad(lambda x: reverse_gradient(x, 2.0) * 5.0)(3.0)
        (Array(15., dtype=float32, weak_type=True), Array(-10., dtype=float32, weak_type=True))
    """
    return jax.lax.stop_gradient(x + coefficient * x) - coefficient * x
