"""Latents: how strongly each active module of a task counts (Schug et al. 2024)."""

import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray


def continuous_latents(
    key: PRNGKeyArray, masks: Bool[Array, "*tasks modules"]
) -> Float[Array, "*tasks modules"]:
    """Draws weights in [0.5, 1) for the active modules; the others are exactly 0.

    Independent exponential numbers w of the active modules become 0.5 + 0.5 w / (Σ w + 1). The
    constant 1 is the authors': it is not the uniform law on a simplex, which would have one more
    exponential number in its place.
    """
    weights = jnp.where(masks, jr.exponential(key, masks.shape), 0.0)
    shares = weights / (jnp.sum(weights, axis=-1, keepdims=True) + 1.0)
    # Rounding could carry a huge weight's share to 1: the interval is open at its end.
    below_one = jnp.minimum(0.5 + 0.5 * shares, 1 - jnp.finfo(weights.dtype).epsneg)
    return jnp.where(masks, below_one, 0.0)


def unit_latents(masks: Bool[Array, "*tasks modules"]) -> Float[Array, "*tasks modules"]:
    """Returns masks as vectors of length 1: the discrete latents of the theory."""
    sizes = jnp.sqrt(jnp.sum(masks, axis=-1, keepdims=True, dtype=jnp.float32))
    return masks / jnp.maximum(sizes, 1.0)


def random_masks(
    key: PRNGKeyArray, shape: tuple[int, ...], num_modules: int, num_active: int
) -> Bool[Array, "*shape modules"]:
    """Draws masks with exactly `num_active` active modules, all of them equally likely."""
    numbers = jr.uniform(key, (*shape, num_modules))
    ranks = jnp.argsort(jnp.argsort(numbers, axis=-1), axis=-1)
    return ranks < num_active
