"""The output decoder: a two-layer LSTM with or without attention (Lake 2019, §3, Eq. 3)."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recombine.methods.seq2seq._interface import Numerics
from recombine.methods.seq2seq._layers import Linear, contract, dropout, embed
from recombine.methods.seq2seq._lstm import LSTM, State
from recombine.methods.seq2seq._wavefront import run_two_layers


class Context(NamedTuple):
    """What an encoder hands to the decoder."""

    steps: Float[Array, "items width m"]  # attended to
    message: Float[Array, "items m"]  # the first state, hidden and cell, of both layers
    lengths: Int[Array, " items"]


class Decoder(eqx.Module):
    r"""Writes the answer symbol by symbol (Lake 2019, §3).

    $$u_j = \mathrm{softmax}(g_j C^\top / \sqrt{m})\, C, \qquad
    \mathrm{logits}_j = W_o \tanh(W_{c_2} [g_j; u_j])$$

    with biases that the paper does not print. The state does not depend on what was attended to, so
    under teacher forcing the LSTM runs over the whole sequence first and all attention follows at
    once. As in the released code, attention is **not** masked by default: padded steps take part,
    and predictions depend on the width of the batch. Without `combine` there is no attention.
    """

    embedding: Float[Array, "symbols m"]
    layers: tuple[LSTM, LSTM]
    combine: Linear | None
    output: Linear

    def __init__(self, num_symbols: int, size: int, *, attends: bool = True, key: PRNGKeyArray):
        keys = jr.split(key, 5)
        self.embedding = jr.normal(keys[0], (num_symbols, size))
        self.layers = (LSTM(size, size, 1, key=keys[1]), LSTM(size, size, 1, key=keys[2]))
        self.combine = Linear(2 * size, size, key=keys[3]) if attends else None
        self.output = Linear(size, num_symbols, key=keys[4])

    @property
    def sos(self) -> int:
        """The index of the symbol that starts an answer."""
        return self.embedding.shape[0] - 2

    @property
    def eos(self) -> int:
        """The index of the symbol that ends an answer."""
        return self.embedding.shape[0] - 1

    def teach(
        self,
        context: Context,
        targets: Int[Array, "items steps"],
        rate: float,
        key: PRNGKeyArray | None,
        numerics: Numerics,
        masked: bool,
    ) -> tuple[Float[Array, "items steps symbols"], Float[Array, "items steps width"] | None]:
        """Scores each target symbol after the true ones before it; also returns the attention."""
        first = self.layers[0]
        shifted = jnp.pad(targets[:, :-1], ((0, 0), (1, 0)), constant_values=self.sos).T
        if key is None or rate == 0.0:
            gates = first.token_gates(shifted, self.embedding, numerics)
            passed = None
        else:
            embedding_key, between_key = jr.split(key)
            embedded = embed(shifted, self.embedding)
            gates = first.gates(dropout(embedded, rate, embedding_key), numerics)
            passed = dropout(jnp.ones_like(embedded), rate, between_key)
        outputs = run_two_layers(self.layers, gates, self.start(context), passed, numerics)
        return self._answer(jnp.swapaxes(outputs, 0, 1), context, numerics, masked)

    def start(self, context: Context) -> tuple[State, State]:
        """Returns the state of both layers before the first symbol."""
        both = context.message[None], context.message[None]
        return both, both

    def first_gates(self, numerics: Numerics) -> Float[Array, "symbols gates"]:
        """Projects every symbol through the first layer's input weights, once for all steps."""
        return self.layers[0].gates(self.embedding[None], numerics)[0, 0]

    def step(
        self,
        first_gates: Float[Array, "symbols gates"],
        state: tuple[State, State],
        previous: Int[Array, " items"],
        context: Context,
        numerics: Numerics,
        masked: bool,
    ) -> tuple[tuple[State, State], Float[Array, "items symbols"]]:
        """Takes one step after the symbols `previous`, without dropout."""
        first, second = self.layers
        lower = first.step(first_gates[previous][None], state[0], numerics)
        upper = second.step(second.gates(lower[0], numerics)[0], state[1], numerics)
        logits, _ = self._answer(upper[0][0][:, None], context, numerics, masked)
        return (lower, upper), logits[:, 0]

    def _answer(
        self,
        hidden: Float[Array, "items steps m"],
        context: Context,
        numerics: Numerics,
        masked: bool,
    ) -> tuple[Float[Array, "items steps symbols"], Float[Array, "items steps width"] | None]:
        if self.combine is None:
            return self.output(hidden, numerics), None
        scores = contract("ijm,iwm->ijw", hidden, context.steps, numerics) / math.sqrt(
            hidden.shape[-1]
        )
        if masked:
            is_real = jnp.arange(context.steps.shape[1])[None] < context.lengths[:, None]
            scores = jnp.where(is_real[:, None], scores, -jnp.inf)
        weights = jax.nn.softmax(scores, axis=-1)
        attended = contract("ijw,iwm->ijm", weights, context.steps, numerics)
        both = jnp.concatenate([hidden, attended], axis=-1)
        return self.output(jnp.tanh(self.combine(both, numerics)), numerics), weights
