"""What a meta-learner needs from tasks, models and losses, without knowing any of them.

Examples and tasks are described by their attributes alone, so that any task can make them.
"""

from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Shaped


@runtime_checkable
class Examples(Protocol):
    """Rows of data, those of one task."""

    @property
    def inputs(self) -> Float[Array, "rows inputs"]:
        """What is shown."""
        ...

    @property
    def targets(self) -> Shaped[Array, " rows *outputs"]:
        """What is asked for."""
        ...

    @property
    def weights(self) -> Float[Array, " rows"] | None:
        """How much each row counts, 0 for one that only fills up; None where all count alike."""
        ...


@runtime_checkable
class FewShotTask(Protocol):
    """Examples to learn from and examples to be measured on; several have a leading axis."""

    @property
    def support(self) -> Any:
        """The `Examples` that a learner adapts to."""
        ...

    @property
    def query(self) -> Any:
        """The `Examples` that say how well it did."""
        ...

    @property
    def latent(self) -> Float[Array, "..."] | None:
        """What the task was made from, if that is known; a learner never sees it."""
        ...


@runtime_checkable
class TaskSource(Protocol):
    """Where tasks come from: pure functions, with whatever a seed draws as a value.

    A source whose tasks can be sampled without end may have a fourth method,
    `fresh(world, latent, key) -> Examples`: new examples of a task, for learners that see other
    ones in every inner step.
    """

    @property
    def sets(self) -> tuple[str, ...]:
        """The names of the distributions of tasks that can be measured on."""
        ...

    def begin(self, key: PRNGKeyArray) -> PyTree:
        """Draws the world of one seed: teachers, mazes, which tasks are held out."""
        ...

    def sample(self, world: Any, key: PRNGKeyArray, num_tasks: int) -> Any:
        """Draws training tasks, stacked."""
        ...

    def sample_set(self, world: Any, name: str, key: PRNGKeyArray, num_tasks: int) -> Any:
        """Draws tasks of one of the `sets`, stacked."""
        ...


@runtime_checkable
class FewShotModel(Protocol):
    """Shared parameters, and how a task's own parameters are begun and used."""

    def start(
        self,
        inputs: Float[Array, "rows inputs"],
        targets: Float[Array, "rows outputs"],
        weights: Float[Array, " rows"] | None,
        *,
        key: PRNGKeyArray,
    ) -> Any:
        """Returns the task's parameters before the first inner step, given its support."""
        ...

    def read(self, inputs: Float[Array, "rows inputs"]) -> Float[Array, "rows features"]:
        """Computes once what inner steps do not change."""
        ...

    def predict(
        self, task: Any, features: Float[Array, "rows features"]
    ) -> Float[Array, "rows outputs"]:
        """Returns the outputs for rows that were read, with the task's parameters."""
        ...


@runtime_checkable
class Architecture(Protocol):
    """The numbers of a model, hashable, with a way to build it."""

    @property
    def num_inputs(self) -> int:
        """The width of an input."""
        ...

    @property
    def num_outputs(self) -> int:
        """The width of an output."""
        ...

    def make(self, *, key: PRNGKeyArray) -> Any:
        """Builds a `FewShotModel` with fresh parameters."""
        ...


@runtime_checkable
class Objective(Protocol):
    """A loss over the rows of a task, and what else is measured; hashable."""

    def loss(
        self,
        outputs: Float[Array, "rows outputs"],
        targets: Shaped[Array, " rows *outputs"],
        weights: Float[Array, " rows"] | None,
    ) -> Float[Array, ""]:
        """Returns the weighted mean over rows."""
        ...

    def measures(
        self,
        outputs: Float[Array, "rows outputs"],
        targets: Shaped[Array, " rows *outputs"],
        weights: Float[Array, " rows"] | None,
    ) -> dict[str, Float[Array, ""]]:
        """Returns the loss and everything else worth knowing, by name."""
        ...

    def describe(
        self, targets: Shaped[Array, " rows *outputs"], num_outputs: int
    ) -> Float[Array, "rows outputs"]:
        """Returns targets as numbers for a network to read."""
        ...
