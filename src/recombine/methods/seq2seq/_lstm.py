"""LSTM layers over whole sequences, all directions in one loop.

Gates are ordered i, f, g, o, with `c = σ(f) c + σ(i) tanh(g)` and `h = σ(o) tanh(c)`; there are two
bias vectors, which add. Two biases mean the same function, but under Adam their sum moves twice as
fast as one would: the paper's numbers were made with two.

For speed, the inputs of all steps are multiplied by the input weights at once, and the loop
contains only the product with the recurrent weights. Its gradient is written out by hand: the
backward loop computes the gradients of the gates alone, and those of the weights follow from one
product over all steps, where differentiating the loop would add up a full weight matrix per step.
"""

from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recombine.methods.seq2seq._interface import Numerics
from recombine.methods.seq2seq._layers import embed, matmul, uniform

State = tuple[Float[Array, "*rows m"], Float[Array, "*rows m"]]

SHUT = 1e4
"""What a gate adds up to where it is entirely shut (or, with the other sign, open)."""


class LSTM(eqx.Module):
    """One LSTM layer in one or two directions; directions are stacked along the first axis."""

    input_weight: Float[Array, "directions i gates"]
    hidden_weight: Float[Array, "directions m gates"]
    input_bias: Float[Array, "directions gates"]
    hidden_bias: Float[Array, "directions gates"]

    def __init__(self, in_size: int, size: int, directions: int, *, key: PRNGKeyArray):
        if directions not in (1, 2):
            raise ValueError(f"`directions` must be 1 or 2; got {directions}")
        weights = (directions, in_size, 4 * size), (directions, size, 4 * size)
        biases = (directions, 4 * size), (directions, 4 * size)
        drawn = uniform(key, [*weights, *biases], size)
        self.input_weight, self.hidden_weight, self.input_bias, self.hidden_bias = drawn

    @property
    def size(self) -> int:
        """The number of units per direction."""
        return self.hidden_weight.shape[1]

    @property
    def bias(self) -> Float[Array, "directions 1 gates"]:
        """The sum of the two biases, ready to be added to rows."""
        return (self.input_bias + self.hidden_bias)[:, None]

    def gates(
        self, x: Float[Array, "steps items i"], numerics: Numerics
    ) -> Float[Array, "steps directions items gates"]:
        """Multiplies the inputs of all steps by the input weights, in one product."""
        steps, items, in_size = x.shape
        directions = self.input_weight.shape[0]
        weight = jnp.moveaxis(self.input_weight, 0, 1).reshape(in_size, -1)
        gates = matmul(x.reshape(-1, in_size), weight, numerics)
        gates = jnp.moveaxis(gates.reshape(steps, items, directions, -1), 2, 1)
        return gates + self.bias[None]

    def token_gates(
        self,
        tokens: Int[Array, "steps items"],
        table: Float[Array, "symbols i"],
        numerics: Numerics,
    ) -> Float[Array, "steps directions items gates"]:
        """Does the same for embedded tokens, projecting each symbol of the table once."""
        projected = self.gates(table[None], numerics)[0]
        return jnp.moveaxis(jax.vmap(partial(embed, tokens))(projected), 0, 1)

    def run(
        self,
        gates: Float[Array, "steps directions items gates"],
        start: State | None,
        lengths: Int[Array, " items"] | None,
        numerics: Numerics,
    ) -> tuple[Float[Array, "steps directions items m"], State]:
        """Runs over a whole sequence; the second direction reads it from its end.

        With `lengths`, steps beyond the end put out zeros, the last state is that of the last real
        token, and the second direction starts there. Starts from zeros if `start` is `None`, as it
        must be with `lengths`.
        """
        steps, directions, items, _ = gates.shape
        if start is None:
            zeros = jnp.zeros((directions, items, self.size), gates.dtype)
            start = zeros, zeros
        elif lengths is not None:
            raise ValueError("with `lengths`, a layer starts from zeros: `start` must be None")
        if lengths is not None:
            gates = _still_beyond(gates, lengths)
        result: Any = _recur(_flip_second(gates), self.hidden_weight, *start, numerics)
        outputs, last = result
        outputs = _flip_second(outputs)
        if lengths is None:
            return outputs, last
        position = jnp.arange(steps)[:, None, None, None]
        ends = lengths[None, None, :, None]
        outputs = jnp.where(position < ends, outputs, 0)
        forward = jnp.sum(jnp.where(position == ends - 1, outputs[:, :1], 0), axis=0)
        return outputs, (jnp.concatenate([forward, outputs[0, 1:]]), last[1])

    def step(self, gates: Float[Array, "1 items gates"], state: State, numerics: Numerics) -> State:
        """Takes one step in one direction, given the projected input."""
        activations = activate(gates + matmul(state[0], self.hidden_weight, numerics))
        return update(activations, state[1])


