"""Where a result comes from: versions, device and commit."""

import os
import platform
import subprocess
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

PACKAGES = ("recombine", "jax", "jaxlib", "equinox", "optax", "numpy")


@dataclass(frozen=True)
class Provenance:
    """What produced a record."""

    device: str
    num_devices: int
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None


def provenance() -> Provenance:
    """Looks at this process: its packages, its device, and the commit it runs from, if any."""
    import jax

    devices = jax.local_devices()
    device = devices[0].device_kind
    if devices[0].platform == "cpu":
        device = f"cpu ({os.cpu_count()} cores, {platform.machine()})"
    return Provenance(device, len(devices), package_versions(), _commit())


def package_versions() -> dict[str, str]:
    """Returns the versions of Python and of the packages that numbers depend on."""
    import recombine

    found = {"python": platform.python_version(), "recombine": recombine.__version__}
    for name in PACKAGES[1:]:
        found[name] = metadata.version(name)
    return found


def _commit() -> str | None:
    """Returns the commit of the checkout of this package, marked when the package was changed."""
    if given := os.environ.get("RECOMBINE_COMMIT"):
        return given
    here = Path(__file__).parent

    def git(*words: str) -> str:
        answer = subprocess.run(
            ["git", "-C", str(here), *words], capture_output=True, text=True, timeout=10
        )
        return answer.stdout.strip() if answer.returncode == 0 else ""

    try:
        if not git("ls-files", Path(__file__).name):
            return None  # installed, perhaps into somebody else's repository
        return git("rev-parse", "HEAD") + (
            "-modified" if git("status", "--porcelain", str(here.parent)) else ""
        )
    except (OSError, subprocess.SubprocessError):
        return None
