"""Meta seq2seq and its baselines: networks that translate, with or without shown examples."""

from recombine.methods.seq2seq._decoder import Context as Context
from recombine.methods.seq2seq._decoder import Decoder as Decoder
from recombine.methods.seq2seq._encoder import Encoded as Encoded
from recombine.methods.seq2seq._encoder import SequenceEncoder as SequenceEncoder
from recombine.methods.seq2seq._greedy import decode as decode
from recombine.methods.seq2seq._greedy import is_match as is_match
from recombine.methods.seq2seq._interface import EpisodeSource as EpisodeSource
from recombine.methods.seq2seq._interface import Numerics as Numerics
from recombine.methods.seq2seq._layers import Linear as Linear
from recombine.methods.seq2seq._layers import dropout as dropout
from recombine.methods.seq2seq._layers import embed as embed
from recombine.methods.seq2seq._learner import Seq2SeqLearner as Seq2SeqLearner
from recombine.methods.seq2seq._learner import State as State
from recombine.methods.seq2seq._learner import accuracy as accuracy
from recombine.methods.seq2seq._learner import exact_matches as exact_matches
from recombine.methods.seq2seq._loss import episode_loss as episode_loss
from recombine.methods.seq2seq._loss import token_loss as token_loss
from recombine.methods.seq2seq._lstm import LSTM as LSTM
from recombine.methods.seq2seq._meta import Memory as Memory
from recombine.methods.seq2seq._meta import MemoryEncoder as MemoryEncoder
from recombine.methods.seq2seq._meta import MetaSeq2Seq as MetaSeq2Seq
from recombine.methods.seq2seq._meta import MetaSeq2SeqConfig as MetaSeq2SeqConfig
from recombine.methods.seq2seq._optimizer import OptimizerConfig as OptimizerConfig
from recombine.methods.seq2seq._optimizer import apply_gradients as apply_gradients
from recombine.methods.seq2seq._optimizer import clip_by_norm as clip_by_norm
from recombine.methods.seq2seq._optimizer import init_optimizer as init_optimizer
from recombine.methods.seq2seq._plain import PlainSeq2Seq as PlainSeq2Seq
from recombine.methods.seq2seq._plain import PlainSeq2SeqConfig as PlainSeq2SeqConfig
from recombine.methods.seq2seq._syntactic import SyntacticAttention as SyntacticAttention
from recombine.methods.seq2seq._syntactic import (
    SyntacticAttentionConfig as SyntacticAttentionConfig,
)
