"""The small layers of the networks: products, linear maps, embeddings, dropout."""

import itertools
import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recombine.methods.seq2seq._interface import Numerics


def matmul(
    left: Float[Array, "... i"], right: Float[Array, "... i o"], numerics: Numerics
) -> Float[Array, "... o"]:
    """Multiplies at the chosen precision, always with a float32 result."""
    if numerics.precision == "bfloat16":
        left, right = left.astype(jnp.bfloat16), right.astype(jnp.bfloat16)
        return jnp.matmul(left, right, preferred_element_type=jnp.float32)
    return jnp.matmul(left, right, precision=_rounding(numerics))


def contract(
    formula: str, left: Float[Array, "..."], right: Float[Array, "..."], numerics: Numerics
) -> Float[Array, "..."]:
    """Sums products as `jnp.einsum` does; attention weights are never rounded to bfloat16."""
    return jnp.einsum(formula, left, right, precision=_rounding(numerics))


def _rounding(numerics: Numerics) -> jax.lax.Precision | None:
    return jax.lax.Precision.HIGHEST if numerics.precision == "highest" else None


def uniform(
    key: PRNGKeyArray, shapes: Sequence[tuple[int, ...]], fan: int
) -> list[Float[Array, "..."]]:
    """Draws arrays from U(-1/√fan, 1/√fan), the initialization behind the paper's numbers.

    All in one draw, which compiles faster than one per array.
    """
    bound = 1 / math.sqrt(fan)
    sizes = [math.prod(shape) for shape in shapes]
    drawn = jr.uniform(key, (sum(sizes),), minval=-bound, maxval=bound)
    ends = list(itertools.accumulate(sizes))
    return [
        drawn[end - size : end].reshape(shape)
        for end, size, shape in zip(ends, sizes, shapes, strict=True)
    ]


class Linear(eqx.Module):
    """`x W + b` over the last axis of an array of any rank."""

    weight: Float[Array, "i o"]
    bias: Float[Array, " o"]

    def __init__(self, in_size: int, out_size: int, *, key: PRNGKeyArray):
        self.weight, self.bias = uniform(key, [(in_size, out_size), (out_size,)], in_size)

    def __call__(self, x: Float[Array, "... i"], numerics: Numerics) -> Float[Array, "... o"]:
        """Maps every vector along the last axis."""
        shape = (*x.shape[:-1], self.bias.shape[0])
        rows = x.reshape(-1, x.shape[-1])
        return (matmul(rows, self.weight, numerics) + self.bias[None]).reshape(shape)


def embed(tokens: Int[Array, "... "], table: Float[Array, "symbols m"]) -> Float[Array, "... m"]:
    """Looks tokens up in a table.

    A product with one-hot rows, not a gather: the alphabets are tiny, and its gradient is a product
    too, where a gather's would be a scatter whose sums a GPU adds in no fixed order. Full precision
    keeps the looked-up numbers exact.
    """
    one_hot = jax.nn.one_hot(tokens, table.shape[0], dtype=table.dtype)
    return jnp.matmul(one_hot, table, precision=jax.lax.Precision.HIGHEST)


def dropout(
    x: Float[Array, " *shape"], rate: float, key: PRNGKeyArray | None
) -> Float[Array, " *shape"]:
    """Zeroes elements with probability `rate` and scales up the rest; no key, no dropout."""
    if key is None or rate == 0.0:
        return x
    return jnp.where(_keep(key, x.shape, rate), x / (1 - rate), 0)


def _keep(key: PRNGKeyArray, shape: tuple[int, ...], rate: float) -> Array:
    if rate != 0.5:
        return jr.bernoulli(key, 1 - rate, shape)
    # One random bit per element is enough for a half: draw words and take them apart.
    size = math.prod(shape)
    words = jr.bits(key, (-(-size // 32), 1), jnp.uint32)
    bits = (words >> jnp.arange(32, dtype=jnp.uint32)[None]) & 1
    return bits.reshape(-1)[:size].reshape(shape).astype(bool)
