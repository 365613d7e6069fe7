"""What is looked at before anything is begun: does the cluster answer, and can it do the work?"""

import os
import socket
import time
from pathlib import Path
from typing import Any

from recombine.engines._ray_settings import ClusterError, RaySettings, import_ray

ANSWER_SECONDS = 3.0
"""A head node that has not answered by then is not there."""

CHECK_SECONDS = 60.0
"""How long a node may take to start a process and look at the runs folder."""


def check_answer(address: str) -> None:
    """Asks the head node for a sign of life; Ray itself would wait for minutes."""
    if "://" in address:
        raise ClusterError(
            f"`--address` {address} is that of a Ray client; give the head node as host:port, and "
            f"run the command on a node of the cluster, where the runs folder is"
        )
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        raise ClusterError(
            f"`--address` is written host:port, such as 10.0.0.1:6379, or `auto`; got {address!r}"
        )
    hint = (
        "Start the head node with `ray start --head --port=6379`, or leave `--address` out for a "
        "cluster on this machine"
    )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS) as connection:
            greets = _speaks_http2(connection)
    except OSError as error:
        raise ClusterError(
            f"no Ray cluster can be reached at `--address` {address} "
            f"({error.strerror or error}). {hint}."
        ) from error
    if not greets:
        raise ClusterError(
            f"something answers at `--address` {address}, but it is not Ray. {hint}."
        )


def _speaks_http2(connection: socket.socket) -> bool:
    """Says hello as clients of gRPC do; its servers answer with their settings."""
    if os.environ.get("RAY_USE_TLS") == "1":
        return True
    empty_settings = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
    connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + empty_settings)
    try:
        answer = connection.recv(9)
    except OSError:
        return False
    return len(answer) >= 4 and answer[3] == 4  # the kind of frame: settings


def alive_nodes() -> dict[str, dict[str, float]]:
    """Returns what each node has, by its id."""
    ray = import_ray()
    return {node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]}


def checked_gpus(settings: RaySettings) -> float:
    """Returns the GPUs of a task, after a look at what there is."""
    nodes = list(alive_nodes().values())
    largest = {kind: max((node.get(kind, 0) for node in nodes), default=0) for kind in _ASKED}
    gpus = settings.gpus_per_task
    if gpus is None:
        stays_off = os.environ.get("JAX_PLATFORMS") == "cpu" or not largest["GPU"]
        gpus = 0.0 if stays_off else 1.0
    for kind, asked in (("GPU", gpus), ("CPU", settings.cpus_per_task)):
        if asked > largest[kind]:
            option = _ASKED[kind]
            total = sum(node.get(kind, 0) for node in nodes)
            raise ClusterError(
                f"`{option}` is {asked:g}, but the cluster has {total:g} {kind}s, at most "
                f"{largest[kind]:g} on one node ({len(nodes)} nodes); ask for fewer, or add nodes"
            )
    return gpus


_ASKED = {"GPU": "--gpus-per-task", "CPU": "--cpus-per-task"}


def check_nodes(ray: Any, marker: Path, environment: dict[str, str]) -> None:
    """Lets every node look for the marker and leave a token of its own beside it.

    Ray may count a node for a while that has just died; it is waited for, and then left out.
    """
    until = time.monotonic() + CHECK_SECONDS
    asked = {node: _ask(ray, node, marker, environment) for node in alive_nodes()}
    while asked:
        node, reference = next(iter(asked.items()))
        try:
            answer = ray.get(reference, timeout=max(until - time.monotonic(), 1.0))
        except ray.exceptions.GetTimeoutError as error:
            raise ClusterError(
                f"a node of the cluster did not start a process within {CHECK_SECONDS:g} s; "
                f"look at `ray status`"
            ) from error
        except (ray.exceptions.RayTaskError, ray.exceptions.RuntimeEnvSetupError) as error:
            raise _cannot_run(error) from error
        except ray.exceptions.RayError as error:
            time.sleep(0.5)
            if node not in alive_nodes():
                del asked[node]
            elif time.monotonic() < until:
                asked[node] = _ask(ray, node, marker, environment)
            else:
                raise _cannot_run(error) from error
        else:
            del asked[node]
            _check_answer_of(answer, marker, node)


def _ask(ray: Any, node: str, marker: Path, environment: dict[str, str]) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    there = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
    look = ray.remote(look_for).options(
        num_cpus=0,
        max_retries=0,
        runtime_env={"env_vars": environment},
        scheduling_strategy=there,
    )
    return look.remote(str(marker), node)


def _check_answer_of(answer: dict[str, Any], marker: Path, node: str) -> None:
    token = marker.with_name(f"{marker.name}-{node}")
    left_token = token.exists()
    token.unlink(missing_ok=True)
    if answer["problem"] or not left_token:
        raise not_shared(answer["host"], marker.parent, answer["problem"])
    _check_versions(answer)


def _cannot_run(error: Exception) -> ClusterError:
    return ClusterError(
        f"a node of the cluster cannot run our code: {_last_line(error)}. Install the same "
        f"version of recombine on every node"
    )


def look_for(marker: str, node: str) -> dict[str, Any]:
    """Runs on a node: says whether it sees the runs folder, and what is installed there."""
    from recombine.results import package_versions

    answer = {"host": socket.gethostname(), "problem": "", "versions": package_versions()}
    place = Path(marker)
    try:
        if not place.exists():
            answer["problem"] = "the folder is another one there, or is missing"
        else:
            place.with_name(f"{place.name}-{node}").touch()
    except OSError as error:
        answer["problem"] = f"it cannot be written there: {error.strerror}"
    return answer


def not_shared(host: str, runs: Path, problem: str) -> ClusterError:
    """Says that a node does not have the runs folder."""
    why = problem or "what it writes is not seen here"
    return ClusterError(
        f"the runs folder {runs} is not shared with the node {host} ({why}). Choose one with "
        f"`--runs` that has the same path on every node"
    )


def _check_versions(answer: dict[str, Any]) -> None:
    from recombine.results import package_versions

    for name, version in package_versions().items():
        theirs = answer["versions"].get(name)
        if theirs != version:
            raise ClusterError(
                f"the node {answer['host']} has {name} {theirs}, this process has {version}; "
                f"numbers could differ. Install the same versions on every node"
            )


def _last_line(error: BaseException) -> str:
    """Returns the cause of what went wrong in a worker, which stands at the end of Ray's text."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1][:300]
