"""Syntactic attention (Russin, Jo, O'Reilly & Bengio 2019), the baseline of Lake (2019), Table 2.

One stream knows what words mean and nothing of their order; the other knows the order and decides
where to look. The answer is read off the first stream alone. What was answered is never fed back,
so that there is neither teacher forcing nor a search: the answer is a function of the query.

The released code is right for single examples only; here batches are masked, and the vector that
stands for the end is put at the end of each sequence. Initial values of the two boundary vectors
are drawn like embeddings.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from recombine.methods.seq2seq import _greedy
from recombine.methods.seq2seq._interface import Numerics, Pairs, Sequences
from recombine.methods.seq2seq._layers import Linear, contract, dropout, embed, matmul
from recombine.methods.seq2seq._lstm import LSTM
from recombine.methods.seq2seq._meta import check_sizes
from recombine.methods.seq2seq._shortening import only_needed_steps


@dataclass(frozen=True)
class SyntacticAttentionConfig:
    """The numbers of a network; the defaults are those of the released code."""

    num_inputs: int
    num_outputs: int
    meaning_size: int = 120
    syntax_size: int = 200
    dropout: float = 0.5
    numerics: Numerics = field(default_factory=Numerics)

    def __post_init__(self) -> None:
        check_sizes(self.num_inputs, self.num_outputs, self.meaning_size, self.dropout)
        if self.syntax_size < 2 or self.syntax_size % 2:
            raise ValueError(f"`syntax_size` must be even; got {self.syntax_size}")

    def make(self, *, key: PRNGKeyArray) -> "SyntacticAttention":
        """Builds a network with fresh parameters."""
        return SyntacticAttention(self, key=key)


class Streams(NamedTuple):
    """Both readings of a query, framed by SOS and EOS."""

    meanings: Float[Array, "items framed s"]
    syntax: Float[Array, "items framed d"]
    first: Float[Array, "items d"]  # where to look first
    is_real: Bool[Array, "items framed"]


class SyntaxEncoder(eqx.Module):
    """Both streams: word meanings without order, and the order of what surrounds each word."""

    meaning: Float[Array, "symbols s"]
    syntax: Float[Array, "symbols half"]
    sos_vector: Float[Array, " x"]
    eos_vector: Float[Array, " x"]
    surroundings: LSTM
    structure: LSTM
    start: Linear

    def __init__(self, config: SyntacticAttentionConfig, *, key: PRNGKeyArray):
        keys = jr.split(key, 7)
        size, half = config.syntax_size, config.syntax_size // 2
        num_symbols = config.num_inputs + 1  # the released code keeps an unused symbol
        self.meaning = jr.normal(keys[0], (num_symbols, config.meaning_size))
        self.syntax = jr.normal(keys[1], (num_symbols, half))
        self.sos_vector = jr.normal(keys[2], (size,))
        self.eos_vector = jr.normal(keys[3], (size,))
        self.surroundings = LSTM(half, half, 2, key=keys[4])
        self.structure = LSTM(size, size, 2, key=keys[5])
        self.start = Linear(2 * size, 2 * size, key=keys[6])

    def __call__(
        self, inputs: Sequences, rate: float, key: PRNGKeyArray | None, numerics: Numerics
    ) -> Streams:
        """Reads queries; a word's own embedding stays out of its place in the syntax stream."""
        meaning_key, syntax_key = (None, None) if key is None else jr.split(key)
        sos = self.meaning.shape[0] - 3
        tokens = jnp.pad(inputs.tokens, ((0, 0), (1, 0)), constant_values=sos).T
        lengths = inputs.lengths + 1
        meanings = dropout(embed(tokens, self.meaning), rate, meaning_key)
        words = dropout(embed(tokens, self.syntax), rate, syntax_key)
        around, _ = self.surroundings.run(
            self.surroundings.gates(words, numerics), None, lengths, numerics
        )
        before = jnp.pad(around[:-1, 0], ((1, 0), (0, 0), (0, 0)))
        after = jnp.pad(around[1:, 1], ((0, 1), (0, 0), (0, 0)))
        places = jnp.concatenate([before, after], axis=-1)
        position = jnp.arange(tokens.shape[0])[:, None, None]
        places = jnp.where(position == 0, self.sos_vector[None, None], places)
        is_last = position == lengths[None, :, None] - 1
        places = jnp.where(is_last, self.eos_vector[None, None], places)
        gates = self.structure.gates(places, numerics)
        outputs, (last, _) = self.structure.run(gates, None, lengths, numerics)
        both = jnp.concatenate([outputs[:, 0], outputs[:, 1]], axis=-1)
        first = jax.nn.relu(self.start(jnp.concatenate([last[0], last[1]], axis=-1), numerics))
        is_real = (position[..., 0] < lengths[None]).T
        return Streams(jnp.swapaxes(meanings, 0, 1), jnp.swapaxes(both, 0, 1), first, is_real)


