"""What the options of `--engine` mean, for every command that has them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recombine.engines import ProcessSettings, RaySettings

OPTIONS = {
    "ray": {"gpus_per_task", "cpus_per_task", "seeds_per_task"},
    "processes": {"workers", "seeds_per_task"},
}
"""Which options an engine has, beside an address."""


def engine_settings(
    engine: str, *, address: str | None = None, **given: Any
) -> "ProcessSettings | RaySettings | None":
    """Returns the settings of several processes or of a cluster, or `None` for this process.

    An option of another engine is a mistake, not a wish to be passed over; only the address may
    come from the environment, where it is for others too.
    """
    from recombine.experiments import SettingsError

    asked = {name: value for name, value in given.items() if value is not None}
    for name in asked:
        if name not in OPTIONS.get(engine, ()):
            raise SettingsError(_misplaced(name))
    if engine == "ray":
        from recombine.engines import RaySettings

        return RaySettings(address=address or None, **asked)
    if engine == "processes":
        from recombine.engines import ProcessSettings

        return ProcessSettings(**asked)
    return None


def search_settings(engine: str, **given: Any) -> "RaySettings | None":
    """Returns the settings of a cluster for a search, which several processes share by themselves.

    Raises:
        SettingsError: `--engine processes`, or an option of another engine.
    """
    from recombine.engines import ProcessSettings
    from recombine.experiments import SettingsError

    settings = engine_settings(engine, **given)
    if isinstance(settings, ProcessSettings):
        raise SettingsError(
            "`--engine processes` is for `recombine run`; give the command of a search several "
            "times at once instead, whose processes share its trials, or use `--engine ray`"
        )
    return settings


def _misplaced(name: str) -> str:
    engines = [engine for engine, options in OPTIONS.items() if name in options]
    what = {"ray": "clusters", "processes": "several processes"}
    return (
        f"`--{name.replace('_', '-')}` is for {' and '.join(what[engine] for engine in engines)}; "
        f"add {' or '.join(f'`--engine {engine}`' for engine in engines)}, or leave it out"
    )
