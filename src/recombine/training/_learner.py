"""What `fit` must know of a learner, and nothing more."""

from typing import Any, Protocol

from jaxtyping import Array, PRNGKeyArray, PyTree, Shaped

Metrics = dict[str, Shaped[Array, ""]]
"""Named scalars."""


class Learner(Protocol):
    """A training algorithm with its data, as three pure functions.

    An `equinox.Module` that holds data and numbers as array leaves, and what decides shapes or code
    as static fields. Two methods are optional: `final(state, key) -> Metrics`, evaluated once after
    the last step (a test set that is too large to look at often), and `inspect(state, key) -> dict
    of arrays`, what is worth drawing of a trained state. So are two attributes: `vectorize_seeds`,
    where False keeps the seeds in turns on accelerators too, and `compiler_options`, a mapping or
    pairs of XLA's options with which the programs of a run are compiled (those named `xla_gpu_*`
    only on a GPU).
    """

    def init(self, key: PRNGKeyArray) -> PyTree[Any]:
        """Returns the state before the first step: parameters, optimizer state, counters."""
        ...

    def step(self, state: PyTree[Any], key: PRNGKeyArray) -> tuple[PyTree[Any], Metrics]:
        """Makes one update; samples its own batch or episode. Its metrics must stay finite."""
        ...

    def evaluate(self, state: PyTree[Any], key: PRNGKeyArray) -> Metrics:
        """Measures a state."""
        ...
