"""The hyperteacher's network: fixed first and last layers, generated ones between them."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray


class GeneratedTeacher(eqx.Module):
    """A network with generated hidden layers, drawn once for every seed; it has no biases."""

    first: Float[Array, "inputs units"] | None  # None: the one hidden layer is generated
    bank: Float[Array, "modules weights"]
    last: Float[Array, "units outputs"]
    layer_local: bool = eqx.field(static=True)

    def generate(self, latent: Float[Array, "layers modules"]) -> Float[Array, "layers i units"]:
        """Returns the weights of the generated layers."""
        rows = latent if self.layer_local else latent.reshape(1, -1)
        return (rows @ self.bank).reshape(latent.shape[0], -1, self.last.shape[0])

    def enter(self, inputs: Float[Array, "rows inputs"]) -> Float[Array, "rows units"]:
        """Returns what the generated layers read, the same for all tasks."""
        if self.first is None:
            return inputs
        return jax.nn.relu(inputs @ self.first / math.sqrt(inputs.shape[-1]))

    def leave(
        self, latent: Float[Array, "layers modules"], units: Float[Array, "rows i"]
    ) -> Float[Array, "rows outputs"]:
        """Returns the logits of one task, before they are standardized."""
        for weight in self.generate(latent):
            units = jax.nn.relu(units @ weight / math.sqrt(weight.shape[0]))
        return units @ self.last / math.sqrt(self.last.shape[0])

    def standardized(
        self,
        latent: Float[Array, "layers modules"],
        reference: Float[Array, "reference inputs"],
        inputs: Float[Array, "rows inputs"],
    ) -> Float[Array, "rows outputs"]:
        """Returns the logits of one task with mean 0 and standard deviation 1 over `reference`."""
        logits = self.leave(latent, jnp.concatenate([self.enter(reference), self.enter(inputs)]))
        known = logits[: len(reference)]
        mean = jnp.mean(known, axis=0, keepdims=True)
        spread = jnp.std(known, axis=0, keepdims=True)
        return (logits[len(reference) :] - mean) / jnp.maximum(spread, 1e-12)


def draw_generated_teacher(
    key: PRNGKeyArray,
    *,
    num_inputs: int,
    num_layers: int,
    num_modules: int,
    width: int,
    num_outputs: int,
    has_first: bool,
    layer_local: bool,
) -> GeneratedTeacher:
    """Draws a teacher: truncated normal weights of scale 1, which √fan-in divides when used.

    The scale of the modules does not matter: logits are standardized.
    """

    def draw(key: PRNGKeyArray, *shape: int) -> Float[Array, "..."]:
        return jr.truncated_normal(key, -2.0, 2.0, shape)

    first_key, bank_key, last_key = jr.split(key, 3)
    size = (width if has_first else num_inputs) * width
    rows, columns = num_modules, size
    if not layer_local:
        rows, columns = num_layers * num_modules, num_layers * size
    return GeneratedTeacher(
        first=draw(first_key, num_inputs, width) if has_first else None,
        bank=draw(bank_key, rows, columns),
        last=draw(last_key, width, num_outputs),
        layer_local=layer_local,
    )
