"""What a Ray cluster is asked for.

Ray is an extra and is imported where it is used.
"""

import os
from dataclasses import dataclass
from typing import Any


class ClusterError(RuntimeError):
    """A cluster that cannot be reached, or cannot do what was asked of it."""


@dataclass(frozen=True)
class RaySettings:
    """Where tasks run, and what each of them gets.

    Args:
        address: the head node, as `host:port`, or `auto` for a cluster that runs on this machine;
            without one a cluster is started on this machine, for the time of the call.
        gpus_per_task: GPUs of a task, possibly a fraction; by default one where the cluster has
            any and `JAX_PLATFORMS` is not `cpu`, else none.
        cpus_per_task: CPU cores of a task, also the number of XLA's threads (two at least).
        seeds_per_task: how many seeds of a run one task trains; by default one on a CPU, where
            seeds take turns anyway, and all on a GPU, where they share one program.
        retries: how often a task is started again after its worker or node died.
    """

    address: str | None = None
    gpus_per_task: float | None = None
    cpus_per_task: float = 1
    seeds_per_task: int | None = None
    retries: int = 5

    def __post_init__(self) -> None:
        gpus = self.gpus_per_task
        if gpus is not None and (gpus < 0 or (gpus > 1 and gpus != int(gpus))):
            raise ClusterError(
                f"`gpus_per_task` is a whole number, or a fraction of one GPU; got {gpus:g}"
            )
        if self.cpus_per_task <= 0:
            raise ClusterError(f"`cpus_per_task` must be above 0; got {self.cpus_per_task:g}")
        seeds = self.seeds_per_task
        if seeds is not None and (not isinstance(seeds, int) or seeds < 1):
            raise ClusterError(f"`seeds_per_task` is a whole number, at least 1; got {seeds}")
        if gpus and os.environ.get("JAX_PLATFORMS") == "cpu":
            raise ClusterError(
                f"`gpus_per_task` is {gpus:g}, but JAX_PLATFORMS=cpu keeps JAX off the GPU; "
                f"drop one of them"
            )


def import_ray() -> Any:
    """Returns Ray, or says which extra brings it."""
    try:
        import ray
    except ImportError as error:
        raise ClusterError(
            f"the engine `ray` needs Ray ({error}): pip install 'recombine[ray]'"
        ) from error
    return ray
