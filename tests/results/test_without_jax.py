import os
import subprocess
import sys

PROGRAM = """
import sys
import recombine
assert "jax" not in sys.modules and "numpy" not in sys.modules
from recombine.cli import main
try:
    main(["table", "--evidence", "--json"])
except SystemExit:
    pass
assert "jax" not in sys.modules, "a table needs no JAX"
"""


def test_importing_does_no_work_and_tables_need_no_jax():
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr
