r"""One inner loop: descend on a loss, and let derivatives flow through every step.

From `params` $\theta_0$ and the optimizer's state $s_0$, for $i = 0 \dots n - 1$,

$$(\theta_{i+1}, s_{i+1}) = U(\theta_i, s_i, \nabla_\theta L(\theta_i; \varphi, B_i)),$$

where $U$ is any Optax optimizer, $B_i$ an optional batch of that step's own, and $\varphi$ whatever
the loss closes over. What depends on $\theta_n$ can be differentiated with respect to $\theta_0$,
$\varphi$, $s_0$ and the batches. The bilevel methods are settings of this loop:

- MAML adapts all of a network, ANIL its head, a hypernetwork's learner the embedding of a task;
- distillation adapts a student on a loss that holds the teacher's targets, computed beforehand and
  handed in as batches; the teacher gets its gradient through them.

Backward passes need what the forward pass computed. Kept whole, that is activations times steps;
`keep` says what is kept instead and computed again. With `"segments"` the memory for n steps is
that of about 2√n copies of parameters and optimizer state, and the activations of one step.
"""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Bool, Float, PyTree

Order = Literal["second", "first", "partial"]
"""What is differentiated: all (`second`); the last point alone, as if every update were a constant
(`first`); or all but the Hessian of the inner loss (`partial`): each inner gradient depends on what
the loss closes over, not on the point where it is taken."""

Keep = Literal["everything", "steps", "segments"]
"""What the forward pass keeps for the backward pass: all it computed; the parameters before every
step, which are recomputed from; or the parameters before every one of about √n segments."""

SHORT = 4  # steps up to which segments would save nothing

Loss = Callable[[Any, Any], Float[Array, ""]]


class Adapted(NamedTuple):
    """What an inner loop ends with."""

    params: Any
    """All parameters, those that were not adapted among them."""
    opt_state: Any
    """The optimizer's state after the last step, to continue from."""
    losses: Float[Array, " steps"]
    """The loss before each step."""
    finite: Bool[Array, ""]
    """Whether losses and adapted parameters are numbers; see `raise_if_diverged`."""


def adapt(
    loss: Loss,
    params: PyTree[Any],
    optimizer: optax.GradientTransformation,
    *,
    num_steps: int | None = None,
    batches: PyTree[Any] = None,
    adapts: PyTree[Any] = eqx.is_inexact_array,
    order: Order = "second",
    keep: Keep = "segments",
    opt_state: PyTree[Any] = None,
    packed: bool = False,
) -> Adapted:
    """Takes `num_steps` steps of gradient descent on `loss`, differentiably.

    To differentiate only the last steps of many, call it twice: the first outcome goes through
    `jax.lax.stop_gradient` and, with its `opt_state`, into the second call.

    Args:
        loss: a function of the parameters and of the step's batch (`None` without `batches`).
        params: where to start; any pytree.
        optimizer: any Optax optimizer. Adam has no finite derivative where a gradient is exactly
            zero unless `eps_root` is positive: use `differentiable_adamw`, or set it.
        num_steps: how many steps; may be left out where `batches` say it. Zero is allowed.
        batches: a pytree whose arrays have a leading axis of steps. PRNG keys are arrays too: a
            loss that draws its own batch from a key needs no memory for batches.
        adapts: which leaves of `params` are adapted: a function of a leaf, or a pytree of booleans,
            as in `equinox.partition`. By default all arrays of floating-point numbers.
        order: see `Order`.
        keep: see `Keep`. It changes time and memory, not the result.
        opt_state: the optimizer's state to start from; by default a fresh one.
        packed: whether all adapted leaves are one long vector during the loop, for an optimizer
            that treats every number by itself. An accelerator then updates and keeps them at once,
            not leaf by leaf: a quarter fewer kernels for a network of six layers. The result is
            the same; the optimizer starts afresh, and its last state is that of the vector.

    Example:
        >>> import jax, optax
        >>> def end(start):
        ...     loss = lambda x, batch: 0.5 * x**2
        ...     return adapt(loss, start, optax.sgd(0.1), num_steps=2).params
        >>> round(float(end(2.0)), 4), round(float(jax.grad(end)(2.0)), 4)
        (1.62, 0.81)
    """
    _check_choice("order", order, Order)
    _check_choice("keep", keep, Keep)
    num_steps = _count_steps(num_steps, batches)
    params = jax.tree.map(
        lambda leaf: jnp.asarray(leaf) if isinstance(leaf, float) else leaf, params
    )
    moving, still = eqx.partition(params, adapts)
    _check_moving(moving)
    unpack: Callable[[Any], Any] = _as_it_is
    if packed:
        _check_packable(moving, opt_state)
        moving, unpack = ravel_pytree(moving)
    if opt_state is None:
        opt_state = optimizer.init(moving)

    def step(carry: Any, batch: Any) -> tuple[Any, Float[Array, ""]]:
        moving, opt_state = carry
        point = jax.lax.stop_gradient(moving) if order == "partial" else moving
        value, grads = jax.value_and_grad(lambda m: loss(eqx.combine(unpack(m), still), batch))(
            point
        )
        updates, opt_state = optimizer.update(grads, opt_state, moving)
        if order == "first":
            updates, opt_state = jax.lax.stop_gradient((updates, opt_state))
        return (optax.apply_updates(moving, updates), opt_state), value

    # Without derivatives through the steps there is nothing to keep, hence nothing to save.
    keep = "everything" if order == "first" else keep
    (moving, opt_state), losses = _scan(step, (moving, opt_state), batches, num_steps, keep)
    finite = jnp.all(jnp.isfinite(losses))
    for leaf in jax.tree.leaves(moving):
        finite &= jnp.all(jnp.isfinite(leaf))
    return Adapted(eqx.combine(unpack(moving), still), opt_state, losses, finite)


