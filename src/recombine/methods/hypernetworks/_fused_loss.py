"""The cross-entropy of a generated network, whose first and second derivatives are kernels.

An inner loop needs the gradient with respect to a network's weights, and derivatives through that
loop need products of the Hessian with a direction: nothing else of the network is differentiated
twice. So these two are functions of their own, and on a GPU they are the kernels of
`_network_kernels`; elsewhere plain JAX computes the same.

A direction is scaled to numbers of normal size before it is rounded to 16 bits, and its product is
scaled back: the Hessian is linear, and what comes back through an inner loop can be of any size.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recombine.methods.hypernetworks._half_precision import HalfPrecision
from recombine.methods.hypernetworks._hypernetwork import HyperNetwork
from recombine.methods.hypernetworks._network_kernels import (
    BLOCK,
    WIDEST,
    Layers,
    Rows,
    gradient_kernel,
    hessian_kernel,
    padded,
)
from recombine.methods.hypernetworks._objectives import row_mean

HALF = jnp.float16
TINY = 1e-30


class FusedLoss(eqx.Module):
    """A hypernetwork in float16 that has the loss of its networks from kernels."""

    model: HyperNetwork

    @property
    def _rounded(self) -> HalfPrecision:
        return HalfPrecision(self.model, "float16")

    def start(
        self,
        inputs: Float[Array, "rows inputs"],
        targets: Float[Array, "rows outputs"],
        weights: Float[Array, " rows"] | None,
        *,
        key: PRNGKeyArray,
    ) -> PyTree[Any]:
        """Returns the start of the hypernetwork itself."""
        return self.model.start(inputs, targets, weights, key=key)

    def read(self, inputs: Float[Array, "rows inputs"]) -> Float[Array, "rows inputs"]:
        """Returns the inputs in 16 bits."""
        return self._rounded.read(inputs)

    def predict(
        self, task: PyTree[Any], features: Float[Array, "rows inputs"]
    ) -> Float[Array, "rows outputs"]:
        """Returns the outputs, in float32."""
        return self._rounded.predict(task, features)

    def loss(
        self,
        task: PyTree[Any],
        features: Float[Array, "rows inputs"],
        targets: Float[Array, "rows outputs"],
        weights: Float[Array, " rows"] | None,
    ) -> Float[Array, ""]:
        """Returns what `SoftLabels.loss` of the predictions is."""
        network = self.model.generate(task)
        biases = network.biases
        if task.bias is not None:
            biases = (*biases[:-1], biases[-1] + task.bias)
        fused = fused_cross_entropy(Layers(network.weights, biases), features, targets, weights)
        entropies = -jnp.sum(jax.scipy.special.xlogy(targets, targets), axis=-1)
        return fused - row_mean(entropies, weights)


def fits_kernels(sizes: Sequence[int]) -> bool:
    """Says whether the kernels hold a network whose layers have these sizes."""
    return max(sizes) <= WIDEST


def fused_cross_entropy(
    layers: Layers,
    inputs: Float[Array, "rows inputs"],
    targets: Float[Array, "rows classes"],
    weights: Float[Array, " rows"] | None,
) -> Float[Array, ""]:
    """Returns the weighted mean over rows of the cross-entropy with the network's outputs.

    It has first and second derivatives with respect to the layers, computed in float16, and none
    with respect to the rows.
    """
    if inputs.shape[0] % BLOCK:
        raise ValueError(
            f"the kernels take rows by {BLOCK}: their number must be a multiple of it; got "
            f"{inputs.shape[0]}"
        )
    if weights is None:
        weights = jnp.ones(inputs.shape[0])
    weights = weights / jnp.mean(weights)
    return _loss(layers, Rows(inputs.astype(HALF), targets, weights))


@jax.custom_vjp
def _loss(layers: Layers, rows: Rows) -> Float[Array, ""]:
    return _loss_and_gradient(layers, rows)[0]


def _loss_forward(layers: Layers, rows: Rows) -> tuple[Any, Any]:
    return _loss_and_gradient(layers, rows)


def _loss_backward(gradient: Layers, change: Any) -> tuple[Layers, None]:
    return jax.tree.map(lambda leaf: change * leaf, gradient), None


_loss.defvjp(_loss_forward, _loss_backward)


@jax.custom_vjp
def _loss_and_gradient(layers: Layers, rows: Rows) -> tuple[Float[Array, ""], Layers]:
    return jax.lax.platform_dependent(layers, rows, cuda=_kernel_gradient, default=_plain_gradient)


def _gradient_forward(layers: Layers, rows: Rows) -> tuple[Any, Any]:
    loss, gradient = _loss_and_gradient(layers, rows)
    return (loss, gradient), (layers, rows, gradient)


def _gradient_backward(kept: Any, changes: Any) -> tuple[Layers, None]:
    layers, rows, gradient = kept
    of_loss, direction = changes
    largest = jnp.stack([jnp.max(jnp.abs(leaf)) for leaf in jax.tree.leaves(direction)])
    size = jnp.maximum(jnp.max(largest), TINY)
    curved = jax.lax.platform_dependent(
        layers,
        jax.tree.map(lambda leaf: leaf / size, direction),
        rows,
        cuda=_kernel_hessian,
        default=_plain_hessian,
    )
    change = jax.tree.map(lambda first, second: of_loss * first + size * second, gradient, curved)
    return change, None


_loss_and_gradient.defvjp(_gradient_forward, _gradient_backward)


# --- by kernels --------------------------------------------------------------------------------


def _kernel_gradient(layers: Layers, rows: Rows, *, interpret: bool = False) -> tuple[Any, Layers]:
    num_classes = rows.targets.shape[1]
    loss, found = gradient_kernel(
        _rounded(layers), _padded_rows(rows), num_classes, interpret=interpret
    )
    return loss / len(rows.inputs), _mean_of(found, layers, len(rows.inputs))


def _kernel_hessian(
    layers: Layers, direction: Layers, rows: Rows, *, interpret: bool = False
) -> Layers:
    num_classes = rows.targets.shape[1]
    found = hessian_kernel(
        _rounded(layers), _rounded(direction), _padded_rows(rows), num_classes, interpret=interpret
    )
    return _mean_of(found, layers, len(rows.inputs))


def _rounded(layers: Layers) -> Layers:
    """Fills sizes up, and rounds the weights; biases are added in float32."""
    return Layers(
        tuple(_fill(weight).astype(HALF) for weight in layers.weights),
        tuple(_fill(bias) for bias in layers.biases),
    )


def _padded_rows(rows: Rows) -> Rows:
    def columns(array: Array) -> Array:
        return jnp.pad(array, ((0, 0), (0, padded(array.shape[1]) - array.shape[1])))

    return Rows(columns(rows.inputs), columns(rows.targets), rows.weights)


def _fill(array: Array) -> Array:
    return jnp.pad(array, [(0, padded(size) - size) for size in array.shape])


def _mean_of(sums: Layers, like: Layers, num_rows: int) -> Layers:
    """Divides sums over rows by their number, and takes the filling away."""
    return jax.tree.map(
        lambda array, model: array[tuple(slice(size) for size in model.shape)] / num_rows,
        sums,
        like,
    )


# --- by JAX ------------------------------------------------------------------------------------


def _plain_loss(layers: Layers, rows: Rows) -> Float[Array, ""]:
    hidden = rows.inputs
    last = len(layers.weights) - 1
    for number, (weight, bias) in enumerate(zip(*layers, strict=True)):
        hidden = jnp.dot(hidden, weight.astype(HALF), preferred_element_type=jnp.float32)
        hidden = hidden + bias[None]
        hidden = hidden if number == last else jax.nn.relu(hidden).astype(HALF)
    losses = -jnp.sum(rows.targets * jax.nn.log_softmax(hidden), axis=1)
    return jnp.mean(losses * rows.weights)


def _plain_gradient(layers: Layers, rows: Rows) -> tuple[Any, Layers]:
    return jax.value_and_grad(_plain_loss)(layers, rows)


def _plain_hessian(layers: Layers, direction: Layers, rows: Rows) -> Layers:
    def gradient(layers: Layers) -> Layers:
        return jax.grad(_plain_loss)(layers, rows)

    return jax.jvp(gradient, (layers,), (direction,))[1]
