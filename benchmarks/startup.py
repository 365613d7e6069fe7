"""What a user waits for before anything happens."""

import subprocess
import sys
from functools import partial

from _measure import side_by_side


def _run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)


def measure() -> list[dict]:
    times = side_by_side(
        {
            "python": partial(_run, "-c", "pass"),
            "jax": partial(_run, "-c", "import jax"),
            "import recombine": partial(_run, "-c", "import recombine"),
            "recombine --help": partial(_run, "-m", "recombine", "--help"),
            "recombine list": partial(_run, "-m", "recombine", "list"),
            "recombine table": partial(_run, "-m", "recombine", "table", "--evidence"),
        },
        rounds=5,
    )
    targets = {"import recombine": "at most 2 s", "recombine --help": "at most 1 s"}
    return [
        {
            "name": name,
            "seconds": taken,
            "against": "import jax",
            "against_seconds": times["jax"],
            "ratio": taken / times["jax"],
            "target": targets.get(name, ""),
        }
        for name, taken in times.items()
        if name not in ("python", "jax")
    ]
