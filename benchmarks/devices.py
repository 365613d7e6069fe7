"""Seeds spread over devices: the same seeds in one program, on one device and on several.

Every number of devices gets a process of its own, which sees only so many. GPUs are real ones, and
with one alone there is nothing to compare. The several devices of a CPU are only pretended: they
share the cores that one device has already, so there the ratio says what spreading costs, or how
well one program of many seeds kept the cores busy before; it is no measure of more hardware. The
same seeds in turns, which is how they are trained on a CPU unless told otherwise, stand beside it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

import jax

from recombine.experiments import find_row
from recombine.training import fit

NUM_SEEDS = 8
ROUNDS = 2
IN_TURNS = "in turns"


def measure() -> list[dict]:
    on_cpu = jax.default_backend() == "cpu"
    numbers = [n for n in (1, 2, 4, 8) if n <= (4 if on_cpu else len(jax.local_devices()))]
    if len(numbers) == 1:
        return []
    kind = "virtual CPU devices" if on_cpu else "GPUs"
    times = {f"on {number} {kind}": _elsewhere(number, on_cpu=on_cpu) for number in numbers}
    if on_cpu:
        times[IN_TURNS] = _elsewhere(1, on_cpu=True, in_turns=True)
    alone, *others = times
    return [
        {
            "name": f"fit of {NUM_SEEDS} seeds, {name}",
            "seconds": times[name],
            "against": f"{alone[:-1]}, all in one program",
            "against_seconds": times[alone],
            "ratio": times[name] / times[alone],
            "target": "" if on_cpu else f"near {1 / int(name.split()[1]):.3g}",
        }
        for name in others
    ]


def _elsewhere(num_devices: int, *, on_cpu: bool, in_turns: bool = False) -> float:
    """Returns the seconds of training all seeds, in a process that sees so many devices."""
    given = dict(os.environ)
    if on_cpu:
        count = f"--xla_force_host_platform_device_count={num_devices}"
        given["XLA_FLAGS"] = f"{given.get('XLA_FLAGS', '')} {count}"
        given["JAX_PLATFORMS"] = "cpu"
    else:
        visible = given.get("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7").split(",")
        given["CUDA_VISIBLE_DEVICES"] = ",".join(visible[:num_devices])
        given["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # this process holds memory as well
    words = [sys.executable, __file__, str(num_devices), *(["--in-turns"] if in_turns else [])]
    answer = subprocess.run(words, env=given, check=True, capture_output=True, text=True)
    return json.loads(answer.stdout.splitlines()[-1])


def _here(num_devices: int, *, in_turns: bool) -> float:
    """Returns the median time of some fits, less what compiling takes."""
    assert len(jax.local_devices()) == num_devices, jax.local_devices()
    row = find_row("ilc/synthetic/and-mask")
    on_cpu = jax.default_backend() == "cpu"
    config, steps = (row.variant("quick").config, 6) if on_cpu else (row.full.config, 200)
    learner = row.make_learner(config, steps)
    times = []
    for _ in range(ROUNDS + 1):
        fitted = fit(
            learner,
            steps=steps,
            eval_every=steps,
            seeds=range(NUM_SEEDS),
            vectorize=not in_turns,
            progress=False,
        )
        times.append(fitted.seconds.run)
    return statistics.median(times[1:])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Time training on the devices of this process.")
    parser.add_argument("num_devices", type=int)
    parser.add_argument("--in-turns", action="store_true")
    chosen = parser.parse_args()
    print(json.dumps(_here(chosen.num_devices, in_turns=chosen.in_turns)))
