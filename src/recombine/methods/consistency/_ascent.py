r"""Climbing one environment's loss without leaving what another environment cannot tell apart.

The walk stays in the epsilon-region of environment e: the connected set around the solution where
e's loss differs from its value there by at most epsilon. Coordinates are whitened by the curvature
of e, so that the region is roughly a ball of radius $\sqrt{2\epsilon}$. A step goes up the other
loss; what would leave the region is turned along its boundary and pulled back onto it. A step
counts only if points along it lie in the region too, so that the walk cannot jump a barrier.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

Point = Float[Array, " dims"]
Landscape = Callable[[Point], Float[Array, ""]]

INSIDE = 0.999  # of epsilon: where the boundary is aimed at, so that rounding does not cross it
PULLS = 2  # corrections that bring a curved step back onto the boundary
LOOKS = 4  # points along a step that must lie in the region, its end among them
NOISE = 0.05  # of a step: leaves saddles, and the case of parallel gradients
GROW, SHRINK = 1.5, 0.4  # of the stride, after a step that counted and after one that did not
HALVINGS = 16  # of the first step away from the solution


class Walk(NamedTuple):
    """Where a walk is, how high, and how far its next step goes."""

    point: Point
    height: Float[Array, ""]
    stride: Float[Array, ""]


def climb(
    own: Landscape,
    other: Landscape,
    epsilon: Float[Array, ""],
    shorten: Callable[[Point], Point],
    dims: int,
    steps: int,
    key: PRNGKeyArray,
) -> Walk:
    """Walks from the origin up `other` inside the region where |`own`| stays within `epsilon`.

    Args:
        own: the loss of the region's environment, less its value at the origin.
        other: what is to be made large.
        epsilon: the reach of the region.
        shorten: pulls a point back into the ball that the walk may not leave, if there is one.
        dims: the number of coordinates.
        steps: how many steps are tried.
        key: for the first direction and for the noise.
    """
    start_key, walk_key = jr.split(key)
    reach = jnp.sqrt(2 * epsilon)

    def is_inside(point: Point) -> Bool[Array, ""]:
        return jnp.abs(own(point)) <= epsilon

    def step(walk: Walk, step_key: PRNGKeyArray) -> tuple[Walk, None]:
        uphill = _unit(jax.grad(other)(walk.point))
        direction = _unit(uphill + NOISE * _unit(jr.normal(step_key, (dims,))))
        value, normal = jax.value_and_grad(own)(walk.point)
        move = _turned(direction, value, normal, walk.stride, INSIDE * epsilon)
        end = walk.point + move
        for _ in range(PULLS):
            end = end + _pull(own(end), normal, INSIDE * epsilon)
        end = shorten(end)
        fractions = jnp.arange(1, LOOKS + 1) / LOOKS
        on_the_way = jax.vmap(lambda part: is_inside(walk.point + part * (end - walk.point)))
        height = other(end)
        counts = jnp.all(on_the_way(fractions)) & (height >= walk.height)  # plains are crossed
        stride = walk.stride * jnp.where(counts, GROW, SHRINK)
        return (
            Walk(
                jnp.where(counts, end, walk.point),
                jnp.where(counts, height, walk.height),
                jnp.maximum(stride, 1e-3 * reach),
            ),
            None,
        )

    first = shorten(_first_point(is_inside, reach, dims, start_key))
    walk = Walk(first, other(first), 0.25 * reach)
    return jax.lax.scan(step, walk, jr.split(walk_key, steps))[0]


def _first_point(
    is_inside: Callable[[Point], Bool[Array, ""]],
    reach: Float[Array, ""],
    dims: int,
    key: PRNGKeyArray,
) -> Point:
    """Goes as far in a random direction as halving allows; the origin, if not even a little."""
    direction = _unit(jr.normal(key, (dims,)))
    radii = 0.5 * reach * 0.5 ** jnp.arange(HALVINGS - 1, -1, -1)  # from the smallest up
    inside = jax.vmap(lambda radius: is_inside(radius * direction))(radii)
    reached = jnp.cumprod(inside)  # up to the first that is outside
    return jnp.max(radii * reached) * direction


def _turned(
    direction: Point,
    value: Float[Array, ""],
    normal: Point,
    stride: Float[Array, ""],
    level: Float[Array, ""],
) -> Point:
    """Makes a step of length `stride` that, to first order, keeps |`value`| within `level`."""
    steepness = jnp.linalg.norm(normal)
    upright = _unit(normal)
    wanted = stride * jnp.dot(direction, upright)
    slack = jnp.where(steepness > 0, steepness, 1.0)
    allowed = jnp.clip(wanted, (-level - value) / slack, (level - value) / slack)
    across = jnp.clip(jnp.where(steepness > 0, allowed, wanted), -stride, stride)
    along = _unit(direction - jnp.dot(direction, upright) * upright)
    return across * upright + jnp.sqrt(jnp.maximum(stride**2 - across**2, 0.0)) * along


def _pull(value: Float[Array, ""], normal: Point, level: Float[Array, ""]) -> Point:
    """Returns the way back to the region along the old normal; nothing where it was not left."""
    square = jnp.dot(normal, normal)
    excess = jnp.clip(value, -level, level) - value
    return jnp.where(square > 0, excess / jnp.where(square > 0, square, 1.0), 0.0) * normal


def _unit(vector: Point) -> Point:
    """Scales to length one; what is zero or not finite becomes zero."""
    largest = jnp.max(jnp.abs(vector))
    is_usable = (largest > 0) & jnp.isfinite(largest)
    scaled = jnp.where(is_usable, vector / jnp.where(is_usable, largest, 1.0), 0.0)
    return scaled / jnp.where(is_usable, jnp.linalg.norm(scaled), 1.0)
