"""Work that is left out when nobody needs it, by all seeds together."""

from typing import Any

import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Bool


@custom_vmap
def anyone(wanted: Bool[Array, "..."]) -> Bool[Array, ""]:
    """Says whether anything is wanted, by one answer for all vectorised runs.

    With an answer for every run, `lax.while_loop` would compute each step for all of them, and then
    choose for each whether to keep what it had before.
    """
    return jnp.any(wanted)


@anyone.def_vmap
def _(axis_size: int, in_batched: list[bool], wanted: Array) -> tuple[Any, bool]:
    del axis_size, in_batched
    return anyone(wanted), False
