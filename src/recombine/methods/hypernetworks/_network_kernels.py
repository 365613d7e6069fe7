r"""Two kernels for the cross-entropy of a small network: its gradient, and Hessian times vector.

A network of a few layers of up to 128 units fits on a chip, with a block of rows: one program takes
the block through all layers and back, and only its share of the weights' gradient goes to memory.
As products by themselves, every layer's activations, errors and tangents would go there and back.

With weights $W_i$, inputs $h_i$ of layers, errors $\delta_i$ of their outputs and ReLU masks $m_i$,

$$\nabla_{W_i} L = h_i^\top \delta_i, \qquad
  \delta_{i-1} = m_i \odot \delta_i W_i^\top,$$

and for a direction $V$ the Hessian's product is the derivative of these along it, with tangents
$\dot h_{i+1} = m_{i+1} \odot (\dot h_i W_i + h_i V_i)$ and
$\dot\delta_{i-1} = m_i \odot (\dot\delta_i W_i^\top + \delta_i V_i^\top)$:

$$(H V)_i = \dot h_i^\top \delta_i + h_i^\top \dot\delta_i.$$

Products are of 16-bit numbers, added up in float32. Sizes are powers of two, at least 16; what
fills them up is zero and stays zero.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float

BLOCK = 64
"""Rows of a program."""
WIDEST = 128
"""Units of a layer that still fit."""
WARPS = 8
VERY_SMALL = -1e30  # a logit that is none


class Layers(NamedTuple):
    """The weights and biases of a network, or what belongs to them, such as a gradient."""

    weights: tuple[Float[Array, "..."], ...]
    biases: tuple[Float[Array, "..."], ...]


class Rows(NamedTuple):
    """Rows to measure a network on."""

    inputs: Float[Array, "rows inputs"]
    targets: Float[Array, "rows classes"]
    weights: Float[Array, " rows"]  # with a mean of 1


def padded(size: int) -> int:
    """Returns the power of two, at least 16, that holds so many.

    Example:
        >>> [padded(size) for size in (8, 16, 100)]
        [16, 16, 128]
    """
    return max(16, 1 << (size - 1).bit_length())


def gradient_kernel(
    layers: Layers, rows: Rows, num_classes: int, *, interpret: bool = False
) -> tuple[Float[Array, ""], Layers]:
    """Returns the weighted sum of the cross-entropy over rows, and its gradient.

    Args:
        layers: 16-bit weights, float32 biases, of padded sizes.
        rows: 16-bit inputs; as many rows as a multiple of `BLOCK`.
        num_classes: how many columns of the targets are classes.
        interpret: whether to run without a GPU, slowly.
    """
    shapes = [*_of_blocks(layers, rows), _of_block(rows, (1,), jnp.float32)]
    *found, losses = _call(_gradient, shapes, layers, rows, (), num_classes, interpret)
    return jnp.sum(losses), _summed(found)


def hessian_kernel(
    layers: Layers, direction: Layers, rows: Rows, num_classes: int, *, interpret: bool = False
) -> Layers:
    """Returns the Hessian of that sum times a direction; see `gradient_kernel`."""
    # Read again on the way back: kept on the chip, they would not leave room for the sums.
    kept = [
        _of_block(rows, (BLOCK, weight.shape[1]), rows.inputs.dtype)
        for weight in layers.weights[:-1]
    ]
    shapes = [*_of_blocks(layers, rows), *kept, *kept]
    along = (*direction.weights, *direction.biases)
    found = _call(_hessian_product, shapes, layers, rows, along, num_classes, interpret)
    return _summed(found[: 2 * len(layers.weights)])


# --- the calls ---------------------------------------------------------------------------------


def _call(
    kernel: Any,
    shapes: list[Any],
    layers: Layers,
    rows: Rows,
    more: Sequence[Array],
    num_classes: int,
    interpret: bool,
) -> Any:
    barrier: Any = _no_barrier
    on_triton: dict[str, Any] = {}
    if not interpret:
        from jax.experimental.pallas import triton

        barrier = triton.debug_barrier
        on_triton = {"compiler_params": triton.CompilerParams(num_warps=WARPS, num_stages=1)}
    whole = [*layers.weights, *layers.biases, *more]

    def of_rows(array: Array) -> Any:
        if array.ndim == 1:
            return pl.BlockSpec((BLOCK,), lambda block: (block,))
        return pl.BlockSpec((BLOCK, array.shape[1]), lambda block: (block, 0))

    def everywhere(array: Array) -> Any:
        zeros = (0,) * array.ndim
        return pl.BlockSpec(array.shape, lambda block: zeros)

    def of_block(shape: Any) -> Any:
        zeros = (0,) * (len(shape.shape) - 1)
        return pl.BlockSpec((None, *shape.shape[1:]), lambda block: (block, *zeros))

    return pl.pallas_call(
        functools.partial(kernel, len(layers.weights), num_classes, barrier),
        out_shape=shapes,
        grid=(len(rows.inputs) // BLOCK,),
        in_specs=[*map(of_rows, rows), *map(everywhere, whole)],
        out_specs=[of_block(shape) for shape in shapes],
        interpret=interpret,
        **on_triton,
    )(*rows, *whole)


def _of_block(rows: Rows, shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct((len(rows.inputs) // BLOCK, *shape), dtype)


def _of_blocks(layers: Layers, rows: Rows) -> list[Any]:
    """Returns the shapes of the sums over the rows of every block."""
    return [
        _of_block(rows, array.shape, jnp.float32) for array in (*layers.weights, *layers.biases)
    ]


def _summed(found: Sequence[Array]) -> Layers:
    sums = [jnp.sum(array, axis=0) for array in found]
    half = len(sums) // 2
    return Layers(tuple(sums[:half]), tuple(sums[half:]))


def _no_barrier() -> None:
    pass


# --- the kernels -------------------------------------------------------------------------------


def _gradient(count: int, num_classes: int, barrier: Any, *refs: Any) -> None:
    (inputs, targets, row_weights), refs = [ref[...] for ref in refs[:3]], refs[3:]
    weights, biases, refs = refs[:count], refs[count : 2 * count], refs[2 * count :]
    weight_sums, bias_sums, loss_sum = refs[:count], refs[count : 2 * count], refs[2 * count]

    reads = [inputs]  # what each layer reads
    logits = inputs
    for number in range(count):
        outputs = _product(reads[-1], weights[number][...]) + biases[number][...][None]
        if number < count - 1:
            reads.append(jnp.maximum(outputs, 0.0).astype(inputs.dtype))
        else:
            logits = outputs
    likelihoods, probabilities = _softmax(logits, num_classes)
    losses = -jnp.sum(targets * likelihoods, axis=1) * row_weights
    loss_sum[...] = jnp.sum(losses)[None]

    mass = jnp.sum(targets, axis=1)[:, None]
    errors = (probabilities * mass - targets) * row_weights[:, None]
    for number in reversed(range(count)):
        bias_sums[number][...] = jnp.sum(errors, axis=0)
        errors = errors.astype(inputs.dtype)
        weight_sums[number][...] = _product(reads[number], errors, transpose_first=True)
        if number > 0:
            back = _product(errors, weights[number][...], transpose_second=True)
            errors = jnp.where(reads[number] > 0, back, 0.0)


def _hessian_product(count: int, num_classes: int, barrier: Any, *refs: Any) -> None:
    row_refs, refs = refs[:3], refs[3:]
    weights, biases, refs = refs[:count], refs[count : 2 * count], refs[2 * count :]
    along, bias_along, refs = refs[:count], refs[count : 2 * count], refs[2 * count :]
    weight_sums, bias_sums, refs = refs[:count], refs[count : 2 * count], refs[2 * count :]
    kept, kept_tangents = refs[: count - 1], refs[count - 1 :]
    inputs, targets, row_weights = (ref[...] for ref in row_refs)
    half = inputs.dtype

    rows, tangents = inputs, None
    logits = logit_tangents = inputs
    for number in range(count):
        outputs = _product(rows, weights[number][...]) + biases[number][...][None]
        change = _product(rows, along[number][...]) + bias_along[number][...][None]
        if tangents is not None:
            change = change + _product(tangents, weights[number][...])
        if number < count - 1:
            rows = jnp.maximum(outputs, 0.0).astype(half)
            tangents = jnp.where(outputs > 0, change, 0.0).astype(half)
            kept[number][...], kept_tangents[number][...] = rows, tangents
        else:
            logits, logit_tangents = outputs, change
    _, probabilities = _softmax(logits, num_classes)
    mass = jnp.sum(targets, axis=1)[:, None]
    mean_change = jnp.sum(probabilities * logit_tangents, axis=1)[:, None]
    errors = (probabilities * mass - targets) * row_weights[:, None]
    error_tangents = probabilities * (logit_tangents - mean_change) * mass * row_weights[:, None]
    barrier()  # another thread may read what was kept

    for number in reversed(range(count)):
        bias_sums[number][...] = jnp.sum(error_tangents, axis=0)
        errors, error_tangents = errors.astype(half), error_tangents.astype(half)
        rows = (kept[number - 1] if number > 0 else row_refs[0])[...]
        found = _product(rows, error_tangents, transpose_first=True)
        if number > 0:
            tangents = kept_tangents[number - 1][...]
            found = found + _product(tangents, errors, transpose_first=True)
        weight_sums[number][...] = found
        if number > 0:
            weight = weights[number][...]
            is_active = kept[number - 1][...] > 0
            back = _product(errors, weight, transpose_second=True)
            change = _product(error_tangents, weight, transpose_second=True)
            change = change + _product(errors, along[number][...], transpose_second=True)
            errors = jnp.where(is_active, back, 0.0)
            error_tangents = jnp.where(is_active, change, 0.0)


def _softmax(logits: Any, num_classes: int) -> tuple[Any, Any]:
    """Returns logarithms and values of the classes' probabilities; 0 beyond the classes."""
    is_class = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 1) < num_classes
    logits = jnp.where(is_class, logits, VERY_SMALL)
    shifted = logits - jnp.max(logits, axis=1)[:, None]
    exponentials = jnp.where(is_class, jnp.exp(shifted), 0.0)
    total = jnp.sum(exponentials, axis=1)[:, None]
    likelihoods = jnp.where(is_class, shifted - jnp.log(total), 0.0)
    return likelihoods, exponentials / total


def _product(
    first: Any, second: Any, *, transpose_first: bool = False, transpose_second: bool = False
) -> Any:
    dimensions = (((0 if transpose_first else 1,), (1 if transpose_second else 0,)), ((), ()))
    return jax.lax.dot_general(first, second, dimensions, preferred_element_type=jnp.float32)
