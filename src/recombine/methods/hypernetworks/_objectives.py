"""Losses over the rows of a task, with what else is measured of a prediction.

All are means over the rows that count; `weights` say which do, and how much.
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Shaped

Weights = Float[Array, " rows"] | None


@dataclass(frozen=True)
class SoftLabels:
    """The divergence KL(target ‖ softmax(outputs)); accuracy asks for the likeliest class."""

    def loss(
        self,
        outputs: Float[Array, "rows classes"],
        targets: Float[Array, "rows classes"],
        weights: Weights,
    ) -> Float[Array, ""]:
        """Returns the mean divergence in nats."""
        return row_mean(self._divergences(outputs, targets), weights)

    def measures(
        self,
        outputs: Float[Array, "rows classes"],
        targets: Float[Array, "rows classes"],
        weights: Weights,
    ) -> dict[str, Float[Array, ""]]:
        """Returns loss and accuracy."""
        correct = jnp.argmax(outputs, axis=-1) == jnp.argmax(targets, axis=-1)
        return {
            "loss": self.loss(outputs, targets, weights),
            "accuracy": row_mean(correct.astype(outputs.dtype), weights),
        }

    def describe(
        self, targets: Float[Array, "rows classes"], num_outputs: int
    ) -> Float[Array, "rows classes"]:
        """Returns the probabilities."""
        return targets

    def _divergences(
        self, outputs: Float[Array, "rows classes"], targets: Float[Array, "rows classes"]
    ) -> Float[Array, " rows"]:
        entropies = -jnp.sum(jax.scipy.special.xlogy(targets, targets), axis=-1)
        return -jnp.sum(targets * jax.nn.log_softmax(outputs), axis=-1) - entropies


@dataclass(frozen=True)
class HardLabels:
    """Cross-entropy with whole-number labels; also whether all rows of a task are right."""

    def loss(
        self,
        outputs: Float[Array, "rows classes"],
        targets: Int[Array, " rows"],
        weights: Weights,
    ) -> Float[Array, ""]:
        """Returns the mean cross-entropy in nats."""
        likelihoods = jnp.take_along_axis(jax.nn.log_softmax(outputs), targets[:, None], axis=-1)
        return row_mean(-likelihoods[:, 0], weights)

    def measures(
        self,
        outputs: Float[Array, "rows classes"],
        targets: Int[Array, " rows"],
        weights: Weights,
    ) -> dict[str, Float[Array, ""]]:
        """Returns loss, accuracy, and whether every row that counts is right."""
        correct = jnp.argmax(outputs, axis=-1) == targets
        counts = True if weights is None else weights > 0
        return {
            "loss": self.loss(outputs, targets, weights),
            "accuracy": row_mean(correct.astype(outputs.dtype), weights),
            "all_correct": jnp.all(correct | ~jnp.asarray(counts)).astype(outputs.dtype),
        }

    def describe(
        self, targets: Int[Array, " rows"], num_outputs: int
    ) -> Float[Array, "rows classes"]:
        """Returns one-hot rows."""
        return jax.nn.one_hot(targets, num_outputs)


@dataclass(frozen=True)
class SquaredError:
    """Half the squared error; `over_outputs` is how the outputs of a row are joined.

    The half is the papers' convention: predicting zero has a relative loss of 0.5.
    """

    over_outputs: Literal["mean", "sum"] = "mean"

    def __post_init__(self) -> None:
        if self.over_outputs not in ("mean", "sum"):
            raise ValueError(f"`over_outputs` must be mean or sum; got {self.over_outputs!r}")

    def loss(
        self,
        outputs: Float[Array, "rows outputs"],
        targets: Float[Array, "rows outputs"],
        weights: Weights,
    ) -> Float[Array, ""]:
        """Returns half the squared error, the mean over rows."""
        join = jnp.mean if self.over_outputs == "mean" else jnp.sum
        return row_mean(0.5 * join(jnp.square(outputs - targets), axis=-1), weights)

    def residuals(
        self,
        outputs: Float[Array, "rows outputs"],
        targets: Float[Array, "rows outputs"],
        weights: Weights,
    ) -> Float[Array, " errors"]:
        """Returns numbers whose squares sum to twice the loss."""
        rows, width = outputs.shape
        counts = jnp.ones(rows, outputs.dtype) if weights is None else weights
        shares = counts / jnp.maximum(jnp.sum(counts), 1e-12)
        if self.over_outputs == "mean":
            shares = shares / width
        return (jnp.sqrt(shares)[:, None] * (outputs - targets)).reshape(-1)

    def measures(
        self,
        outputs: Float[Array, "rows outputs"],
        targets: Float[Array, "rows outputs"],
        weights: Weights,
    ) -> dict[str, Float[Array, ""]]:
        """Returns the loss, and `power`, that of predicting zero.

        Half of the one over the other, both summed over tasks, is the relative loss of the paper.
        """
        return {
            "loss": self.loss(outputs, targets, weights),
            "power": self.loss(jnp.zeros_like(targets), targets, weights),
        }

    def describe(
        self, targets: Float[Array, "rows outputs"], num_outputs: int
    ) -> Float[Array, "rows outputs"]:
        """Returns the targets."""
        return targets


def row_mean(values: Shaped[Array, " rows"], weights: Weights) -> Float[Array, ""]:
    """Returns the weighted mean of rows; rows of weight zero may hold anything finite."""
    if weights is None:
        return jnp.mean(values)
    return jnp.sum(weights * values) / jnp.maximum(jnp.sum(weights), 1e-12)
