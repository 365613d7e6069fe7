"""What the options of `--engine ray` mean, for every command that has them."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recombine.engines import RaySettings


def ray_settings(engine: str, *, address: str | None, **given: Any) -> "RaySettings | None":
    """Returns the settings of a cluster, or `None` for this process.

    An option for clusters without `--engine ray` is a mistake, not a wish to be passed over; only
    the address may come from the environment, where it is for others too.
    """
    from recombine.experiments import SettingsError

    asked = {name: value for name, value in given.items() if value is not None}
    if engine == "ray":
        from recombine.engines import RaySettings

        return RaySettings(address=address or None, **asked)
    if asked:
        option = "--" + next(iter(asked)).replace("_", "-")
        raise SettingsError(f"`{option}` is for clusters; add `--engine ray`, or leave it out")
    return None
