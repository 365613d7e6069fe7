"""What changes over training: exploration, feeding the truth, and the learning rate.

Steps count batches, from 0 (Neitz, thesis, App. A.0.3; the schedule of feeding truth is not in the
thesis and comes from the authors' code, where it applies to every method).
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def exploration_rate(
    step: Int[Array, ""] | int, exploration_steps: Float[Array, ""] | float
) -> Float[Array, ""]:
    """Returns μ(i) = max(0, 1 - i/K), or 0 throughout where K is 0.

    Example:
        >>> float(exploration_rate(7_500, 15_000)), float(exploration_rate(0, 0))
        (0.5, 0.0)
    """
    fall = 1.0 - jnp.asarray(step, jnp.float32) / jnp.maximum(exploration_steps, 1.0)
    return jnp.where(jnp.asarray(exploration_steps) > 0, jnp.maximum(fall, 0.0), 0.0)


def truth_rate(
    step: Int[Array, ""] | int, sampling_steps: Float[Array, ""] | float
) -> Float[Array, ""]:
    """Returns ε(i) = 1 / (1 + 5 i / S), the probability of feeding the matched frame itself.

    It starts at 1 and never reaches 0; the other times the model is fed its own prediction.

    Example:
        >>> float(truth_rate(4_000, 20_000))
        0.5
    """
    return 1.0 / (1.0 + 5.0 * jnp.asarray(step, jnp.float32) / sampling_steps)


def stairs(
    step: Int[Array, ""] | int,
    start: Float[Array, ""] | float,
    every: Float[Array, ""] | float,
    factor: Float[Array, ""] | float = 0.2,
) -> Float[Array, ""]:
    """Returns a learning rate that is multiplied by `factor` once `every` so many steps.

    Example:
        >>> [f"{float(stairs(i, 5e-4, 15_000)):.0e}" for i in (14_999, 15_000, 30_000)]
        ['5e-04', '1e-04', '2e-05']
    """
    falls = jnp.floor(jnp.asarray(step, jnp.float32) / every)
    return jnp.asarray(start) * jnp.asarray(factor, jnp.float32) ** falls


class Schedule(eqx.Module):
    """The schedules of a run; the numbers are array leaves and no part of a compiled program.

    The defaults are those of the full method on Funnel board (Neitz, thesis, Table A.2).
    """

    learning_rate: Float[Array, ""] = eqx.field(converter=jnp.float32, default=5e-4)
    decay_every: Float[Array, ""] = eqx.field(converter=jnp.float32, default=15_000.0)
    decay_factor: Float[Array, ""] = eqx.field(converter=jnp.float32, default=0.2)
    exploration_steps: Float[Array, ""] = eqx.field(converter=jnp.float32, default=15_000.0)
    """K; 0 is no exploration."""
    sampling_steps: Float[Array, ""] = eqx.field(converter=jnp.float32, default=20_000.0)
    """S."""
    warm_up_steps: Float[Array, ""] = eqx.field(converter=jnp.float32, default=0.0)
    """Until then the learning rate rises along a line; 0 is none, as published."""

    def exploration(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """Returns the probability that a step of matching explores."""
        return exploration_rate(step, self.exploration_steps)

    def truth(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """Returns the probability that the model is fed the matched frame itself."""
        return truth_rate(step, self.sampling_steps)

    def rate(self, step: Int[Array, ""]) -> Float[Array, ""]:
        """Returns the learning rate."""
        warm = (jnp.asarray(step, jnp.float32) + 1.0) / jnp.maximum(self.warm_up_steps, 1.0)
        rate = stairs(step, self.learning_rate, self.decay_every, self.decay_factor)
        return rate * jnp.minimum(warm, 1.0)
