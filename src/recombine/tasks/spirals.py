r"""Spirals and shortcuts: a data set that can be memorised in an easy way and in a right way.

Two interleaved spirals tell the classes apart in every environment (the mechanism, two inputs).
Beside them stands a shortcut: a vector that is constant within environment and class, so that the
training environments together are linearly separable by memorising them. In the test set the
shortcut is noise, and only the spirals are left. (Neitz, thesis, §3.3.1 and App. B; Parascandolo,
Neitz et al. 2021.)

$$r \sim U(0.08, 1), \quad \alpha = 2\pi n r + \pi y, \quad
x = ((r + \delta)\cos\alpha,\ (r + \delta)\sin\alpha), \quad \delta \sim U(-0.02, 0.02)$$

What the thesis leaves open. The number of revolutions n is not printed; the authors' code has 3.
"N(0, 0.1)" for the shortcuts is read as a standard deviation of 0.1: with it a plain network first
succeeds at 1,024 environments, as the thesis reports. The authors' code uses another data set, with
shortcuts of unit scale and normalised spirals. All three are here as styles.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

NUM_MECHANISM = 2
"""The first inputs hold the spiral; the rest hold the shortcut."""


class Style(NamedTuple):
    """The scale of the two parts of an input."""

    shortcut_std: float
    normalize: bool  # divide the spiral by its standard deviation, per data set


THESIS = Style(shortcut_std=0.1, normalize=False)
VARIANCE = Style(shortcut_std=0.1**0.5, normalize=False)
RELEASE = Style(shortcut_std=1.0, normalize=True)
STYLES = {"thesis": THESIS, "variance": VARIANCE, "release": RELEASE}


class Environments(NamedTuple):
    """Training data with an axis of environments."""

    inputs: Float[Array, "envs examples features"]
    labels: Int[Array, "envs examples"]


class Examples(NamedTuple):
    """Examples without environments."""

    inputs: Float[Array, "examples features"]
    labels: Int[Array, " examples"]


@partial(
    jax.jit,
    static_argnames=("num_envs", "num_examples", "num_shortcuts", "style", "num_revolutions"),
)
def sample_environments(
    key: PRNGKeyArray,
    *,
    num_envs: int = 32,
    num_examples: int = 1280,
    num_shortcuts: int = 32,
    style: Style = THESIS,
    num_revolutions: float = 3.0,
) -> Environments:
    """Draws training environments, each with a shortcut of its own (Neitz, thesis, App. B).

    Environment `e` is drawn from `fold_in(key, e)`: it stays the same when others are added.

    Example:
        >>> import jax.random as jr
        >>> sample_environments(jr.key(0), num_envs=4, num_examples=10).inputs.shape
        (4, 10, 34)
    """
    _check(num_envs=num_envs, num_examples=num_examples, num_shortcuts=num_shortcuts)

    def sample_environment(env: Int[Array, ""]) -> Environments:
        label_key, spiral_key, shortcut_key = jr.split(jr.fold_in(key, env), 3)
        labels = jr.bernoulli(label_key, 0.5, (num_examples,)).astype(jnp.int32)
        mechanism = _spiral(spiral_key, labels, num_revolutions, style)
        shortcut = style.shortcut_std * jr.normal(shortcut_key, (num_shortcuts,))
        signed = jnp.where(labels[:, None] == 1, shortcut[None, :], -shortcut[None, :])
        return Environments(jnp.concatenate([mechanism, signed], axis=-1), labels)

    return jax.vmap(sample_environment)(jnp.arange(num_envs))


@partial(jax.jit, static_argnames=("num_examples", "num_shortcuts", "style", "num_revolutions"))
def sample_test(
    key: PRNGKeyArray,
    *,
    num_examples: int = 2000,
    num_shortcuts: int = 32,
    style: Style = THESIS,
    num_revolutions: float = 3.0,
) -> Examples:
    """Draws examples outside the training distribution: every one has a shortcut of its own.

    The shortcut says nothing about the label (Neitz, thesis, App. B, 2,000 examples).
    """
    _check(num_examples=num_examples, num_shortcuts=num_shortcuts)
    label_key, spiral_key, shortcut_key = jr.split(key, 3)
    labels = jr.bernoulli(label_key, 0.5, (num_examples,)).astype(jnp.int32)
    mechanism = _spiral(spiral_key, labels, num_revolutions, style)
    shortcuts = style.shortcut_std * jr.normal(shortcut_key, (num_examples, num_shortcuts))
    return Examples(jnp.concatenate([mechanism, shortcuts], axis=-1), labels)


def spiral_plane(
    *, resolution: int = 96, num_shortcuts: int = 32, style: Style = THESIS
) -> Float[Array, "resolution resolution features"]:
    """Returns inputs that cover the plane of the spirals, with the shortcut at zero."""
    reach = 2.6 if style.normalize else 1.1
    line = jnp.linspace(-reach, reach, resolution)
    x, y = jnp.meshgrid(line, line)
    shortcut = jnp.zeros((resolution, resolution, num_shortcuts))
    return jnp.concatenate([x[..., None], y[..., None], shortcut], axis=-1)


def _spiral(
    key: PRNGKeyArray, labels: Int[Array, " examples"], num_revolutions: float, style: Style
) -> Float[Array, "examples 2"]:
    radius_key, noise_key = jr.split(key)
    radius = jr.uniform(radius_key, labels.shape, minval=0.08, maxval=1.0)
    angle = 2 * jnp.pi * num_revolutions * radius + jnp.pi * labels  # of the noise-free radius
    radius += jr.uniform(noise_key, labels.shape, minval=-0.02, maxval=0.02)
    points = radius[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1)
    return points / points.std(axis=0, keepdims=True) if style.normalize else points


def _check(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"`{name}` must be at least 1; got {size}")
