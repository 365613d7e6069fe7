"""Seeds and trials on several devices: four that the CPU pretends to be."""

import os
import subprocess
import sys


def test_seeds_and_trials_are_spread_over_four_devices(tmp_path):
    answer = subprocess.run(
        [sys.executable, os.path.join(os.path.dirname(__file__), "on_four_devices.py"), tmp_path],
        env={
            **os.environ,
            "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
            "JAX_PLATFORMS": "cpu",
            "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
    )
    assert answer.stdout.strip() == "as it should be", answer.stderr
