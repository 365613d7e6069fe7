"""Where runs execute: this process, or a cluster."""

from recombine.engines._local import (
    RunFailedError as RunFailedError,
    RunRequest as RunRequest,
    run_row as run_row,
)
