"""What a network is trained for: a loss, and a score to look at, for one example."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, Shaped

Outputs = Float[Array, " outputs"]
Label = Shaped[Array, ""]


class Objective(NamedTuple):
    """Functions of one example's outputs and label."""

    loss: Callable[[Outputs, Label], Float[Array, ""]]
    score: Callable[[Outputs, Label], Shaped[Array, ""]]
    score_name: str = "accuracy"  # of the mean score


def _binary_loss(logits: Outputs, label: Int[Array, ""]) -> Float[Array, ""]:
    return optax.sigmoid_binary_cross_entropy(logits[0], label.astype(logits.dtype))


def _binary_is_right(logits: Outputs, label: Int[Array, ""]) -> Bool[Array, ""]:
    return (logits[0] >= 0) == (label == 1)


def _multiclass_loss(logits: Outputs, label: Int[Array, ""]) -> Float[Array, ""]:
    return optax.softmax_cross_entropy_with_integer_labels(logits, label)


def _multiclass_is_right(logits: Outputs, label: Int[Array, ""]) -> Bool[Array, ""]:
    return jnp.argmax(logits) == label


def _squared_error(outputs: Outputs, target: Float[Array, ""]) -> Float[Array, ""]:
    return (outputs[0] - target) ** 2


BINARY = Objective(_binary_loss, _binary_is_right)
"""Cross-entropy of one logit; a logit of 0 or more means class 1."""

MULTICLASS = Objective(_multiclass_loss, _multiclass_is_right)
"""Cross-entropy of one logit per class."""

REGRESSION = Objective(_squared_error, _squared_error, "squared_error")
"""Squared error of one output; the label is the number to be predicted."""
