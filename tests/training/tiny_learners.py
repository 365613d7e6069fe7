"""Learners that are small enough to check by hand."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float


class Halve(eqx.Module):
    """Starts at 1 and halves."""

    def init(self, key: Any) -> Any:
        return jnp.float32(1.0)

    def step(self, state: Any, key: Any) -> Any:
        return state / 2, {"loss": state}

    def evaluate(self, state: Any, key: Any) -> Any:
        return {"value": state}


class Walk(NamedTuple):
    position: Float[Array, "3 3"]
    key: Any  # a typed key inside the state
    squash: Any  # not an array
    empty: Float[Array, " 0"]


class NoisyWalk(eqx.Module):
    """A random walk that uses its data, its step's key and a key of its own."""

    drift: Float[Array, "3 3"]

    def init(self, key: Any) -> Walk:
        return Walk(jr.normal(key, (3, 3)), key, jnp.tanh, jnp.zeros(0))

    def step(self, state: Walk, key: Any) -> Any:
        own, key_now = jr.split(state.key)
        noise = jr.normal(key, (3, 3)) + jr.normal(key_now, (3, 3))
        position = state.squash(state.position @ self.drift) + 0.1 * noise
        return state._replace(position=position, key=own), {"loss": jnp.sum(position**2)}

    def evaluate(self, state: Walk, key: Any) -> Any:
        return {"mean": jnp.mean(state.position), "noisy": jr.normal(key)}

    def inspect(self, state: Walk, key: Any) -> Any:
        return {"position": state.position}


class Explode(eqx.Module):
    """Its loss becomes infinite at a given step, for odd initial draws only when told."""

    at: int = eqx.field(static=True)

    def init(self, key: Any) -> Any:
        return jnp.int32(0), jr.uniform(key)

    def step(self, state: Any, key: Any) -> Any:
        count = state[0] + 1
        bad = (count >= self.at) & (state[1] > 0.5)
        return (count, state[1]), {"loss": jnp.where(bad, jnp.inf, 1.0)}

    def evaluate(self, state: Any, key: Any) -> Any:
        return {"count": state[0].astype(jnp.float32)}


class WithFinal(Halve):
    """Has a test that is looked at once."""

    def final(self, state: Any, key: Any) -> Any:
        return {"test": state + 1}


def noisy_walk() -> NoisyWalk:
    return NoisyWalk(jnp.eye(3) * 0.9)


def explodes(seed: int) -> bool:
    """Says whether `Explode` does for a seed."""
    from recombine.training._seeds import seed_keys

    return bool(jax.random.uniform(seed_keys(seed).init) > 0.5)
