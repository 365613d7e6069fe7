"""Systems from outside the package, beside ours.

A plugin is a module with a `System` under the name `SYSTEM`: a file, an importable module, or the
entry point of an installed package (group `recombine.systems`). Nothing registers itself: whoever
wants plugins asks for all systems together, and hands them on.
"""

import hashlib
import importlib
import importlib.util
import re
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from recombine.experiments._registry import SYSTEMS
from recombine.experiments._row import Row, System

ENTRY_POINTS = "recombine.systems"
"""The group of entry points under which installed packages offer their systems."""

NAME = "SYSTEM"
"""What a plugin calls its system."""

ROW_ID = re.compile(r"\w[\w.+-]*(/\w[\w.+-]*)+")
"""Parts of letters, digits and a few signs: an id is a folder as well, below that of all runs."""


class PluginError(ValueError):
    """A plugin that cannot be used; says which one, why, and what to do."""


class PluginWarning(UserWarning):
    """An installed package whose system cannot be used and was passed over."""


def load_systems(plugins: Sequence[str] = ()) -> dict[str, System]:
    """Returns our systems, those of installed packages, and those of the plugins that are named.

    A package that is installed but cannot be used is passed over with a `PluginWarning`: it must
    not keep the others from working. A plugin that was asked for is an error instead.

    Args:
        plugins: module names, or paths to `.py` files.

    Raises:
        PluginError: a plugin cannot be imported, has no system, or an id of its is taken.

    Example:
        >>> list(load_systems())[0]
        'ilc'
    """
    systems = dict(SYSTEMS)
    for entry in sorted(metadata.entry_points(group=ENTRY_POINTS), key=lambda e: (e.name, e.value)):
        try:
            systems = _with_system(systems, _of_entry_point(entry), f"the entry point {entry.name}")
        except PluginError as error:
            warnings.warn(f"{error} (it was passed over)", PluginWarning, stacklevel=2)
    for name in dict.fromkeys(plugins):
        systems = _with_system(systems, _load_plugin(name), f"the plugin {name}")
    return systems


def _load_plugin(name: str) -> System:
    """Imports a plugin and returns its system; a second call in a process imports nothing anew."""
    module = _import_file(Path(name)) if _is_path(name) else _import_module(name)
    return _system_of(module, f"the plugin {name}")


def _with_system(systems: Mapping[str, System], new: System, origin: str) -> dict[str, System]:
    """Adds a system to others, after a look at its ids; `origin` says where it comes from."""
    if systems.get(new.id) is new:  # named twice, or installed and named
        return dict(systems)
    if not new.rows:
        raise PluginError(f"{origin} has no rows: its `{NAME}` has no groups with rows in them")
    strangers = [type(row).__name__ for row in new.rows if not isinstance(row, Row)]
    if strangers:
        raise PluginError(f"{origin} has a row of type {strangers[0]}; a `Row` was expected")
    for row in new.rows:
        if not ROW_ID.fullmatch(row.id):
            raise PluginError(
                f"{origin} has a row with the id {row.id!r}; an id is written like "
                f"'system/experiment/method', of letters, digits, '.', '_', '+' and '-'"
            )
    for kind, taken, ids in (
        ("system", list(systems), [new.id]),
        ("group", [g.id for s in systems.values() for g in s.groups], [g.id for g in new.groups]),
        ("row", [r.id for s in systems.values() for r in s.rows], [r.id for r in new.rows]),
    ):
        twice = [one for number, one in enumerate(ids) if one in (*taken, *ids[:number])]
        if twice:
            raise PluginError(
                f"{origin} has a {kind} called {twice[0]!r}, and there is one of that name "
                f"already; give it another id"
            )
    return {**systems, new.id: new}


def _is_path(name: str) -> bool:
    return name.endswith(".py") or "/" in name or "\\" in name


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise PluginError(f"the plugin {path} is no file; give the path to a `.py` file")
    place = path.resolve()
    # Files of one name in different folders are different modules.
    digest = hashlib.sha256(str(place).encode()).hexdigest()[:8]
    name = f"recombine_plugin_{re.sub(r'[^0-9A-Za-z_]', '_', place.stem)}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, place)
    if spec is None or spec.loader is None:
        raise PluginError(f"the plugin {path} is no Python file; its name must end with `.py`")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look themselves up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _not_imported(f"the plugin {path}", error) from error
    return module


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        hint = ""
        if isinstance(error, ModuleNotFoundError) and error.name == name.split(".")[0]:
            hint = "; it must be installed or on PYTHONPATH"
            if Path(f"{name}.py").is_file():
                hint = f"; for the file in this folder write {name}.py"
        raise _not_imported(f"the plugin {name}", error, hint) from error


def _of_entry_point(entry: metadata.EntryPoint) -> System:
    origin = f"the entry point {entry.name} = {entry.value}"
    try:
        return _system_of(entry.load(), origin)
    except PluginError:
        raise
    except (Exception, SystemExit) as error:
        raise _not_imported(origin, error) from error


def _system_of(found: Any, origin: str) -> System:
    if isinstance(found, ModuleType):
        if not hasattr(found, NAME):
            raise PluginError(
                f"{origin} has no system: assign a `recombine.experiments.System` to the name "
                f"`{NAME}` in it"
            )
        found = getattr(found, NAME)
    if not isinstance(found, System):
        raise PluginError(
            f"{origin} has a `{NAME}` of type {type(found).__name__}; a "
            f"`recombine.experiments.System` was expected"
        )
    return found


def _not_imported(origin: str, error: BaseException, hint: str = "") -> PluginError:
    """Says what went wrong and in which line, for those who wrote the plugin."""
    machinery = (__file__, str(Path(importlib.__file__).parent), "<frozen")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith(machinery)
    ]
    place = f" ({Path(frames[0].filename).name}, line {frames[0].lineno})" if frames else ""
    return PluginError(f"{origin} cannot be imported: {type(error).__name__}: {error}{place}{hint}")
