"""What a network is trained for: a loss and a notion of being right, for one example."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int

Logits = Float[Array, " outputs"]


class Objective(NamedTuple):
    """Functions of one example's logits and label."""

    loss: Callable[[Logits, Int[Array, ""]], Float[Array, ""]]
    is_right: Callable[[Logits, Int[Array, ""]], Bool[Array, ""]]


def _binary_loss(logits: Logits, label: Int[Array, ""]) -> Float[Array, ""]:
    return optax.sigmoid_binary_cross_entropy(logits[0], label.astype(logits.dtype))


def _binary_is_right(logits: Logits, label: Int[Array, ""]) -> Bool[Array, ""]:
    return (logits[0] >= 0) == (label == 1)


def _multiclass_loss(logits: Logits, label: Int[Array, ""]) -> Float[Array, ""]:
    return optax.softmax_cross_entropy_with_integer_labels(logits, label)


def _multiclass_is_right(logits: Logits, label: Int[Array, ""]) -> Bool[Array, ""]:
    return jnp.argmax(logits) == label


BINARY = Objective(_binary_loss, _binary_is_right)
"""Cross-entropy of one logit; a logit of 0 or more means class 1."""

MULTICLASS = Objective(_multiclass_loss, _multiclass_is_right)
"""Cross-entropy of one logit per class."""
