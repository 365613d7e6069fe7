"""Meta seq2seq: a sequence-to-sequence network with a memory of shown pairs (Lake 2019, §3)."""

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from recombine.methods.seq2seq import _greedy
from recombine.methods.seq2seq._decoder import Context, Decoder
from recombine.methods.seq2seq._encoder import Encoded, SequenceEncoder
from recombine.methods.seq2seq._interface import Numerics, Pairs, Sequences
from recombine.methods.seq2seq._layers import Linear, contract


@dataclass(frozen=True)
class MetaSeq2SeqConfig:
    """The numbers of a network; the defaults are those of Lake (2019), §4.1."""

    num_inputs: int
    """Input symbols, SOS and EOS included."""
    num_outputs: int
    """Output symbols, SOS and EOS included."""
    size: int = 200
    dropout: float = 0.5
    attends: bool = True
    """Whether the decoder has attention; the lesion of Table 2 has none."""
    mask_decoder_attention: bool = False
    """Whether padding is kept out of the decoder's attention; the released code lets it in."""
    numerics: Numerics = field(default_factory=Numerics)

    def __post_init__(self) -> None:
        check_sizes(self.num_inputs, self.num_outputs, self.size, self.dropout)

    def make(self, *, key: PRNGKeyArray) -> "MetaSeq2Seq":
        """Builds a network with fresh parameters."""
        return MetaSeq2Seq(self, key=key)


class Memory(NamedTuple):
    """The support set as keys (encoded inputs) and values (encoded outputs)."""

    keys: Float[Array, "shown m"]
    values: Float[Array, "shown m"]
    present: Bool[Array, " shown"]


class MemoryEncoder(eqx.Module):
    r"""Reads queries in the light of the support set (Lake 2019, §3, Eq. 2).

    $$A = \mathrm{softmax}(Q K^\top / \sqrt{m}), \quad M = A V, \quad
    C_t = \tanh(W_{c_1} [h_t; M_t])$$

    with a bias that the paper does not print. Keys are the vectors of whole sequences, queries are
    single steps. `inputs` reads support and query inputs alike.
    """

    inputs: SequenceEncoder
    outputs: SequenceEncoder
    combine: Linear

    def __init__(self, num_inputs: int, num_outputs: int, size: int, *, key: PRNGKeyArray):
        input_key, output_key, combine_key = jr.split(key, 3)
        self.inputs = SequenceEncoder(num_inputs, size, key=input_key)
        self.outputs = SequenceEncoder(num_outputs, size, key=output_key)
        self.combine = Linear(2 * size, size, key=combine_key)

    def look_up(
        self, memory: Memory, queries: Encoded, numerics: Numerics
    ) -> tuple[Float[Array, "items width m"], Float[Array, "items width shown"]]:
        """Returns the context of every query step, and how it attended to the support."""
        scores = contract("iwm,sm->iws", queries.steps, memory.keys, numerics)
        scores = scores / math.sqrt(memory.keys.shape[-1])
        scores = jnp.where(memory.present[None, None], scores, -jnp.inf)
        weights = jax.nn.softmax(scores, axis=-1)
        read = contract("iws,sm->iwm", weights, memory.values, numerics)
        both = jnp.concatenate([queries.steps, read], axis=-1)
        return jnp.tanh(self.combine(both, numerics)), weights