class SyntaxDecoder(eqx.Module):
    """Moves the attention from step to step and reads the answer off the meanings."""

    lstm: LSTM
    output: Linear

    def __init__(self, config: SyntacticAttentionConfig, *, key: PRNGKeyArray):
        lstm_key, output_key = jr.split(key)
        size = 2 * config.syntax_size
        self.lstm = LSTM(size, size, 1, key=lstm_key)
        self.output = Linear(config.meaning_size, config.num_outputs, key=output_key)

    def __call__(
        self, streams: Streams, num_steps: int, numerics: Numerics
    ) -> tuple[Float[Array, "items steps symbols"], Float[Array, "items steps framed"]]:
        """Returns the scores of every step and where each looked."""
        # The attended syntax goes through the input weights, which commute with the average: the
        # places are projected once, and each step averages projections.
        projected = matmul(streams.syntax, self.lstm.input_weight, numerics)
        projected = projected + self.lstm.bias
        zeros = jnp.zeros_like(streams.first)[None]

        def step(carry: tuple, _: None) -> tuple[tuple, Array]:
            looking, state = carry
            scores = contract("iwd,id->iw", streams.syntax, looking, numerics)
            weights = jax.nn.softmax(jnp.where(streams.is_real, scores, -jnp.inf), axis=-1)
            gates = contract("iw,iwg->ig", weights, projected, numerics)
            state = self.lstm.step(gates[None], state, numerics)
            return (state[0][0], state), weights

        carry = (streams.first, (zeros, zeros))
        _, weights = jax.lax.scan(step, carry, None, length=num_steps, unroll=numerics.unroll)
        weights = jnp.swapaxes(weights, 0, 1)
        read = contract("ijw,iws->ijs", weights, streams.meanings, numerics)
        return self.output(read, numerics), weights


class SyntacticAttention(eqx.Module):
    """Separates what words mean from where to look (Russin et al. 2019; Lake 2019, Table 2)."""

    encoder: SyntaxEncoder
    decoder: SyntaxDecoder
    config: SyntacticAttentionConfig = eqx.field(static=True)

    def __init__(self, config: SyntacticAttentionConfig, *, key: PRNGKeyArray):
        encoder_key, decoder_key = jr.split(key)
        self.encoder = SyntaxEncoder(config, key=encoder_key)
        self.decoder = SyntaxDecoder(config, key=decoder_key)
        self.config = config

    def logits(
        self, support: Pairs | None, queries: Pairs, key: PRNGKeyArray | None
    ) -> Float[Array, "items steps symbols"]:
        """Scores every step of the answers, zeros after the last; `key` switches dropout on."""
        del support
        config = self.config
        streams = self.encoder(queries.inputs, config.dropout, key, config.numerics)
        lengths, longest = queries.outputs.lengths, queries.outputs.tokens.shape[1]
        return only_needed_steps(
            lambda steps: self.decoder(streams, steps, config.numerics)[0], lengths, longest
        )

    def matches(self, support: Pairs | None, queries: Pairs) -> Bool[Array, " items"]:
        """Says which queries are answered exactly."""
        answers = self.predict(support, queries.inputs, queries.outputs.tokens.shape[1])
        return _greedy.is_match(answers, queries.outputs)

    def predict(
        self, support: Pairs | None, inputs: Sequences, max_steps: int
    ) -> Int[Array, "items max_steps"]:
        """Takes the most likely symbol at every step; what follows the first EOS is EOS."""
        del support
        answers = jnp.argmax(self._answer(inputs, max_steps)[0], axis=-1)
        eos = self.config.num_outputs - 1
        ended = jnp.cumsum(answers == eos, axis=-1) > 0
        return jnp.where(ended, eos, answers)

    def attention(
        self, support: Pairs | None, inputs: Sequences, outputs: Int[Array, "items steps"]
    ) -> dict[str, Float[Array, "..."]]:
        """Returns the attention to the framed query (SOS, words, EOS)."""
        del support
        return {"decoder_attention": self._answer(inputs, outputs.shape[1])[1]}

    def _answer(
        self, inputs: Sequences, num_steps: int
    ) -> tuple[Float[Array, "items steps symbols"], Float[Array, "items steps framed"]]:
        config = self.config
        streams = self.encoder(inputs, 0.0, None, config.numerics)
        return self.decoder(streams, num_steps, config.numerics)
