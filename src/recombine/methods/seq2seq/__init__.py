"""Meta seq2seq and its baselines: networks that translate, with or without shown examples."""

from recombine.methods.seq2seq._decoder import Context as Context, Decoder as Decoder
from recombine.methods.seq2seq._encoder import (
    Encoded as Encoded,
    SequenceEncoder as SequenceEncoder,
)
from recombine.methods.seq2seq._greedy import decode as decode, is_match as is_match
from recombine.methods.seq2seq._interface import (
    EpisodeSource as EpisodeSource,
    Numerics as Numerics,
)
from recombine.methods.seq2seq._layers import Linear as Linear, dropout as dropout, embed as embed
from recombine.methods.seq2seq._learner import (
    Seq2SeqLearner as Seq2SeqLearner,
    State as State,
    accuracy as accuracy,
    exact_matches as exact_matches,
)
from recombine.methods.seq2seq._loss import episode_loss as episode_loss, token_loss as token_loss
from recombine.methods.seq2seq._lstm import LSTM as LSTM
from recombine.methods.seq2seq._meta import (
    Memory as Memory,
    MemoryEncoder as MemoryEncoder,
    MetaSeq2Seq as MetaSeq2Seq,
    MetaSeq2SeqConfig as MetaSeq2SeqConfig,
)
from recombine.methods.seq2seq._optimizer import (
    OptimizerConfig as OptimizerConfig,
    apply_gradients as apply_gradients,
    clip_by_norm as clip_by_norm,
    init_optimizer as init_optimizer,
)
from recombine.methods.seq2seq._plain import (
    PlainSeq2Seq as PlainSeq2Seq,
    PlainSeq2SeqConfig as PlainSeq2SeqConfig,
)
from recombine.methods.seq2seq._syntactic import (
    SyntacticAttention as SyntacticAttention,
    SyntacticAttentionConfig as SyntacticAttentionConfig,
)
