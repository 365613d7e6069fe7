"""The settings of Schug et al. (2024), as their code has them; all learners train with 128 tasks.

For the hyperteacher an embedding is four times as long as there are modules; the grids' lengths are
fixed. The second-order gradient goes through AdamW in all of them.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from recombine.methods.hypernetworks._hypernetwork import HyperNetworkConfig
from recombine.methods.hypernetworks._interface import Architecture
from recombine.methods.hypernetworks._loops import InnerLoop, OuterLoop
from recombine.methods.hypernetworks._monolithic import MonolithicConfig

LearnerName = Literal["linear-hnet", "deep-hnet", "anil", "maml"]
"""The four learners that the paper compares."""

ExperimentName = Literal["hyperteacher", "preference", "goals"]
"""The three experiments it compares them in."""


@dataclass(frozen=True)
class Published:
    """The numbers of one learner in one experiment."""

    width: int
    num_hidden: int
    inner_steps: int
    inner_rate: float
    outer_rate: float
    weight_decay: float
    clip_norm: float
    num_templates: int | None = None
    adapts_bias: bool = False
    batch_size: int | None = None
    skips: bool = True


_HYPERTEACHER = {
    "linear-hnet": Published(128, 3, 10, 0.3, 1e-3, 1e-2, 1.0, num_templates=32, adapts_bias=True),
    "deep-hnet": Published(128, 3, 10, 0.3, 3e-3, 1e-2, 1.0, num_templates=32),
    "anil": Published(512, 3, 100, 0.03, 1e-3, 1e-4, 2.0, batch_size=64),
    "maml": Published(384, 3, 10, 0.01, 1e-3, 1e-4, 2.0),
}
_PREFERENCE = {
    "linear-hnet": Published(64, 3, 10, 0.1, 3e-4, 1e-2, 1.0, num_templates=32, adapts_bias=True),
    "deep-hnet": Published(64, 2, 10, 0.1, 3e-4, 1e-2, 2.0, num_templates=32),
    "anil": Published(512, 4, 100, 0.01, 3e-4, 1e-2, 2.0, batch_size=64),
    "maml": Published(368, 3, 10, 0.01, 1e-3, 1e-2, 2.0),
}
_GOALS = {
    "linear-hnet": Published(32, 2, 10, 0.3, 3e-3, 1e-2, 2.0, num_templates=8, adapts_bias=True),
    "deep-hnet": Published(32, 2, 10, 0.1, 1e-3, 1e-2, 2.0, num_templates=8),
    "anil": Published(512, 2, 100, 0.01, 1e-3, 1e-2, 2.0),
    "maml": Published(384, 2, 10, 0.01, 1e-3, 1e-2, 1.0),
}
PUBLISHED: dict[str, dict[str, Published]] = {
    "hyperteacher": _HYPERTEACHER,
    "preference": _PREFERENCE,
    "goals": {name: replace(numbers, skips=False) for name, numbers in _GOALS.items()},
}
"""The settings by experiment and learner; the hyperteacher's are those for eight modules."""


def published_settings(
    experiment: str, learner: str, *, num_inputs: int, num_outputs: int
) -> tuple[Architecture, InnerLoop, OuterLoop]:
    """Returns the architecture and the two loops of a learner, as published.

    Example:
        >>> architecture, inner, _ = published_settings(
        ...     "hyperteacher", "anil", num_inputs=16, num_outputs=8
        ... )
        >>> architecture.width, inner.num_steps
        (512, 100)
    """
    _check("experiment", experiment, get_args(ExperimentName))
    _check("learner", learner, get_args(LearnerName))
    numbers = PUBLISHED[experiment][learner]
    sizes: dict[str, Any] = {
        "num_inputs": num_inputs,
        "num_outputs": num_outputs,
        "width": numbers.width,
        "num_hidden": numbers.num_hidden,
    }
    if numbers.num_templates is None:
        architecture = MonolithicConfig(
            adapts="head" if learner == "anil" else "everything", **sizes
        )
    else:
        architecture = HyperNetworkConfig(
            bank="linear" if learner == "linear-hnet" else "deep",
            num_templates=numbers.num_templates,
            adapts_bias=numbers.adapts_bias,
            **sizes,
        )
    inner = InnerLoop(
        learning_rate=numbers.inner_rate,
        num_steps=numbers.inner_steps,
        batch_size=numbers.batch_size,
        keep="everything" if learner == "anil" else "steps",  # a head's own is little
    )
    outer = OuterLoop(
        learning_rate=numbers.outer_rate,
        weight_decay=numbers.weight_decay,
        clip_norm=numbers.clip_norm,
        skips=numbers.skips,
    )
    return architecture, inner, outer


def _check(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise LookupError(f"no {name} is called {value!r}; known are {', '.join(known)}")
