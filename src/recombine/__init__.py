"""Recombine learns the parts of a problem, so that they can be put together in new ways."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recombine.estimators import (
        InvariantClassifier as InvariantClassifier,
        InvariantRegressor as InvariantRegressor,
        MetaSeq2Seq as MetaSeq2Seq,
        ModularFewShot as ModularFewShot,
        PrivilegedClassifier as PrivilegedClassifier,
        PrivilegedRegressor as PrivilegedRegressor,
        SkipForecaster as SkipForecaster,
        load as load,
    )

__version__ = "0.1.0"

_ESTIMATORS = (
    "InvariantClassifier",
    "InvariantRegressor",
    "MetaSeq2Seq",
    "ModularFewShot",
    "PrivilegedClassifier",
    "PrivilegedRegressor",
    "SkipForecaster",
    "load",
)


def __getattr__(name: str) -> Any:
    """Imports the estimators when one is asked for, so that importing the package is free."""
    if name in _ESTIMATORS:
        from recombine import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_ESTIMATORS])
