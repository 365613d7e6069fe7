"""Where runs execute: this process, several of them, or a cluster."""

from recombine.engines._local import run_row as run_row
from recombine.engines._processes import (
    ProcessSettings as ProcessSettings,
    run_in_processes as run_in_processes,
)
from recombine.engines._ray import run_on_ray as run_on_ray
from recombine.engines._ray_calls import (
    RayCalls as RayCalls,
    calls_on_ray as calls_on_ray,
)
from recombine.engines._ray_settings import (
    ClusterError as ClusterError,
    RaySettings as RaySettings,
)
from recombine.engines._requests import (
    RowOutcome as RowOutcome,
    RunFailedError as RunFailedError,
    RunRequest as RunRequest,
)
from recombine.engines._sweeps import SweepStoppedError as SweepStoppedError
from recombine.engines._together import run_together as run_together
