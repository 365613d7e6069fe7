"""`recombine doctor`: what is installed, what it runs on, what is missing."""

import importlib.util
import os
import platform
import shutil
from importlib import metadata
from typing import Any

from recombine.cli._printing import print_grid, print_json

PACKAGES = ("jax", "jaxlib", "equinox", "optax", "orbax-checkpoint", "pydantic", "scikit-learn")
EXTRAS = {
    "cuda": "jax_cuda13_plugin",
    "mujoco": "mujoco",
    "tune": "optuna",
    "ray": "ray",
    "docs": "mkdocs",
}


def diagnose() -> dict[str, Any]:
    """Returns what `recombine doctor --json` prints."""
    import jax

    import recombine
    from recombine.results import evidence_folder
    from recombine.training import cache_folder

    cache = cache_folder()
    return {
        "python": platform.python_version(),
        "recombine": recombine.__version__,
        "packages": {name: metadata.version(name) for name in PACKAGES},
        "devices": [
            {
                "platform": device.platform,
                "kind": device.device_kind,
                "memory_bytes": (device.memory_stats() or {}).get("bytes_limit"),
            }
            for device in jax.local_devices()
        ],
        "cores": os.cpu_count(),
        "memory_bytes": _memory(),
        "cache": {"folder": str(cache), "writable": _is_writable(cache)},
        "extras": {name: _is_installed(module) for name, module in EXTRAS.items()},
        "data": {"evidence": evidence_folder().is_dir()},
    }


def print_diagnosis(*, as_json: bool) -> None:
    """Prints the diagnosis; what is missing is named with the way to get it."""
    found = diagnose()
    if as_json:
        print_json(found)
        return
    rows = [("python", found["python"]), ("recombine", found["recombine"])]
    rows += list(found["packages"].items())
    for device in found["devices"]:
        memory = device["memory_bytes"]
        size = f", {memory / 2**30:.0f} GiB" if memory else ""
        rows.append(("device", f"{device['platform']}: {device['kind']}{size}"))
    if found["memory_bytes"]:
        rows.append(("memory", f"{found['memory_bytes'] / 2**30:.0f} GiB, {found['cores']} cores"))
    cache = found["cache"]
    note = "" if cache["writable"] else " (cannot be written: set RECOMBINE_CACHE)"
    rows.append(("cache", cache["folder"] + note))
    for name, present in found["extras"].items():
        rows.append(
            (f"extra [{name}]", "yes" if present else f"no: pip install 'recombine[{name}]'")
        )
    rows.append(("evidence", "yes" if found["data"]["evidence"] else "not installed"))
    print_grid(("what", "found"), rows)


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _is_writable(folder: Any) -> bool:
    while not folder.exists():
        folder = folder.parent
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > 0


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
