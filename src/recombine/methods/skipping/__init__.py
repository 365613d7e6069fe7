"""Adaptive skip intervals: a dynamics model that chooses its own time step."""

from recombine.methods.skipping._aligned_loss import (
    aligned_loss as aligned_loss,
    alignment_costs as alignment_costs,
    free_run as free_run,
)
from recombine.methods.skipping._alignment import (
    Alignment as Alignment,
    best_alignment as best_alignment,
    soft_alignment_cost as soft_alignment_cost,
)
from recombine.methods.skipping._convolution import (
    Convolution as Convolution,
    Precision as Precision,
)
from recombine.methods.skipping._copying import (
    start_as_copy as start_as_copy,
)
from recombine.methods.skipping._data import (
    Trajectories as Trajectories,
    as_trajectories as as_trajectories,
    pad_trajectories as pad_trajectories,
)
from recombine.methods.skipping._evaluation import (
    Followed as Followed,
    Outcomes as Outcomes,
    Scores as Scores,
    evaluation_depth as evaluation_depth,
    read_free_run as read_free_run,
    read_matched_run as read_matched_run,
    score_outcomes as score_outcomes,
)
from recombine.methods.skipping._frames import (
    BINARY_CROSS_ENTROPY as BINARY_CROSS_ENTROPY,
    BinaryCrossEntropy as BinaryCrossEntropy,
    FrameLoss as FrameLoss,
    SquaredError as SquaredError,
    as_floats as as_floats,
)
from recombine.methods.skipping._learner import (
    Matching as Matching,
    Phase as Phase,
    SkipLearner as SkipLearner,
    SkipTraining as SkipTraining,
)
from recombine.methods.skipping._loss import (
    Rollout as Rollout,
    skip_loss as skip_loss,
)
from recombine.methods.skipping._matching import (
    Batch as Batch,
)
from recombine.methods.skipping._outcome import (
    LearnedReader as LearnedReader,
    LearnedReaderShape as LearnedReaderShape,
    OutcomeReader as OutcomeReader,
    reader_loss as reader_loss,
)
from recombine.methods.skipping._schedules import (
    Schedule as Schedule,
    exploration_rate as exploration_rate,
    stairs as stairs,
    truth_rate as truth_rate,
)
from recombine.methods.skipping._skips import (
    Coins as Coins,
    Skips as Skips,
    flip_coins as flip_coins,
)
from recombine.methods.skipping._spikes import (
    shorten_spikes as shorten_spikes,
)
from recombine.methods.skipping._vector_model import (
    VectorModel as VectorModel,
    VectorModelShape as VectorModelShape,
    View as View,
)
from recombine.methods.skipping._video_model import (
    Architecture as Architecture,
    Start as Start,
    VideoModel as VideoModel,
    VideoModelShape as VideoModelShape,
)
