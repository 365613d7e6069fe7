"""The one training loop: seeds, steps, evaluation, checkpoints and progress."""

from recombine.training._cache import (
    cache_folder as cache_folder,
)
from recombine.training._cache import (
    enable_compilation_cache as enable_compilation_cache,
)
from recombine.training._checkpoints import Checkpoints as Checkpoints
from recombine.training._errors import (
    CheckpointError as CheckpointError,
)
from recombine.training._errors import (
    Interrupted as Interrupted,
)
from recombine.training._errors import (
    LearnerError as LearnerError,
)
from recombine.training._errors import (
    NonFiniteError as NonFiniteError,
)
from recombine.training._fit import Fit as Fit
from recombine.training._fit import fit as fit
from recombine.training._fit import inspect_seed as inspect_seed
from recombine.training._history import History as History
from recombine.training._history import Seconds as Seconds
from recombine.training._learner import Learner as Learner
from recombine.training._learner import Metrics as Metrics
from recombine.training._progress import (
    PlainProgress as PlainProgress,
)
from recombine.training._progress import (
    Progress as Progress,
)
from recombine.training._progress import (
    SilentProgress as SilentProgress,
)
from recombine.training._progress import (
    TerminalProgress as TerminalProgress,
)
from recombine.training._progress import (
    make_progress as make_progress,
)
