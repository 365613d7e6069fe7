"""What a worker must know of the environment of the process that asks for it."""

import math
import os
from collections.abc import Mapping

THREADS_AT_LEAST = 2
"""With a single thread XLA adds up in another order: the last bits would differ from any machine
with several cores."""


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
