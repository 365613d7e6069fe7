"""What a Ray cluster is asked for, and what its workers must know.

Ray is an extra and is imported where it is used.
"""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

THREADS_AT_LEAST = 2
"""With a single thread XLA adds up in another order: the last bits would differ from any machine
with several cores."""


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
        if self.seeds_per_task is not None and self.seeds_per_task < 1:
            raise ClusterError(f"`seeds_per_task` is at least 1; got {self.seeds_per_task}")
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


def worker_environment(
    gpus: float, cpus: float, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Returns what a worker must know of the environment of the process that asks for it.

    Settings of JAX, of XLA and our own are handed on. A task without a GPU keeps off those of its
    node; tasks that share a GPU share its memory; threads are as many as the task's cores.

    Example:
        >>> worker_environment(0.5, 4, {"HOME": "/home/me", "JAX_ENABLE_X64": "0"})
        {'JAX_ENABLE_X64': '0', 'NPROC': '4', 'XLA_PYTHON_CLIENT_MEM_FRACTION': '0.375'}
    """
    known = {
        name: value
        for name, value in environment.items()
        if name.startswith(("RECOMBINE_", "JAX_", "XLA_")) or name in ("PYTHONPATH", "NPROC")
    }
    for name in ("RECOMBINE_CACHE", "RECOMBINE_DATA", "JAX_COMPILATION_CACHE_DIR"):
        if known.get(name):
            known[name] = os.path.abspath(known[name])  # workers start in folders of their own
    if "PYTHONPATH" in known:
        places = known["PYTHONPATH"].split(os.pathsep)
        known["PYTHONPATH"] = os.pathsep.join(os.path.abspath(place) for place in places)
    known.setdefault("NPROC", str(max(math.ceil(cpus), THREADS_AT_LEAST)))
    if gpus == 0:
        known.setdefault("JAX_PLATFORMS", "cpu")
    elif gpus < 1:
        known.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.75 * gpus:g}")
    return known
