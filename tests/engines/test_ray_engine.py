"""Rows on a real cluster of several nodes, all of them on this machine."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest
from same_runs import assert_same_runs, without_times

from recombine.cli import main
from recombine.engines import (
    ClusterError,
    RaySettings,
    RunFailedError,
    RunRequest,
    SweepStoppedError,
    _ray_tasks,
    calls_on_ray,
    run_on_ray,
    run_row,
)
from recombine.engines._parts import part_folder
from recombine.engines._ray_checks import check_nodes
from recombine.engines._ray_cluster import connect
from recombine.engines._worker_environment import worker_environment
from recombine.experiments import find_row, load_systems

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'recombine[ray]'")

pytestmark = [
    pytest.mark.usefixtures("quick_compilation"),
    # Ray leaves sockets and files to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

PLUGIN = Path(__file__).with_name("growing_plugin.py")
LONG = ("steps=800", "eval_every=1")  # a few seconds, in which much can happen


def tiny(*changes, num_seeds=2):
    row = find_row("ilc/synthetic/and-mask")
    return RunRequest.of(row, "tiny", num_seeds=num_seeds, changes=changes)


def add_node(cluster, cpus=1):
    return cluster.add_node(num_cpus=cpus, object_store_memory=80 * 2**20)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A head node without a place for tasks, and a node with one; workers live on between tests."""
    from ray.cluster_utils import Cluster

    before = dict(os.environ)
    os.environ |= {
        "RAY_worker_niceness": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",  # as `quick_compilation` here: the bits are equal
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 80 * 2**20}
        )
        add_node(made)
        with connect(RaySettings(address=made.address), tmp_path_factory.mktemp("check")):
            yield made
        made.shutdown()
    os.environ.clear()
    os.environ |= before


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    """The long runs in this process, for comparison."""
    runs = tmp_path_factory.mktemp("local")
    for num_seeds in (1, 2):
        run_row(tiny(*LONG, num_seeds=num_seeds), runs, progress=False)
    return runs


def wait_for(condition, seconds=90):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.02)


