"""Privileged data made worse on purpose: ablations, and controls for a comparison.

A view is drawn once for a seed and then fixed. Frames are the second axis of every array, after
that of the examples; several arrays are changed alike.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import PRNGKeyArray


@dataclass(frozen=True)
class PermutedFrames:
    """The frames of every example in an order of its own (PT; Neitz, thesis, §4.4.4)."""

    def __call__(self, privileged: Any, key: PRNGKeyArray) -> Any:
        """Returns the same frames, in other orders."""
        num_examples, num_frames = _frames(privileged)
        keys = jr.split(key, num_examples)
        orders = jax.vmap(lambda k: jr.permutation(k, num_frames))(keys)
        return jax.tree.map(lambda x: x[jnp.arange(num_examples)[:, None], orders], privileged)


@dataclass(frozen=True)
class NoisyFrames:
    """The last frames replaced by noise, N(0, 1) (RT-n; Neitz, thesis, §4.4.4)."""

    count: int

    def __call__(self, privileged: Any, key: PRNGKeyArray) -> Any:
        """Returns the data with noise in the last `count` frames."""
        _, num_frames = _frames(privileged)
        if not 0 <= self.count <= num_frames:
            raise ValueError(
                f"`count` is how many of the {num_frames} frames are replaced; got {self.count}"
            )
        first = num_frames - self.count
        leaves, tree = jax.tree.flatten(privileged)
        keys = jr.split(key, len(leaves))
        return tree.unflatten(
            [
                jnp.concatenate([x[:, :first], jr.normal(k, x[:, first:].shape, _float(x))], axis=1)
                for x, k in zip(leaves, keys, strict=True)
            ]
        )


@dataclass(frozen=True)
class Noise:
    """Noise, N(0, 1), in place of all privileged data: a control."""

    def __call__(self, privileged: Any, key: PRNGKeyArray) -> Any:
        """Returns noise of the same shapes."""
        leaves, tree = jax.tree.flatten(privileged)
        keys = jr.split(key, len(leaves))
        return tree.unflatten(
            [jr.normal(k, x.shape, _float(x)) for x, k in zip(leaves, keys, strict=True)]
        )


@dataclass(frozen=True)
class ShuffledRows:
    """Every example with the privileged data of another one: a control."""

    def __call__(self, privileged: Any, key: PRNGKeyArray) -> Any:
        """Returns the same rows, in another order."""
        count = jax.tree.leaves(privileged)[0].shape[0]
        order = jr.permutation(key, count)
        return jax.tree.map(lambda x: x[order], privileged)


def _frames(privileged: Any) -> tuple[int, int]:
    shapes = {leaf.shape[:2] for leaf in jax.tree.leaves(privileged)}
    if len(shapes) != 1 or len(next(iter(shapes))) < 2:
        raise ValueError(
            f"frames are the second axis of all privileged arrays, which must agree; their shapes "
            f"begin with {sorted(shapes)}"
        )
    return next(iter(shapes))


def _float(array: Any) -> Any:
    return jnp.promote_types(array.dtype, jnp.float32)