def segment_length(num_steps: int) -> int:
    """Returns how many steps make a segment: near √n, and a divisor of n if one is near enough.

    Memory is that of the starts of all segments and the steps of one. A length that does not
    divide n leaves a shorter segment at the end, which is compiled apart.

    Example:
        >>> [segment_length(n) for n in (10, 96, 97, 300, 1000)]
        [5, 12, 10, 20, 40]
    """
    best = min(
        (d for d in range(1, num_steps + 1) if num_steps % d == 0),
        key=lambda d: (d + num_steps // d, -d),
    )
    near_enough = best + num_steps // best <= 2.5 * math.sqrt(num_steps)
    return best if near_enough else math.ceil(math.sqrt(num_steps))


def _scan(step: Any, carry: Any, batches: Any, num_steps: int, keep: Keep) -> tuple[Any, Any]:
    if keep == "everything" or num_steps == 0:
        return jax.lax.scan(step, carry, batches, num_steps)
    # Within a scan, XLA cannot merge the recomputation with the first computation.
    recomputed = jax.checkpoint(step, prevent_cse=False)
    if keep == "steps" or num_steps <= SHORT:
        return jax.lax.scan(recomputed, carry, batches, num_steps)

    def segment(carry: Any, part: Any, length: int) -> tuple[Any, Any]:
        return jax.lax.scan(recomputed, carry, part, length)

    length = segment_length(num_steps)
    count, rest = divmod(num_steps, length)
    whole = count * length
    parts = jax.tree.map(lambda b: b[:whole].reshape(count, length, *b.shape[1:]), batches)
    carry, losses = jax.lax.scan(
        jax.checkpoint(lambda c, p: segment(c, p, length), prevent_cse=False), carry, parts, count
    )
    losses = losses.reshape(whole)
    if rest:
        tail = jax.tree.map(lambda b: b[whole:], batches)
        carry, last = jax.checkpoint(lambda c, p: segment(c, p, rest))(carry, tail)
        losses = jnp.concatenate([losses, last])
    return carry, losses


def _count_steps(num_steps: int | None, batches: Any) -> int:
    leaves = jax.tree.leaves(batches)
    if not leaves and num_steps is None:
        raise ValueError("`adapt` needs `num_steps`, or `batches` with a leading axis of steps")
    if any(jnp.ndim(leaf) == 0 for leaf in leaves):
        raise ValueError("every array of `batches` needs a leading axis of steps; got a scalar")
    lengths = sorted({leaf.shape[0] for leaf in leaves})
    if len(lengths) > 1:
        raise ValueError(
            f"the arrays of `batches` disagree about the number of steps: their leading axes are "
            f"{lengths}"
        )
    if num_steps is None:
        return lengths[0]
    if num_steps < 0:
        raise ValueError(f"`num_steps` must be at least 0; got {num_steps}")
    if lengths and lengths[0] != num_steps:
        raise ValueError(
            f"`num_steps` is {num_steps}, but `batches` have a leading axis of {lengths[0]} steps; "
            f"leave `num_steps` out, or give as many batches as steps"
        )
    return num_steps


def _check_moving(moving: Any) -> None:
    leaves = jax.tree.leaves(moving)
    if not leaves:
        raise ValueError("`adapts` selects no leaf of `params`: there is nothing to adapt")
    for leaf in leaves:
        if not eqx.is_inexact_array(leaf):
            kind = getattr(leaf, "dtype", type(leaf).__name__)
            raise TypeError(
                f"`adapts` selects a leaf of type {kind}; only arrays of floating-point numbers "
                f"have a gradient to follow. Narrow `adapts`, or cast the leaf."
            )


def _as_it_is(moving: Any) -> Any:
    return moving


def _check_packable(moving: Any, opt_state: Any) -> None:
    if opt_state is not None:
        raise ValueError(
            "`packed` makes one vector of all adapted leaves, which an `opt_state` from outside "
            "does not fit: leave one of them out"
        )
    kinds = sorted({str(leaf.dtype) for leaf in jax.tree.leaves(moving)})
    if len(kinds) > 1:
        raise TypeError(
            f"`packed` needs adapted leaves of one type, which fit into one vector; got "
            f"{', '.join(kinds)}"
        )


def _check_choice(name: str, value: str, choices: Any) -> None:
    if value not in get_args(choices):
        raise ValueError(f"`{name}` must be one of {', '.join(get_args(choices))}; got {value!r}")