class MetaSeq2Seq(eqx.Module):
    """Learns a language from a support set, within its activations (Lake 2019, §3, Fig. 1).

    The two parts are also the two groups of parameters whose gradients are clipped apart.
    """

    encoder: MemoryEncoder
    decoder: Decoder
    config: MetaSeq2SeqConfig = eqx.field(static=True)

    def __init__(self, config: MetaSeq2SeqConfig, *, key: PRNGKeyArray):
        encoder_key, decoder_key = jr.split(key)
        sizes = config.num_inputs, config.num_outputs, config.size
        self.encoder = MemoryEncoder(*sizes, key=encoder_key)
        self.decoder = Decoder(
            config.num_outputs, config.size, attends=config.attends, key=decoder_key
        )
        self.config = config

    def logits(
        self, support: Pairs, queries: Pairs, key: PRNGKeyArray | None
    ) -> Float[Array, "items steps symbols"]:
        """Scores the answers to queries under teacher forcing; `key` switches dropout on.

        Support inputs and query inputs are read in one batch, each row with its own dropout, even
        where the same item stands in both.
        """
        config = self.config
        input_key, output_key, decoder_key = (None,) * 3 if key is None else jr.split(key, 3)
        num_shown = support.inputs.lengths.shape[0]
        both = jax.tree.map(_append, support.inputs, queries.inputs)
        read = self.encoder.inputs(both, config.dropout, input_key, config.numerics)
        shown = self.encoder.outputs(support.outputs, config.dropout, output_key, config.numerics)
        present = support.inputs.lengths > 0
        memory = Memory(read.vectors[:num_shown], shown.vectors, present)
        asked = Encoded(read.steps[num_shown:], read.vectors[num_shown:])
        context, _ = self._context(memory, asked, queries.inputs.lengths)
        targets = queries.outputs.tokens
        arguments = config.dropout, decoder_key, config.numerics, config.mask_decoder_attention
        return self.decoder.teach(context, targets, *arguments)[0]

    def remember(self, support: Pairs) -> Memory:
        """Encodes a support set, without dropout."""
        numerics = self.config.numerics
        keys = self.encoder.inputs(support.inputs, 0.0, None, numerics).vectors
        values = self.encoder.outputs(support.outputs, 0.0, None, numerics).vectors
        return Memory(keys, values, support.inputs.lengths > 0)

    def read(
        self, memory: Memory, inputs: Sequences
    ) -> tuple[Context, Float[Array, "items width shown"]]:
        """Encodes queries given an encoded support set; also returns the memory's attention."""
        encoded = self.encoder.inputs(inputs, 0.0, None, self.config.numerics)
        return self._context(memory, encoded, inputs.lengths)

    def matches(self, support: Pairs, queries: Pairs) -> Bool[Array, " items"]:
        """Says which queries greedy decoding answers exactly."""
        return self.matches_from(self.remember(support), queries)

    def matches_from(self, memory: Memory, queries: Pairs) -> Bool[Array, " items"]:
        """Does the same with a support set that is already encoded."""
        context, _ = self.read(memory, queries.inputs)
        width = queries.outputs.tokens.shape[1]
        answers = decode_context(self, context, width, queries.outputs)
        return _greedy.is_match(answers, queries.outputs)

    def predict(
        self, support: Pairs, inputs: Sequences, max_steps: int
    ) -> Int[Array, "items max_steps"]:
        """Decodes greedily; what follows the first EOS is EOS."""
        context, _ = self.read(self.remember(support), inputs)
        return decode_context(self, context, max_steps)

    def attention(
        self, support: Pairs, inputs: Sequences, outputs: Int[Array, "items steps"]
    ) -> dict[str, Float[Array, "..."]]:
        """Returns the attention to the support and, if there is any, to the query's steps."""
        context, memory_weights = self.read(self.remember(support), inputs)
        config = self.config
        arguments = 0.0, None, config.numerics, config.mask_decoder_attention
        _, decoder_weights = self.decoder.teach(context, outputs, *arguments)
        found = {"memory_attention": memory_weights}
        if decoder_weights is not None:
            found["decoder_attention"] = decoder_weights
        return found

    def _context(
        self, memory: Memory, queries: Encoded, lengths: Int[Array, " items"]
    ) -> tuple[Context, Float[Array, "items width shown"]]:
        steps, weights = self.encoder.look_up(memory, queries, self.config.numerics)
        return Context(steps, last_step(steps, lengths), lengths), weights


def last_step(
    steps: Float[Array, "items width m"], lengths: Int[Array, " items"]
) -> Float[Array, "items m"]:
    """Picks the last real step of each row, by a sum so that its gradient is no scatter."""
    is_last = jnp.arange(steps.shape[1])[None] == lengths[:, None] - 1
    return jnp.sum(jnp.where(is_last[:, :, None], steps, 0.0), axis=1)


def decode_context(
    model: Any, context: Context, max_steps: int, targets: Sequences | None = None
) -> Int[Array, "items max_steps"]:
    """Decodes greedily from an encoder's context, with any model that has a `Decoder`."""
    decoder: Decoder = model.decoder
    numerics, masked = model.config.numerics, model.config.mask_decoder_attention
    gates = decoder.first_gates(numerics)

    def step(state: Any, previous: Int[Array, " items"]) -> tuple[Any, Array]:
        return decoder.step(gates, state, previous, context, numerics, masked)

    num_items = context.lengths.shape[0]
    ends = {"sos": decoder.sos, "eos": decoder.eos}
    return _greedy.decode(
        step, decoder.start(context), num_items, **ends, max_steps=max_steps, targets=targets
    )


def check_sizes(num_inputs: int, num_outputs: int, size: int, dropout: float) -> None:
    """Refuses numbers that no network can have."""
    for name, value, least in [
        ("num_inputs", num_inputs, 3),
        ("num_outputs", num_outputs, 3),
        ("size", size, 1),
    ]:
        if value < least:
            raise ValueError(f"`{name}` must be at least {least}; got {value}")
    if not 0.0 <= dropout < 1.0:
        raise ValueError(
            "`dropout` is the probability of zeroing a unit, so it must lie in [0, 1); "
            f"got {dropout}. Use 0 to switch dropout off."
        )


def _append(first: Array, second: Array) -> Array:
    return jnp.concatenate([first, second])
