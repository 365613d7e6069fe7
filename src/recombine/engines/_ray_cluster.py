"""A Ray cluster that is connected to, or started, for as long as there is work."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recombine.engines._ray_checks import alive_nodes, check_answer, check_nodes, checked_gpus
from recombine.engines._ray_settings import ClusterError, RaySettings, import_ray
from recombine.engines._worker_environment import worker_environment

OBJECT_STORE_BYTES = 128 * 2**20
"""Of a cluster that we start: only settings and records travel, data are read from disk."""


@dataclass(frozen=True)
class RayCluster:
    """A cluster that is connected to and was found fit for the work."""

    gpus_per_task: float
    cpus_per_task: float
    marker: Path  # a file in the runs folder that every node must see
    retries: int
    environment: dict[str, str]  # the variables of a task

    @property
    def task_options(self) -> dict[str, Any]:
        """What Ray must give a task; retries are ours, so that they can be told."""
        return {
            "num_cpus": self.cpus_per_task,
            "num_gpus": self.gpus_per_task,
            "max_retries": 0,
            "runtime_env": {"env_vars": self.environment},
        }

    def has_room(self) -> bool:
        """Says whether a node is left that can hold a task."""
        return any(
            node.get("CPU", 0) >= self.cpus_per_task and node.get("GPU", 0) >= self.gpus_per_task
            for node in alive_nodes().values()
        )


@contextlib.contextmanager
def connect(settings: RaySettings, runs: Path) -> Iterator[RayCluster]:
    """Connects to a cluster, or starts one, and checks that it can do the work.

    Raises:
        ClusterError: Ray is not installed, nobody answers at the address, the cluster has less
            than is asked for, or a node does not have the runs folder.
    """
    ray = import_ray()
    connected_before = ray.is_initialized()
    if not connected_before:
        _connect(ray, settings)
    try:
        gpus = checked_gpus(settings)
        with _marker_in(runs) as marker:
            environment = worker_environment(gpus, settings.cpus_per_task)
            check_nodes(ray, marker, environment)
            yield RayCluster(gpus, settings.cpus_per_task, marker, settings.retries, environment)
    finally:
        if not connected_before:
            ray.shutdown()


def _connect(ray: Any, settings: RaySettings) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a cluster of ours tells nobody
    address = settings.address
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address is None:
        ray.init(
            address="local",
            include_dashboard=False,
            object_store_memory=OBJECT_STORE_BYTES,
            **quiet,
        )
        return
    if address != "auto":
        check_answer(address)
    try:
        ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise ClusterError(
            f"the Ray cluster at `--address` {address} cannot be used: {_first_line(error)}"
        ) from error


@contextlib.contextmanager
def _marker_in(runs: Path) -> Iterator[Path]:
    """Leaves a file in the runs folder for as long as the work goes on."""
    from recombine.results import RunsFolderError

    marker = runs.absolute() / f".cluster-{uuid.uuid4().hex}"
    try:
        runs.mkdir(parents=True, exist_ok=True)
        marker.touch()
    except OSError as error:
        raise RunsFolderError(
            f"runs cannot be written to {runs}: {error.strerror}. "
            f"Choose another folder with `--runs`."
        ) from error
    try:
        yield marker
    finally:
        with contextlib.suppress(OSError):
            marker.unlink()


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
