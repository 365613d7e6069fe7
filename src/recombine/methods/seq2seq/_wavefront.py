"""Two LSTM layers in one loop: while the first makes step t, the second makes step t - 1.

On a GPU a recurrence costs by the number of kernels that wait for one another, and hardly by their
arithmetic. Layer after layer, two layers over `n` steps are `2n` products in a row; in a wavefront
they are `n + 1`. Every tick of the loop is one product and one elementwise kernel, in both
directions of time; the weights' gradients follow from one product over all ticks, as in `_lstm.py`.

Three products make a tick, of one shape, and run as one: the first layer's state goes to itself
and, after dropout, to the second layer, whose state goes to itself. So the forward loop has three
*slots*: the first layer, the first layer after dropout, the second layer. The first two compute the
same thing twice, because arrays of one shape make one kernel and arrays of two shapes make two. For
the same reason slots are told apart by selection and not put together by concatenation, for which
XLA would transpose them before each product.

On a CPU products cost by their arithmetic, and layer after layer is faster: the second layer's
inputs are then one product over all steps.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from recombine.methods.seq2seq._interface import Numerics
from recombine.methods.seq2seq._layers import matmul
from recombine.methods.seq2seq._lstm import LSTM, State, activate, outer, update


def run_two_layers(
    layers: tuple[LSTM, LSTM],
    gates: Float[Array, "steps 1 items gates"],
    start: tuple[State, State],
    passed: Float[Array, "steps items m"] | None,
    numerics: Numerics,
) -> Float[Array, "steps items m"]:
    """Runs one layer on top of another, in the way that suits the device; returns the upper states.

    Args:
        layers: the lower one and the upper one, of one size and one direction.
        gates: the projected inputs of the lower layer.
        start: the states of both before the first step.
        passed: what the lower layer's states are multiplied by on their way up; `None`: by one.
        numerics: the arithmetic, and how often the loop is unrolled.
    """
    ways = partial(layer_after_layer, numerics=numerics), partial(in_wavefront, numerics=numerics)
    arguments = layers, gates, start, passed
    return jax.lax.platform_dependent(*arguments, cpu=ways[0], default=ways[1])


def layer_after_layer(
    layers: tuple[LSTM, LSTM],
    gates: Float[Array, "steps 1 items gates"],
    start: tuple[State, State],
    passed: Float[Array, "steps items m"] | None,
    numerics: Numerics,
) -> Float[Array, "steps items m"]:
    """Runs the lower layer to its end, then the upper one on all of its states."""
    first, second = layers
    outputs = first.run(gates, start[0], None, numerics)[0][:, 0]
    if passed is not None:
        outputs = outputs * passed
    return second.run(second.gates(outputs, numerics), start[1], None, numerics)[0][:, 0]


def in_wavefront(
    layers: tuple[LSTM, LSTM],
    gates: Float[Array, "steps 1 items gates"],
    start: tuple[State, State],
    passed: Float[Array, "steps items m"] | None,
    numerics: Numerics,
) -> Float[Array, "steps items m"]:
    """Runs both layers at once, the upper one a step behind.

    The lower layer makes its first step alone. In the last tick it has no step left, and makes one
    on zeros that nobody reads.
    """
    first, second = layers
    lower, lower_cell = first.step(gates[0], start[0], numerics)
    upper, upper_cell = start[1]
    sent = lower if passed is None else lower * passed[:1]

    def later(x: Array) -> Array:
        return jnp.pad(x[1:], ((0, 1), (0, 0), (0, 0)))

    result: Any = _recur(
        later(gates[:, 0]),
        second.bias[0],
        jnp.concatenate([first.hidden_weight, second.input_weight, second.hidden_weight]),
        jnp.concatenate([lower, sent, upper]),
        jnp.concatenate([lower_cell, upper_cell]),
        None if passed is None else later(passed),
        numerics,
    )
    return result


@partial(jax.custom_vjp, nondiff_argnums=(6,))
def _recur(gates, bias, weights, hidden, cell, passed, numerics):
    """Scans the ticks; `hidden` has the three slots, `cell` the two layers."""
    return _forward(gates, bias, weights, hidden, cell, passed, numerics)[1][:, 2]


def _forward(gates, bias, weights, hidden, cell, passed, numerics):
    slots = jnp.arange(3)[:, None, None]

    def tick(state, inputs):
        hidden, cell = state
        gates, passed = inputs
        products = matmul(hidden, weights, numerics)
        lower = products[0] + gates
        upper = products[1] + products[2] + bias
        activations = activate(jnp.where(slots < 2, lower[None], upper[None]))
        hidden, cell = update(activations, cell)
        if passed is not None:
            hidden = hidden * jnp.where(slots == 1, passed[None], 1)
        return (hidden, cell), (activations[::2], hidden, cell[::2])

    start = hidden, jnp.concatenate([cell[:1], cell])
    return jax.lax.scan(tick, start, (gates, passed), unroll=numerics.unroll)[1]


def _recur_fwd(gates, bias, weights, hidden, cell, passed, numerics):
    saved = _forward(gates, bias, weights, hidden, cell, passed, numerics)
    return saved[1][:, 2], (weights, hidden, cell, passed, saved)


def _recur_bwd(numerics, residuals, grad_outputs):
    weights, hidden, cell, passed, (activations, hiddens, cells) = residuals
    previous_hidden = jnp.concatenate([hidden[None], hiddens[:-1]])
    previous_cell = jnp.concatenate([cell[None], cells[:-1]])
    layers = jnp.arange(2)[:, None, None]

    # All that the loop does not change is computed before it, for all ticks at once.
    i, f, g, o = jnp.split(activations, 4, axis=-1)
    squashed = jnp.tanh(cells)
    to_cell = o * (1 - squashed * squashed)
    to_gates = jnp.concatenate(
        [g * i * (1 - i), previous_cell * f * (1 - f), i * (1 - g * g), squashed * o * (1 - o)],
        axis=-1,
    )
    # Rows of [the lower layer's gates to its state | nothing; the upper's to both layers' states].
    back = jnp.swapaxes(weights, -1, -2)
    size = back.shape[-1]
    nothing = jnp.zeros_like(back[0])
    back = jnp.stack(
        [
            jnp.concatenate([back[0], nothing], axis=-1),
            jnp.concatenate([back[1], back[2]], axis=-1),
        ]
    )

    def tick(carry, inputs):
        products, grad_cell = carry
        grad_output, to_cell, to_gates, forget, passed = inputs
        sent = products[1, :, :size]
        lower = products[0, :, :size] + (sent if passed is None else sent * passed)
        upper = products[1, :, size:] + grad_output
        grad_hidden = jnp.where(layers == 0, lower[None], upper[None])
        grad_cell = grad_cell + grad_hidden * to_cell
        grad_gates = jnp.concatenate([*[grad_cell] * 3, grad_hidden], axis=-1) * to_gates
        return (matmul(grad_gates, back, numerics), grad_cell * forget), grad_gates

    items = cell.shape[1]
    end = jnp.zeros((2, items, 2 * size), cell.dtype), jnp.zeros_like(cell)
    (products, grad_cell), grad_gates = jax.lax.scan(
        tick,
        end,
        (grad_outputs, to_cell, to_gates, f, passed),
        reverse=True,
        unroll=numerics.unroll,
    )
    per_product = jnp.concatenate([grad_gates, grad_gates[:, 1:]], axis=1)
    grad_hidden = [products[0, :, :size], products[1, :, :size], products[1, :, size:]]
    return (
        grad_gates[:, 0],
        jnp.sum(grad_gates[:, 1], axis=(0, 1))[None],
        outer(previous_hidden, per_product, numerics),
        jnp.stack(grad_hidden),
        grad_cell,
        None,
    )


_recur.defvjp(_recur_fwd, _recur_bwd)
