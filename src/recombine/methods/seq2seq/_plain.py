"""Plain seq2seq with attention, the baseline without a memory (Lake 2019, §4.3)."""

from dataclasses import dataclass, field

import equinox as eqx
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from recombine.methods.seq2seq import _greedy
from recombine.methods.seq2seq._decoder import Context, Decoder
from recombine.methods.seq2seq._encoder import SequenceEncoder
from recombine.methods.seq2seq._interface import Numerics, Pairs, Sequences
from recombine.methods.seq2seq._meta import check_sizes, decode_context


@dataclass(frozen=True)
class PlainSeq2SeqConfig:
    """The numbers of a network; the defaults are those of Lake (2019), §4.1."""

    num_inputs: int
    num_outputs: int
    size: int = 200
    dropout: float = 0.5
    mask_decoder_attention: bool = False
    numerics: Numerics = field(default_factory=Numerics)

    def __post_init__(self) -> None:
        check_sizes(self.num_inputs, self.num_outputs, self.size, self.dropout)

    def make(self, *, key: PRNGKeyArray) -> "PlainSeq2Seq":
        """Builds a network with fresh parameters."""
        return PlainSeq2Seq(self, key=key)


class PlainSeq2Seq(eqx.Module):
    """Encodes a query and decodes the answer; support sets are ignored (Lake 2019, §4.3).

    Unlike the network with a memory, the decoder starts from the vector of the whole query, and
    attends to the encoder's steps themselves, which are zeros at padding.
    """

    encoder: SequenceEncoder
    decoder: Decoder
    config: PlainSeq2SeqConfig = eqx.field(static=True)

    def __init__(self, config: PlainSeq2SeqConfig, *, key: PRNGKeyArray):
        encoder_key, decoder_key = jr.split(key)
        self.encoder = SequenceEncoder(config.num_inputs, config.size, key=encoder_key)
        self.decoder = Decoder(config.num_outputs, config.size, key=decoder_key)
        self.config = config

    def logits(
        self, support: Pairs | None, queries: Pairs, key: PRNGKeyArray | None
    ) -> Float[Array, "items steps symbols"]:
        """Scores the answers to queries under teacher forcing; `key` switches dropout on."""
        del support
        config = self.config
        encoder_key, decoder_key = (None, None) if key is None else jr.split(key)
        context = self._context(queries.inputs, config.dropout, encoder_key)
        arguments = config.dropout, decoder_key, config.numerics, config.mask_decoder_attention
        return self.decoder.teach(context, queries.outputs.tokens, *arguments)[0]

    def matches(self, support: Pairs | None, queries: Pairs) -> Bool[Array, " items"]:
        """Says which queries greedy decoding answers exactly."""
        del support
        context = self._context(queries.inputs, 0.0, None)
        width = queries.outputs.tokens.shape[1]
        answers = decode_context(self, context, width, queries.outputs)
        return _greedy.is_match(answers, queries.outputs)

    def predict(
        self, support: Pairs | None, inputs: Sequences, max_steps: int
    ) -> Int[Array, "items max_steps"]:
        """Decodes greedily; what follows the first EOS is EOS."""
        del support
        return decode_context(self, self._context(inputs, 0.0, None), max_steps)

    def attention(
        self, support: Pairs | None, inputs: Sequences, outputs: Int[Array, "items steps"]
    ) -> dict[str, Float[Array, "..."]]:
        """Returns the attention to the query's steps."""
        del support
        context = self._context(inputs, 0.0, None)
        arguments = 0.0, None, self.config.numerics, self.config.mask_decoder_attention
        _, weights = self.decoder.teach(context, outputs, *arguments)
        return {} if weights is None else {"decoder_attention": weights}

    def _context(self, inputs: Sequences, rate: float, key: PRNGKeyArray | None) -> Context:
        encoded = self.encoder(inputs, rate, key, self.config.numerics)
        return Context(encoded.steps, encoded.vectors, inputs.lengths)
