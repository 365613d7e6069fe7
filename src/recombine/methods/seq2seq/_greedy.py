"""Greedy decoding on the device, which stops when there is nothing left to find out."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from recombine.methods.seq2seq._interface import Sequences

Step = Callable[[Any, Int[Array, " items"]], tuple[Any, Float[Array, "items symbols"]]]


def decode(
    step: Step,
    state: PyTree,
    num_items: int,
    *,
    sos: int,
    eos: int,
    max_steps: int,
    targets: Sequences | None = None,
) -> Int[Array, "items max_steps"]:
    """Feeds each most likely symbol (the first, of ties) back in, from SOS until EOS.

    What follows the first EOS of a row is EOS. Ends as soon as all rows have ended. With `targets`,
    a row also ends at its first wrong symbol: enough to tell right from wrong, and much sooner.
    """
    if targets is None:
        started = jnp.zeros(num_items, bool)
        wanted = None
    else:
        started = targets.lengths == 0
        missing = max(0, max_steps - targets.tokens.shape[1])
        wanted = jnp.pad(targets.tokens, ((0, 0), (0, missing)), constant_values=eos).T

    def unfinished(carry: tuple) -> Bool[Array, ""]:
        position, _, _, ended, _ = carry
        return (position < max_steps) & ~jnp.all(ended)

    def advance(carry: tuple) -> tuple:
        position, state, previous, ended, written = carry
        state, logits = step(state, previous)
        symbol = jnp.where(ended, eos, jnp.argmax(logits, axis=-1))
        written = jax.lax.dynamic_update_index_in_dim(written, symbol, position, 0)
        ended = ended | (symbol == eos)
        if wanted is not None:
            ended = ended | (symbol != wanted[position])
        return position + 1, state, symbol, ended, written

    first = jnp.full(num_items, sos)
    written = jnp.full((max_steps, num_items), eos, first.dtype)
    carry = (jnp.array(0), state, first, started, written)
    return jax.lax.while_loop(unfinished, advance, carry)[-1].T


def is_match(answers: Int[Array, "items steps"], targets: Sequences) -> Bool[Array, " items"]:
    """Says which answers equal their target up to and including its EOS."""
    width = targets.tokens.shape[1]
    is_real = jnp.arange(width)[None] < targets.lengths[:, None]
    agrees = (answers[:, :width] == targets.tokens) | ~is_real
    return jnp.all(agrees, axis=-1) & (targets.lengths > 0)
