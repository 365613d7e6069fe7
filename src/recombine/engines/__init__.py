"""Where runs execute: this process, or a cluster."""

from recombine.engines._local import (
    RunFailedError as RunFailedError,
)
from recombine.engines._local import (
    RunRequest as RunRequest,
)
from recombine.engines._local import (
    run_row as run_row,
)
