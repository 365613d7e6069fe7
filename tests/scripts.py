"""Scripts of the project that are no part of the package, as modules."""

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


def load_script(path: str) -> ModuleType:
    """Runs a file of the repository, such as "examples/own_tasks.py", and returns its module."""
    file = ROOT / path
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
