"""Settings as text: `key=value` changes to a variant, checked against the config's types."""

import dataclasses
import difflib
import json
from collections.abc import Sequence
from typing import Any

from recombine.experiments._row import Variant

RUN_SETTINGS = ("steps", "eval_every")
"""Settings of the run beside those of the config."""


class SettingsError(ValueError):
    """A setting that does not exist or has the wrong type."""


def settings_of(variant: Variant) -> dict[str, Any]:
    """Returns all settings of a variant by name; nested ones have dots.

    Example:
        >>> from recombine.experiments import find_row
        >>> settings_of(find_row("ilc/synthetic/and-mask").full)["threshold"]
        0.8
    """
    flat = _flatten(dataclasses.asdict(variant.config))
    return {**flat, **{name: getattr(variant, name) for name in RUN_SETTINGS}}


def change_settings(variant: Variant, changes: Sequence[str]) -> tuple[Variant, dict[str, Any]]:
    """Applies `key=value` texts; returns the new variant and what really changed.

    A name that does not exist is answered with the nearest ones, a wrong type with what was
    expected.
    """
    known = settings_of(variant)
    config = dataclasses.asdict(variant.config)
    run: dict[str, Any] = {}
    for text in changes:
        name, equals, value = text.partition("=")
        if not equals:
            raise SettingsError(f"a setting is written key=value; got {text!r}")
        if name == "seeds":
            raise SettingsError(f"the number of seeds is not a setting; use --seeds {value or 'N'}")
        if name not in known:
            nearest = difflib.get_close_matches(name, known) or sorted(known)
            raise SettingsError(f"there is no setting {name!r}; try {', '.join(nearest)}")
        if name in RUN_SETTINGS:
            run[name] = _whole_number(name, value)
        else:
            _put(config, name, _parse(value))
    changed = dataclasses.replace(variant, config=_validated(variant.config, config), **run)
    now = settings_of(changed)
    return changed, {name: now[name] for name in now if now[name] != known[name]}


def _validated(config: Any, values: dict[str, Any]) -> Any:
    import pydantic

    try:
        return pydantic.TypeAdapter(type(config)).validate_python(values)
    except pydantic.ValidationError as error:
        problems = [
            f"`{'.'.join(str(part) for part in problem['loc'] if part != '__root__') or 'config'}`"
            f": {problem['msg']}; got {problem['input']!r}"
            for problem in error.errors()
        ]
        raise SettingsError("; ".join(problems)) from None


def _flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= _flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = value
    return flat


def _put(values: dict[str, Any], name: str, value: Any) -> None:
    *path, last = name.split(".")
    for part in path:
        values = values[part]
    values[last] = value


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return {"None": None, "True": True, "False": False}.get(text, text)


def _whole_number(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise SettingsError(f"`{name}`: expected a whole number from 1 up; got {text!r}")
    return int(text)
