"""The network of the synthetic experiments (Neitz, thesis, App. B)."""

from dataclasses import dataclass
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

BIAS = 0.01
SLOPE = 0.01


class MLP(eqx.Module):
    """Linear layers with leaky ReLUs of slope 0.01 between them.

    Weights start normal with variance 2/fan-in, the last layer's too, and all biases at 0.01, as
    in the authors' code.
    """

    weights: list[Float[Array, "inputs outputs"]]
    biases: list[Float[Array, " outputs"]]

    def __init__(self, sizes: tuple[int, ...], *, key: PRNGKeyArray):
        pairs = list(pairwise(sizes))
        keys = jr.split(key, len(pairs))
        self.weights = [
            jr.normal(layer_key, pair) * (2.0 / pair[0]) ** 0.5
            for layer_key, pair in zip(keys, pairs, strict=True)
        ]
        self.biases = [jnp.full(outputs, BIAS, jnp.float32) for _, outputs in pairs]

    def __call__(self, x: Float[Array, " inputs"]) -> Float[Array, " outputs"]:
        """Returns the logits of one example."""
        *hidden, last = zip(self.weights, self.biases, strict=True)
        for weight, bias in hidden:
            x = jax.nn.leaky_relu(x @ weight + bias, SLOPE)
        return x @ last[0] + last[1]


@dataclass(frozen=True)
class MLPShape:
    """The sizes of an `MLP`, from inputs to logits; calling it makes one."""

    sizes: tuple[int, ...]

    def __call__(self, key: PRNGKeyArray) -> MLP:
        """Returns a network at its random start."""
        return MLP(self.sizes, key=key)
