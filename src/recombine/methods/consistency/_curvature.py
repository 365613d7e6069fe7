"""Second derivatives of a loss: whole for small models, estimated along the axes for large ones."""

from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recombine.methods.consistency._landscapes import flatten

Curvature = Literal["full", "diagonal", "none"]
"""How steps are measured: by the whole Hessian, by its estimated diagonal, or alike everywhere."""

FULL_UP_TO = 128
"""Parameters up to which the whole Hessian is cheap beside the ascent."""

DAMPING = 1e-3
"""The least curvature, relative to the greatest, that a direction is measured by."""

Flat = Float[Array, " dims"]


def hessian_matrix(
    loss: Callable[[PyTree[Any]], Float[Array, ""]], params: PyTree[Any]
) -> Float[Array, "dims dims"]:
    """Returns all second derivatives, the parameters flattened in the order of the pytree.

    Example:
        >>> import jax.numpy as jnp
        >>> loss = lambda w: w["a"] ** 2 + 3 * w["a"] * w["b"]
        >>> hessian_matrix(loss, {"a": jnp.float32(1), "b": jnp.float32(2)}).tolist()
        [[2.0, 3.0], [3.0, 0.0]]
    """
    point, to_params = flatten(params)
    return jax.hessian(lambda flat: loss(to_params(flat)))(point)


def hessian_diagonal(
    loss: Callable[[PyTree[Any]], Float[Array, ""]],
    params: PyTree[Any],
    *,
    key: PRNGKeyArray,
    samples: int = 32,
) -> PyTree[Any]:
    r"""Estimates the second derivative along every parameter, without the matrix.

    $$\mathrm{diag}(H) \approx \frac{1}{k} \sum_{i=1}^{k} z_i \odot H z_i$$

    with signs $z_i$ drawn at random (Bekas, Kokiopoulou and Saad 2007, after Hutchinson). Each
    sample costs about two gradients. A diagonal Hessian is found exactly by one; otherwise the
    squared error of an entry is the sum of its squared neighbours in the row, over k.

    Example:
        >>> import jax.numpy as jnp, jax.random as jr
        >>> loss = lambda w: 0.5 * jnp.sum(jnp.array([1.0, 4.0]) * w**2)
        >>> hessian_diagonal(loss, jnp.ones(2), key=jr.key(0), samples=1).tolist()
        [1.0, 4.0]
    """
    if samples < 1:
        raise ValueError(f"`samples` is a number of random probes, at least 1; got {samples}")
    point, to_params = flatten(params)
    return to_params(flat_diagonal(lambda flat: loss(to_params(flat)), point, key, samples))


def flat_diagonal(
    loss: Callable[[Flat], Float[Array, ""]], point: Flat, key: PRNGKeyArray, samples: int
) -> Flat:
    """Estimates the diagonal for a flat vector of parameters."""

    def probe(total: Flat, probe_key: PRNGKeyArray) -> tuple[Flat, None]:
        signs = jr.rademacher(probe_key, point.shape, point.dtype)
        along = jax.jvp(jax.grad(loss), (point,), (signs,))[1]
        return total + signs * along, None

    total, _ = jax.lax.scan(probe, jnp.zeros_like(point), jr.split(key, samples))
    return total / samples


def whitening(
    loss: Callable[[Flat], Float[Array, ""]],
    point: Flat,
    curvature: Curvature,
    key: PRNGKeyArray,
) -> Float[Array, "dims dims"] | Flat:
    """Returns the root of the inverse curvature: steps of equal length cost about equal loss.

    A matrix for "full", one number per parameter otherwise. The sign of a curvature does not
    matter, and directions that are flat are measured by `DAMPING`.
    """
    if curvature == "none":
        return jnp.ones_like(point)
    if curvature == "diagonal":
        return _inverse_root(jnp.abs(flat_diagonal(loss, point, key, samples=16)))
    matrix = jax.hessian(loss)(point)
    matrix = jnp.where(jnp.isfinite(matrix), matrix, 0.0)  # then, alike everywhere
    values, vectors = jnp.linalg.eigh((matrix + matrix.T) / 2)
    return vectors * _inverse_root(jnp.abs(values))[None, :]


def unwhiten(scale: Float[Array, "dims dims"] | Flat, step: Flat) -> Flat:
    """Takes a step from whitened coordinates to those of the parameters."""
    return scale @ step if scale.ndim == 2 else scale * step


def _inverse_root(curvatures: Flat) -> Flat:
    curvatures = jnp.where(jnp.isfinite(curvatures), curvatures, 0.0)
    greatest = jnp.max(curvatures)
    damped = curvatures + DAMPING * greatest
    return jnp.where(greatest > 0, jax.lax.rsqrt(jnp.where(greatest > 0, damped, 1.0)), 1.0)
