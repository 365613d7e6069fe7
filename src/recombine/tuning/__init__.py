"""Searching over the settings of rows, with Optuna. JAX loads when trials are made."""

from recombine.tuning._errors import StorageError as StorageError, StudyError as StudyError
from recombine.tuning._progress import (
    StudyProgress as StudyProgress,
    make_study_progress as make_study_progress,
    value_text as value_text,
)
from recombine.tuning._request import (
    PrunerName as PrunerName,
    SamplerName as SamplerName,
    StudyRequest as StudyRequest,
    setting_text as setting_text,
)
from recombine.tuning._running import StudyResult as StudyResult, run_study as run_study
from recombine.tuning._storage import StorageWarning as StorageWarning
from recombine.tuning._trials import (
    TrialBatch as TrialBatch,
    TrialOutcome as TrialOutcome,
    run_trials as run_trials,
)
