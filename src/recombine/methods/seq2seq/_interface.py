"""What the learner needs from data and from models, without knowing either.

`Episode`s are described by their attributes alone, so that any task can make them. Sequences end
with EOS, are padded on the right, and carry their lengths (EOS included, zero for an absent item).
Of `n` symbols, SOS has index `n` and EOS `n + 1`; the sizes of vocabularies include both.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree


@runtime_checkable
class Sequences(Protocol):
    """Padded token sequences."""

    @property
    def tokens(self) -> Int[Array, "*items width"]:
        """The symbols, EOS after the last, anything beyond."""
        ...

    @property
    def lengths(self) -> Int[Array, " *items"]:
        """How many tokens of each row are real."""
        ...


@runtime_checkable
class Pairs(Protocol):
    """Inputs with the outputs they stand for."""

    @property
    def inputs(self) -> Any:
        """The `Sequences` to be read."""
        ...

    @property
    def outputs(self) -> Any:
        """The `Sequences` to be written."""
        ...


@runtime_checkable
class Episode(Protocol):
    """A few-shot problem; baselines get one without support."""

    @property
    def support(self) -> Any:
        """The `Pairs` that are shown."""
        ...

    @property
    def queries(self) -> Any:
        """The `Pairs` that are asked."""
        ...


@runtime_checkable
class EpisodeSource(Protocol):
    """Where episodes come from: pure functions, with whatever a run holds out as a value."""

    def begin(self, key: PRNGKeyArray) -> PyTree:
        """Draws what a run holds out."""
        ...

    def sample(self, held: Any, key: PRNGKeyArray) -> Any:
        """Draws one training episode."""
        ...

    def validation(self, held: Any) -> Any:
        """Returns the held-out episodes to watch, stacked."""
        ...

    def tests(self, held: Any, key: PRNGKeyArray) -> dict[str, Any]:
        """Returns the named tests of the end, each as stacked episodes."""
        ...


@runtime_checkable
class Model(Protocol):
    """A sequence-to-sequence model that may look at a support set."""

    def logits(
        self, support: Any, queries: Any, key: PRNGKeyArray | None
    ) -> Float[Array, "items steps symbols"]:
        """Scores every target symbol given those before it; `key` switches dropout on."""
        ...

    def matches(self, support: Any, queries: Any) -> Bool[Array, " items"]:
        """Says which queries greedy decoding answers exactly."""
        ...

    def predict(self, support: Any, inputs: Any, max_steps: int) -> Int[Array, "items max_steps"]:
        """Decodes greedily; what follows the first EOS is EOS."""
        ...

    def attention(
        self, support: Any, inputs: Any, outputs: Int[Array, "items steps"]
    ) -> dict[str, Float[Array, "..."]]:
        """Returns where the model looked while it produced `outputs`."""
        ...


@runtime_checkable
class Architecture(Protocol):
    """The numbers of a model, hashable, with a way to build it."""

    def make(self, *, key: PRNGKeyArray) -> Any:
        """Builds a `Model` with fresh parameters."""
        ...


@dataclass(frozen=True)
class Numerics:
    """How the arithmetic is carried out; the results differ by rounding only."""

    precision: str = "float32"
    """Operands of matrix products: `float32`, which NVIDIA's GPUs round to TF32; `highest`, which
    they do not; or `bfloat16`. Sums and states are always float32."""

    unroll: int = 1
    """Steps of a recurrence per iteration of the compiled loop."""

    def __post_init__(self) -> None:
        if self.precision not in ("float32", "highest", "bfloat16"):
            raise ValueError(
                f"`precision` must be float32, highest or bfloat16; got {self.precision!r}"
            )
        if self.unroll < 1:
            raise ValueError(f"`unroll` must be at least 1; got {self.unroll}")