def _flip_second(x: Float[Array, "steps directions items m"]) -> Float[Array, "..."]:
    if x.shape[1] == 1:
        return x
    return jnp.stack([x[:, 0], x[::-1, 1]], axis=1)


def _still_beyond(
    gates: Float[Array, "steps directions items gates"], lengths: Int[Array, " items"]
) -> Float[Array, "steps directions items gates"]:
    """Shuts the input gate beyond the end and opens the forget gate: cells stay as they are.

    From zeros, hidden states stay zero, too. So the loop needs no mask, which would cost it a
    kernel in every step on a GPU.
    """
    is_real = jnp.arange(gates.shape[0])[:, None] < lengths[None]
    shut_open = jnp.array([-SHUT, SHUT, 0, 0], gates.dtype)
    still = jnp.repeat(shut_open, gates.shape[-1] // 4)
    return jnp.where(is_real[:, None, :, None], gates, still[None, None, None])


def activate(gates: Array) -> Array:
    """Squashes the four gates."""
    i, f, g, o = jnp.split(gates, 4, axis=-1)
    return jnp.concatenate(
        [jax.nn.sigmoid(i), jax.nn.sigmoid(f), jnp.tanh(g), jax.nn.sigmoid(o)], axis=-1
    )


def update(activations: Array, cell: Array) -> State:
    """Returns the next hidden state and cell, given the squashed gates."""
    i, f, g, o = jnp.split(activations, 4, axis=-1)
    cell = f * cell + i * g
    return o * jnp.tanh(cell), cell


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def _recur(gates, weight, hidden, cell, numerics):
    """Scans the recurrence."""
    outputs, last, _ = _forward(gates, weight, hidden, cell, numerics)
    return outputs, last


def _forward(gates, weight, hidden, cell, numerics):
    def step(state, gates):
        hidden, cell = state
        activations = activate(gates + matmul(hidden, weight, numerics))
        hidden, cell = update(activations, cell)
        return (hidden, cell), (activations, hidden, cell)

    last, saved = jax.lax.scan(step, (hidden, cell), gates, unroll=numerics.unroll)
    return saved[1], last, saved


def _recur_fwd(gates, weight, hidden, cell, numerics):
    outputs, last, saved = _forward(gates, weight, hidden, cell, numerics)
    return (outputs, last), (weight, hidden, cell, saved)


def _recur_bwd(numerics, residuals, grads):
    weight, hidden, cell, (activations, hiddens, cells) = residuals
    grad_outputs, grad_last = grads
    previous_hidden = jnp.concatenate([hidden[None], hiddens[:-1]])
    previous_cell = jnp.concatenate([cell[None], cells[:-1]])
    transposed = jnp.swapaxes(weight, -1, -2)

    def step(carry, inputs):
        grad_hidden, grad_cell = carry
        grad_output, activations, cell, previous = inputs
        i, f, g, o = jnp.split(activations, 4, axis=-1)
        grad_hidden = grad_hidden + grad_output
        squashed = jnp.tanh(cell)
        grad_cell = grad_cell + grad_hidden * o * (1 - squashed * squashed)
        grad_gates = jnp.concatenate(
            [
                grad_cell * g * i * (1 - i),
                grad_cell * previous * f * (1 - f),
                grad_cell * i * (1 - g * g),
                grad_hidden * squashed * o * (1 - o),
            ],
            axis=-1,
        )
        return (matmul(grad_gates, transposed, numerics), grad_cell * f), grad_gates

    inputs = (grad_outputs, activations, cells, previous_cell)
    (grad_hidden, grad_cell), grad_gates = jax.lax.scan(
        step, grad_last, inputs, reverse=True, unroll=numerics.unroll
    )
    grad_weight = outer(previous_hidden, grad_gates, numerics)
    return grad_gates, grad_weight, grad_hidden, grad_cell


def outer(left: Array, right: Array, numerics: Numerics) -> Array:
    """Sums the outer products of two sequences over steps and items, per direction."""

    def rows(x: Array) -> Array:
        return jnp.moveaxis(x, 1, 0).reshape(x.shape[1], -1, x.shape[-1])

    return matmul(jnp.swapaxes(rows(left), -1, -2), rows(right), numerics)


_recur.defvjp(_recur_fwd, _recur_bwd)
