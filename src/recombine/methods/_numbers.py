"""Settings as array leaves, so that their values are no part of a compiled program."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float


def number(value: Any) -> Float[Array, ""]:
    """Makes an array leaf of a number, in the precision that JAX is set to."""
    return jnp.asarray(value, jnp.result_type(float))


def optional_number(value: Any) -> Float[Array, ""] | None:
    """Does the same, and leaves None as it is."""
    return None if value is None else number(value)