def test_a_node_killed_in_the_middle_of_a_sweep_costs_only_time(cluster, local, tmp_path, capfd):
    requests = [tiny(*LONG, num_seeds=number) for number in (2, 1)]  # cut in parts, and whole
    victim = add_node(cluster)
    parts = [requests[0].folder(tmp_path).path / "parts" / seed for seed in "01"]

    def kill():
        wait_for(lambda: all(list(part.glob("checkpoints/[0-9]*/notes")) for part in parts))
        cluster.remove_node(victim, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    outcomes = run_on_ray(requests, tmp_path, checkpoint_seconds=0.2)
    killer.join()
    said = capfd.readouterr().err
    assert "died (" in said, "the kill hit nothing"
    assert "started again from its last checkpoint, 1 of 5 times" in said
    for request, outcome in zip(requests, outcomes, strict=True):
        assert outcome.error == ""
        kept = request.folder(local).read()
        assert kept is not None
        assert without_times(outcome.record) == without_times(kept)
        assert_same_runs(request, tmp_path, local)


def is_done(folder):
    record = folder.read()
    return record is not None and record.is_done


def test_ctrl_c_leaves_what_is_finished_and_the_rest_resumes(cluster, local, tmp_path):
    request = tiny(*LONG)
    folder = request.folder(tmp_path)
    first, second = (part_folder(folder, (seed,)) for seed in (0, 1))

    def press():
        # There is one place, but Ray may begin the second seed while the first one's task ends.
        wait_for(lambda: is_done(first) and second.read() is not None)
        os.kill(os.getpid(), signal.SIGINT)

    finger = threading.Thread(target=press)
    finger.start()
    with pytest.raises(SweepStoppedError, match="0 of 1 rows are done, the same command resumes"):
        run_on_ray([request], tmp_path, progress=False)
    finger.join()
    statuses = [found and found.status for found in (first.read(), second.read(), folder.read())]
    assert statuses == ["done", "interrupted", "interrupted"]
    assert list(second.checkpoints.glob("[0-9]*")), "it was saved before it stopped"
    run_row(request, tmp_path, progress=False)  # this process goes on where the tasks have stopped
    assert_same_runs(request, tmp_path, local)


def test_a_row_that_fails_leaves_the_others_alone_and_plugins_are_loaded(cluster, tmp_path, capsys):
    plugin, runs = os.path.relpath(PLUGIN), tmp_path / "runs"  # workers start in another folder
    command = ["run", "growing", "--quick", "--plugin", plugin, "--engine", "ray", "--json"]
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--runs", str(runs)])
    said = capsys.readouterr()
    assert stopped.value.code == 1, said.err
    assert "1 of 2 rows failed: growing/numbers/beyond-all-bounds" in said.err
    assert "growing/numbers/slowly: size" in said.err
    assert said.err.count("was not finite at step") == 1
    assert "died" not in said.err
    lines = {line["id"]: line for line in json.loads(said.out)}
    assert lines["growing/numbers/slowly"]["ours"]["n"] == 2
    assert lines["growing/numbers/beyond-all-bounds"]["verdict"] == "failed"
    assert not list(runs.glob(".cluster-*")), "the marks of the check are removed"
    slowly = find_row("growing/numbers/slowly", load_systems([plugin]))
    request = RunRequest.of(slowly, "quick")
    run_row(request, tmp_path / "local", progress=False)
    assert_same_runs(request, runs, tmp_path / "local")
    before = request.folder(runs).read()
    again = run_on_ray([request], runs, progress=False)
    assert again[0].record == before, "what is done is not run again"


def test_what_another_process_is_running_is_left_for_last(cluster, tmp_path):
    plugin = str(PLUGIN)
    row = find_row("growing/numbers/slowly", load_systems([plugin]))
    requests = [RunRequest.of(row, "tiny", num_seeds=number) for number in (3, 1, 2)]
    ended = []
    with contextlib.ExitStack() as others:
        for request in requests[:2]:
            others.enter_context(request.folder(tmp_path).claim())

        def take_note(outcome):
            ended.append(outcome.request)
            others.close()  # the first one that can be run is done: the others are let go

        run_on_ray(requests, tmp_path, plugins=[plugin], progress=False, on_end=take_note)
    assert ended[0] == requests[2]
    assert all(request.folder(tmp_path).read().is_done for request in requests)


def test_a_search_finds_on_a_cluster_what_it_finds_here(cluster, tmp_path, capsys):
    pytest.importorskip("optuna", reason="Optuna is not installed: pip install 'recombine[tune]'")
    search = ["tune", "growing/numbers/slowly", "--tiny", "--trials", "5", "--json"]
    search += ["--plugin", os.path.relpath(PLUGIN), "--runs"]
    found = {}
    for engine in ("local", "ray"):
        with pytest.raises(SystemExit) as stopped:
            main([*search, str(tmp_path / engine), "--engine", engine])
        said = capsys.readouterr()
        assert not stopped.value.code, said.err
        found[engine] = json.loads(said.out)
    trials = {e: [(t["settings"], t["value"]) for t in found[e]["trials"]] for e in found}
    assert len(trials["ray"]) == 5
    assert trials["ray"] == trials["local"]
    with pytest.raises(SystemExit) as stopped:
        main([*search, str(tmp_path / "pruned"), "--engine", "ray", "--pruner", "median"])
    assert stopped.value.code == 2
    assert "use `--pruner none`" in capsys.readouterr().err


def test_more_than_the_cluster_has_is_refused_with_both_numbers(cluster, tmp_path):
    with pytest.raises(ClusterError, match=r"`--gpus-per-task` is 3, but the cluster has 0 GPUs"):
        run_on_ray([tiny()], tmp_path, settings=RaySettings(gpus_per_task=3))
    with pytest.raises(ClusterError, match=r"`--cpus-per-task` is 64, but the cluster has 1 CPUs"):
        run_on_ray([tiny()], tmp_path, settings=RaySettings(cpus_per_task=64))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_a_node_does_not_have_is_refused(cluster, tmp_path):
    with pytest.raises(ClusterError, match="is not shared with the node"):
        check_nodes(ray, tmp_path / "not there", worker_environment(0, 1))


@pytest.mark.slow
def test_a_worker_that_dies_is_started_again_but_not_for_ever(cluster, tmp_path):
    def die_before(times, path):
        tries = int(path.read_text()) if path.exists() else 0
        path.write_text(str(tries + 1))
        if tries < times:
            os.kill(os.getpid(), signal.SIGKILL)
        return "alive"

    def fail(text):
        raise ValueError(text)

    deaths = []
    with calls_on_ray(tmp_path, settings=RaySettings(retries=2), on_death=deaths.append) as call:
        assert call(die_before, 2, tmp_path / "tries") == "alive"
        assert len(deaths) == 2
        with pytest.raises(RunFailedError, match="died 3 times"):
            call(die_before, 9, tmp_path / "more tries")
        with pytest.raises(ValueError, match="an error of its own"):
            call(fail, "an error of its own")
        assert call.num_slots == 1


@pytest.mark.slow
def test_when_no_node_is_left_the_command_gives_up_and_the_work_is_kept(
    cluster, local, tmp_path, monkeypatch
):
    monkeypatch.setattr(_ray_tasks, "NO_ROOM_SECONDS", 3.0)
    request, victim = tiny(*LONG, num_seeds=1), add_node(cluster, cpus=2)

    def kill():
        wait_for(lambda: list(request.folder(tmp_path).path.glob("checkpoints/[0-9]*/notes")))
        cluster.remove_node(victim, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(RunFailedError, match="no node is left with 2 CPUs"):
        run_on_ray(
            [request],
            tmp_path,
            settings=RaySettings(cpus_per_task=2),
            progress=False,
            checkpoint_seconds=0.0,
        )
    killer.join()
    run_on_ray([request], tmp_path, progress=False)
    assert_same_runs(request, tmp_path, local)


@pytest.mark.slow
@pytest.mark.parametrize("is_given", [True, False], ids=["address", "cluster of its own"])
def test_the_command_stops_at_ctrl_c_with_130_and_resumes(cluster, tmp_path, is_given):
    command = [sys.executable, "-m", "recombine", "run", "ilc/synthetic/and-mask", "--quick"]
    command += ["--seeds", "2", "--set", "steps=40", "--set", "eval_every=1"]
    command += ["--engine", "ray", "--runs", str(tmp_path)]
    command += ["--address", cluster.address] if is_given else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    first = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    wait_for(lambda: list(tmp_path.glob("ilc/*/*/*/parts/*/part.json")), seconds=180)
    first.send_signal(signal.SIGINT)
    said = first.communicate(timeout=180)[1]
    assert first.returncode == 130, said
    assert "0 of 1 rows are done, the same command resumes the rest" in said
    second = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert second.returncode == 0, second.stderr
    assert "test accuracy" in second.stderr
