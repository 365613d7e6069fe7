"""Few-shot tasks as arrays."""

from typing import NamedTuple

from jaxtyping import Array, Float


class Examples(NamedTuple):
    """Rows of one task, or of several along leading axes."""

    inputs: Float[Array, "*tasks rows inputs"]
    targets: Float[Array, "*tasks rows outputs"]
    weights: Float[Array, "*tasks rows"] | None = None
    """How much each row counts; None where all count alike."""


class FewShotTasks(NamedTuple):
    """Examples to adapt to and examples to be measured on, and what the tasks were made from."""

    support: Examples
    query: Examples
    latent: Float[Array, "..."]
