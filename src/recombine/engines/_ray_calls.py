"""Calls of functions in tasks of a cluster: for a search, whose trials are such calls."""

import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from recombine.engines._ray_checks import alive_nodes, not_shared
from recombine.engines._ray_cluster import RayCluster, connect
from recombine.engines._ray_settings import RaySettings, import_ray
from recombine.engines._ray_tasks import check_gpu
from recombine.engines._requests import RunFailedError


class RayCalls:
    """Calls functions in tasks; several threads may do so at once.

    Args:
        cluster: is connected to.
        on_death: told when a task is started again because its worker or node died.
    """

    def __init__(self, cluster: RayCluster, on_death: Callable[[str], None] = lambda _: None):
        self._ray = import_ray()
        self._cluster = cluster
        self._task = self._ray.remote(call_here).options(**cluster.task_options)
        self._on_death = on_death

    @property
    def num_slots(self) -> int:
        """How many tasks the cluster can run at once, now."""
        asked = {"CPU": self._cluster.cpus_per_task, "GPU": self._cluster.gpus_per_task}
        return sum(
            int(min(node.get(kind, 0) / amount for kind, amount in asked.items() if amount))
            for node in alive_nodes().values()
        )

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns `function(*arguments)`, and raises what it raises.

        It starts again from its beginning when its worker dies: the functions are short, or keep
        what they need themselves.
        """
        errors, retries, name = self._ray.exceptions, self._cluster.retries, ""
        for number in range(retries + 1):
            reference = self._task.remote(
                function, arguments, self._cluster.gpus_per_task, self._cluster.marker
            )
            try:
                return self._ray.get(reference)
            except errors.RayTaskError as error:
                raise error.cause from None
            except errors.RayError as error:
                name = type(error).__name__
                if number < retries:
                    self._on_death(
                        f"a worker died ({name}); its task is started again, {number + 1} of "
                        f"{retries} times"
                    )
        raise RunFailedError(
            f"a task's worker died {retries + 1} times, the last time with {name}; what is "
            f"finished is kept, and the same command goes on"
        )


@contextlib.contextmanager
def calls_on_ray(
    runs: str | Path,
    *,
    settings: RaySettings | None = None,
    on_death: Callable[[str], None] = lambda _: None,
) -> Iterator[RayCalls]:
    """Connects to a cluster, and yields what calls functions there.

    Args:
        runs: the folder of all runs, which every node must have under the same path.
        settings: where tasks run, and what each gets; a cluster on this machine by default.
        on_death: told when a task is started again because its worker or node died.

    Raises:
        ClusterError: the cluster cannot be reached, or cannot do what is asked.
    """
    with connect(settings or RaySettings(), Path(runs).absolute()) as cluster:
        yield RayCalls(cluster, on_death)


def call_here(
    function: Callable[..., Any], arguments: tuple[Any, ...], gpus: float, marker: Path
) -> Any:
    """Runs in a worker: calls the function, after a look at the node."""
    if not marker.exists():
        raise not_shared(socket.gethostname(), marker.parent, "it is another one there")
    if gpus:
        check_gpu()
    return function(*arguments)
