"""What a student is trained for: a loss of one example, and what else is measured.

Numbers that only scale are array leaves, so that one compiled program serves all their values.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, Shaped

from recombine.methods._numbers import number

Measures = dict[str, Float[Array, ""]]


class BinaryLabels(eqx.Module):
    """Cross-entropy of one logit; a logit of 0 or more means class 1."""

    def loss(self, prediction: Float[Array, " 1"], label: Shaped[Array, ""]) -> Float[Array, ""]:
        """Returns the cross-entropy in nats."""
        return optax.sigmoid_binary_cross_entropy(prediction[0], label.astype(prediction.dtype))

    def measures(self, prediction: Float[Array, " 1"], label: Shaped[Array, ""]) -> Measures:
        """Returns loss and accuracy."""
        is_right = (prediction[0] >= 0) == (label == 1)
        return {
            "loss": self.loss(prediction, label),
            "accuracy": is_right.astype(prediction.dtype),
        }


class ClassLabels(eqx.Module):
    """Cross-entropy of one logit per class, less the prediction's entropy times a coefficient.

    The entropy is the regularizer of the baselines of task B (Neitz, thesis, §4.4.1).
    """

    entropy_weight: Float[Array, ""] = eqx.field(converter=number, default=0.0)

    def loss(self, prediction: Float[Array, " classes"], label: Int[Array, ""]) -> Float[Array, ""]:
        """Returns the cross-entropy in nats, regularized."""
        return _cross_entropy(prediction, label) - self.entropy_weight * _entropy(prediction)

    def measures(self, prediction: Float[Array, " classes"], label: Int[Array, ""]) -> Measures:
        """Returns cross-entropy and accuracy."""
        is_right = jnp.argmax(prediction) == label
        return {
            "loss": _cross_entropy(prediction, label),
            "accuracy": is_right.astype(prediction.dtype),
        }


class DrawnLabels(eqx.Module):
    """`ClassLabels` where the label was drawn from probabilities that are known for measuring.

    A label is a pair of class and probabilities; only the class is learned from. `divergence` is
    KL(probabilities ‖ prediction), the measure of task B (Neitz, thesis, Fig. 4.4).
    """

    entropy_weight: Float[Array, ""] = eqx.field(converter=number, default=0.0)

    def loss(self, prediction: Float[Array, " classes"], label: Any) -> Float[Array, ""]:
        """Returns the cross-entropy with the class that was drawn, regularized."""
        return ClassLabels(self.entropy_weight).loss(prediction, label[0])

    def measures(self, prediction: Float[Array, " classes"], label: Any) -> Measures:
        """Returns cross-entropy, accuracy and divergence."""
        drawn, probabilities = label
        inverse_surprise = jax.scipy.special.xlogy(probabilities, probabilities)
        surprise = -jnp.sum(probabilities * jax.nn.log_softmax(prediction))
        return {
            **ClassLabels(self.entropy_weight).measures(prediction, drawn),
            "divergence": surprise + jnp.sum(inverse_surprise),
        }


class BucketLabels(eqx.Module):
    r"""Cross-entropy over buckets of a number; the squared error is that of the mean bucket.

    Bucket k of K has the value $v_k = k / (K - 1)$, between 0 and 1, and the error of a prediction
    p is $(\sum_k p_k v_k - v_{k(y)})^2$ (Neitz, thesis, App. C.2.2.1; the values are our reading).
    """

    def loss(self, prediction: Float[Array, " buckets"], label: Int[Array, ""]) -> Float[Array, ""]:
        """Returns the cross-entropy in nats."""
        return _cross_entropy(prediction, label)

    def measures(self, prediction: Float[Array, " buckets"], label: Int[Array, ""]) -> Measures:
        """Returns cross-entropy, accuracy and squared error."""
        values = jnp.linspace(0.0, 1.0, len(prediction), dtype=prediction.dtype)
        expected = jnp.sum(jax.nn.softmax(prediction) * values)
        return {
            **ClassLabels().measures(prediction, label),
            "squared_error": jnp.square(expected - values[label]),
        }


class NumberLabels(eqx.Module):
    """Squared error of one output, or the mean over several; the label is what to predict."""

    def loss(self, prediction: Float[Array, " *shape"], label: Shaped[Array, " *of"]) -> Any:
        """Returns the squared error."""
        return jnp.mean(jnp.square(prediction.reshape(-1) - label.reshape(-1)))

    def measures(self, prediction: Float[Array, " *shape"], label: Shaped[Array, " *of"]) -> Any:
        """Returns the squared error."""
        error = self.loss(prediction, label)
        return {"loss": error, "squared_error": error}


def _cross_entropy(logits: Float[Array, " classes"], label: Int[Array, ""]) -> Float[Array, ""]:
    return optax.softmax_cross_entropy_with_integer_labels(logits, label)


def _entropy(logits: Float[Array, " classes"]) -> Float[Array, ""]:
    return -jnp.sum(jax.nn.softmax(logits) * jax.nn.log_softmax(logits))
