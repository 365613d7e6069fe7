"""The learners of `ModularFewShot` by name, with numbers that suit small tables.

The published settings are for generated tasks without end (Schug et al. 2024). Here networks are
smaller, and every inner step sees the whole support, since a padded row must not be drawn.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from recombine.estimators._checks import check_count, check_number
from recombine.methods.hypernetworks import (
    AmortisedConfig,
    Architecture,
    Distillation,
    EncoderConfig,
    HyperNetworkConfig,
    InnerLoop,
    MonolithicConfig,
    OuterLoop,
)

FewShotLearner = Literal["hypernetwork", "anil", "maml", "amortised"]
"""Modules and an embedding found by descent; a network with a head, or with all of its weights,
adapted to each task; or modules and an embedding that an encoder reads off the support."""

INNER_STEPS = {"hypernetwork": 10, "anil": 20, "maml": 10, "amortised": 0}
INNER_RATES = {"hypernetwork": 0.05, "anil": 0.03, "maml": 0.01, "amortised": 0.05}
HAS_EMBEDDING = ("hypernetwork", "amortised")
LESSON = 10.0  # weight of the distance between an encoder's embeddings and those of descent


@dataclass(frozen=True)
class LearnerSettings:
    """What `ModularFewShot` was asked for; None means the learner's own default."""

    name: FewShotLearner
    modules: int
    width: int
    hidden_layers: int
    inner_steps: int | None
    inner_learning_rate: float | None
    taught: bool | None

    def check(self) -> None:
        """Refuses learners and numbers that there are not."""
        known = get_args(FewShotLearner)
        if not isinstance(self.name, str) or self.name not in known:
            raise ValueError(
                f"`learner` must be one of {', '.join(map(repr, known))}; got {self.name!r}"
            )
        for name in ("modules", "width", "hidden_layers"):
            check_count(name, getattr(self, name))
        if self.inner_steps is not None and not (self.name == "amortised" and not self.inner_steps):
            check_count("inner_steps", self.inner_steps)
        if self.inner_learning_rate is not None:
            check_number("inner_learning_rate", self.inner_learning_rate, above=0.0)
        if self.taught is not None and not isinstance(self.taught, bool | np.bool_):
            raise TypeError(f"`taught` must be True, False or None; got {self.taught!r}")
        if self.taught and self.name != "amortised":
            raise ValueError(
                f"`taught` is about the encoder of learner='amortised', and {self.name!r} has "
                f"none; leave it out"
            )

    @property
    def has_embedding(self) -> bool:
        """Whether a task is an embedding, rather than weights of its own."""
        return self.name in HAS_EMBEDDING

    @property
    def rate(self) -> float:
        """The learning rate within a task."""
        given = self.inner_learning_rate
        return INNER_RATES[self.name] if given is None else float(given)

    def architecture(self, num_inputs: int, num_outputs: int) -> Architecture:
        """Returns what makes the model."""
        sizes: dict[str, Any] = {
            "num_inputs": num_inputs,
            "num_outputs": num_outputs,
            "width": int(self.width),
            "num_hidden": int(self.hidden_layers),
        }
        if not self.has_embedding:
            return MonolithicConfig(adapts="head" if self.name == "anil" else "everything", **sizes)
        generated = HyperNetworkConfig(num_templates=int(self.modules), **sizes)
        if self.name == "hypernetwork":
            return generated
        return AmortisedConfig(generated, EncoderConfig(width=max(64, int(self.width))))

    @property
    def steps(self) -> int:
        """How many steps are taken within a task."""
        return INNER_STEPS[self.name] if self.inner_steps is None else int(self.inner_steps)

    def inner(self) -> InnerLoop:
        """Returns how a task is adapted to."""
        return self._descent(self.steps)

    def distillation(self) -> Distillation | None:
        """Returns how an encoder is taught by descent, if it is.

        Unless asked for, an encoder with steps of its own behind it is not: steps of a fixed size
        lead away from a start that is good already.
        """
        taught = self.steps == 0 if self.taught is None else self.taught
        if self.name != "amortised" or not taught:
            return None
        return Distillation(weight=LESSON, descent=self._descent(INNER_STEPS["hypernetwork"]))  # pyright: ignore[reportArgumentType]

    def _descent(self, num_steps: int) -> InnerLoop:
        return InnerLoop(learning_rate=self.rate, num_steps=num_steps, keep="everything")  # pyright: ignore[reportArgumentType]


def outer_loop(learning_rate: float, steps: int) -> OuterLoop:
    """Returns how what tasks share is trained: the rate falls along a cosine, to the last step."""
    return OuterLoop(learning_rate=learning_rate, weight_decay=1e-4, decay_steps=steps)  # pyright: ignore[reportArgumentType]
