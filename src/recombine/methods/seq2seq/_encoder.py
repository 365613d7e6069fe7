"""The sequence encoder: embedding, two-layer biLSTM, directions summed (Lake 2019, §3)."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.seq2seq._interface import Numerics, Sequences
from recombine.methods.seq2seq._layers import dropout, embed
from recombine.methods.seq2seq._lstm import LSTM


class Encoded(NamedTuple):
    """Two summaries that are not interchangeable.

    The vector of a sequence adds the last states of both directions. The last real step adds the
    last forward state to a backward one that has read EOS alone.
    """

    steps: Float[Array, "items width m"]  # zeros beyond the end
    vectors: Float[Array, "items m"]


class SequenceEncoder(eqx.Module):
    """Reads sequences, a batch at a time, in both directions (Lake 2019, §3, Eq. 1).

    A batch rather than one example, because the loops over time are what costs: all sequences go
    through them together. The paper leaves open how the directions merge; its released code adds
    them.
    """

    embedding: Float[Array, "symbols m"]
    layers: tuple[LSTM, LSTM]

    def __init__(self, num_symbols: int, size: int, *, key: PRNGKeyArray):
        embedding_key, first_key, second_key = jr.split(key, 3)
        self.embedding = jr.normal(embedding_key, (num_symbols, size))
        first = LSTM(size, size, 2, key=first_key)
        self.layers = (first, LSTM(2 * size, size, 2, key=second_key))

    def __call__(
        self, sequences: Sequences, rate: float, key: PRNGKeyArray | None, numerics: Numerics
    ) -> Encoded:
        """Encodes every step and every whole sequence; with a key, under dropout."""
        tokens, lengths = sequences.tokens.T, sequences.lengths
        first, second = self.layers
        if key is None or rate == 0.0:
            gates = first.token_gates(tokens, self.embedding, numerics)
            between_key = None
        else:
            embedding_key, between_key = jr.split(key)
            embedded = dropout(embed(tokens, self.embedding), rate, embedding_key)
            gates = first.gates(embedded, numerics)
        outputs, _ = first.run(gates, None, lengths, numerics)
        both = jnp.concatenate([outputs[:, 0], outputs[:, 1]], axis=-1)
        both = dropout(both, rate, between_key)
        outputs, (last, _) = second.run(second.gates(both, numerics), None, lengths, numerics)
        return Encoded(jnp.swapaxes(outputs.sum(axis=1), 0, 1), last.sum(axis=0))
