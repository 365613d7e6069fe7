"""The one training loop: seeds, steps, evaluation, checkpoints and progress."""

from recombine._cache_folder import cache_folder as cache_folder
from recombine.training._alike import group_alike as group_alike
from recombine.training._cache import enable_compilation_cache as enable_compilation_cache
from recombine.training._checkpoints import Checkpoints as Checkpoints
from recombine.training._errors import (
    CheckpointError as CheckpointError,
    Interrupted as Interrupted,
    LearnerError as LearnerError,
    NonFiniteError as NonFiniteError,
)
from recombine.training._fit import Fit as Fit, fit as fit, inspect_seed as inspect_seed
from recombine.training._fit_many import (
    OneOfMany as OneOfMany,
    Watch as Watch,
    fit_many as fit_many,
)
from recombine.training._history import History as History, Seconds as Seconds
from recombine.training._joining import join_checkpoints as join_checkpoints
from recombine.training._learner import Learner as Learner, Metrics as Metrics
from recombine.training._progress import (
    PlainProgress as PlainProgress,
    Progress as Progress,
    SilentProgress as SilentProgress,
    TerminalProgress as TerminalProgress,
    make_progress as make_progress,
)
from recombine.training._seeds import seeds_share_a_program as seeds_share_a_program
from recombine.training._stopping import StopRequest as StopRequest
