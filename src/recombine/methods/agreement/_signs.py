"""The sign of a gradient, of which what is not a number has none."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float, Num


def sign(values: Float[Array, " *shape"], dtype: Any = jnp.float32) -> Num[Array, " *shape"]:
    """Returns 1, 0 or -1; unlike `jnp.sign`, 0 for what is not a number.

    So sums and averages of signs stay finite, and what is not finite shows in the gradients.
    """
    return (values > 0).astype(dtype) - (values < 0).astype(dtype)
