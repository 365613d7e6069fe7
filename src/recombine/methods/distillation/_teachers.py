"""Teachers of the published sizes, and teachers that learn nothing.

The thesis leaves open the kernels of the convolutional teacher (3 here, keeping the length) and
where its batch norm stands (before every activation; none on the output).
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray, Shaped

from recombine.methods._numbers import number
from recombine.methods.distillation._layers import BatchStatisticsNorm, Convolution
from recombine.methods.distillation._teaching_losses import WeightedTargets

CLOSED = -40.0
"""A gate whose softplus is 4e-18: no supervision, with a derivative still."""


class Copy(eqx.Module):
    """A teacher whose targets are the privileged data: an auxiliary task, with nothing to learn."""

    def __call__(self, privileged: Any) -> Float[Array, " units"]:
        """Returns all numbers of one example as a vector."""
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(privileged)])


class Ready(eqx.Module):
    """Makes the module that it is given, whatever the key: a teacher or student that exists."""

    module: Any

    def __call__(self, key: PRNGKeyArray, hint: Any = None) -> Any:
        """Returns the module."""
        del key, hint
        return self.module


class NetworkTeacher(eqx.Module):
    """Convolutions over time, if any, then fully connected layers; one vector comes out.

    A layer is followed by batch norm, where there is one, and a ReLU; not so the output.
    """

    convolutions: tuple[Convolution, ...]
    layers: tuple[eqx.nn.Linear, ...]
    norms: tuple[BatchStatisticsNorm, ...]

    def __call__(self, privileged: Shaped[Array, " *shape"]) -> Float[Array, " outputs"]:
        """Returns the output for one example."""
        norms: list[Callable[[Array], Array]] = list(self.norms)
        norms = norms or [lambda x: x] * (len(self.convolutions) + len(self.layers) - 1)
        is_float = jnp.issubdtype(privileged.dtype, jnp.inexact)
        x = privileged if is_float else privileged.astype(jnp.float32)
        for layer in self.convolutions:
            x = jax.nn.relu(norms.pop(0)(layer(x)))
        x = x.reshape(-1)
        for layer in self.layers[:-1]:
            x = jax.nn.relu(norms.pop(0)(layer(x)))
        return self.layers[-1](x)


@dataclass(frozen=True)
class MLPTeacherShape:
    """The sizes of a fully connected teacher; called with a key, it draws one.

    The defaults are those of the toy tasks (Neitz, thesis, App. C.2.1).
    """

    num_inputs: int  # in all: an example of several axes is made one vector
    num_outputs: int
    hidden: tuple[int, ...] = (256, 256)
    batch_norm: bool = False

    def __call__(self, key: PRNGKeyArray) -> NetworkTeacher:
        """Draws a teacher."""
        sizes = (self.num_inputs, *self.hidden, self.num_outputs)
        return NetworkTeacher((), _linear(sizes, key), _norms(self.hidden, self.batch_norm))


@dataclass(frozen=True)
class ConvTeacherShape:
    """The sizes of a teacher that reads trajectories; called with a key, it draws one.

    The defaults are those of the control tasks (Neitz, thesis, Table C.6): 4 convolutions over
    time, one hidden layer, and two outputs for each of the 640 units of the student.

    Example:
        >>> import jax, jax.random as jr, jax.numpy as jnp
        >>> from recombine.methods.distillation import targets_of
        >>> shape = ConvTeacherShape(num_frames=16, num_channels=12)
        >>> def teach(trajectories):
        ...     return targets_of(shape(jr.key(0)), trajectories)
        >>> jax.eval_shape(teach, jnp.zeros((24, 16, 12))).shape
        (24, 1280)
    """

    num_frames: int
    num_channels: int
    num_outputs: int = 2 * 640
    maps: tuple[int, ...] = (96, 96, 96, 256)
    hidden: tuple[int, ...] = (768,)
    kernel: int = 3
    batch_norm: bool = True

    def __call__(self, key: PRNGKeyArray) -> NetworkTeacher:
        """Draws a teacher."""
        linear_key, *keys = jr.split(key, len(self.maps) + 1)
        channels = (self.num_channels, *self.maps)
        convolutions = tuple(
            Convolution(*pair, num_axes=1, kernel=self.kernel, key=k)
            for pair, k in zip(pairwise(channels), keys, strict=True)
        )
        sizes = (self.num_frames * channels[-1], *self.hidden, self.num_outputs)
        norms = _norms((*self.maps, *self.hidden), self.batch_norm)
        return NetworkTeacher(convolutions, _linear(sizes, linear_key), norms)


class AttentionTeacher(eqx.Module):
    r"""Targets for maps: mixtures of the frames, $z^*_{kl} = \sum_t a_{tkl} x_t$.

    The weights $a_{tkl}$ are a softmax over time of the teacher's only parameters (Neitz, thesis,
    Eq. 4.2 and 4.3). A softmax cannot switch a layer's supervision off; optional gates can.
    """

    logits: Float[Array, "frames layers maps"]
    gates: Float[Array, "layers maps"] | None = None

    @property
    def attention(self) -> Float[Array, "frames layers maps"]:
        """The weights of the frames; over frames they sum to 1."""
        return jax.nn.softmax(self.logits, axis=0)

    def __call__(self, frames: Shaped[Array, "frames height width"]) -> Any:
        """Returns the target maps of every layer, with their weights if there are gates."""
        mixed = jnp.einsum("tkl,thw->khwl", self.attention, frames.astype(self.logits.dtype))
        values = tuple(mixed)
        if self.gates is None:
            return values
        weights = jax.nn.softplus(self.gates)
        return WeightedTargets(values, tuple(weights[:, None, None, :]))


class AttentionShape(eqx.Module):
    """The sizes of an `AttentionTeacher`; called with a key, it draws one.

    As an oracle it is told the order in which frames are stored, and is made so that every
    `oracle_every`-th layer receives the frames in their true order, the other layers nothing.
    """

    scale: Float[Array, ""] = eqx.field(converter=number, default=1e-2)
    """The standard deviation of the logits; as an oracle, the largest logit."""
    gate: Float[Array, ""] | None = eqx.field(
        converter=lambda value: None if value is None else number(value), default=None
    )
    """Where gates start, before their softplus; None: there are none, but for an oracle."""
    num_frames: int = eqx.field(static=True, default=3)
    num_layers: int = eqx.field(static=True, default=9)
    num_maps: int = eqx.field(static=True, default=16)
    oracle_every: int | None = eqx.field(static=True, default=None)

    def __call__(
        self, key: PRNGKeyArray, hint: Int[Array, " frames"] | None = None
    ) -> AttentionTeacher:
        """Draws a teacher.

        Args:
            key: of the logits.
            hint: for an oracle: stored frame i is the true frame `hint[i]`.
        """
        shape = (self.num_frames, self.num_layers, self.num_maps)
        if self.oracle_every is None:
            gates = None if self.gate is None else jnp.full(shape[1:], self.gate)
            return AttentionTeacher(self.scale * jr.normal(key, shape), gates)
        if hint is None:
            raise ValueError(
                "an oracle must be told the order of the frames: set the learner's "
                "`tells_teacher`, and the data's `hint`"
            )
        if self.num_layers != self.oracle_every * self.num_frames:
            raise ValueError(
                f"an oracle teaches one of every {self.oracle_every} layers a frame; "
                f"{self.num_layers} layers are not {self.oracle_every} x {self.num_frames} frames"
            )
        true_frame = jnp.arange(self.num_layers) // self.oracle_every
        is_it = hint[:, None] == true_frame[None, :]
        is_taught = (jnp.arange(self.num_layers) + 1) % self.oracle_every == 0
        # softplus(log(e - 1)) is 1
        opening = jnp.where(is_taught, jnp.log(jnp.expm1(1.0)), CLOSED)
        return AttentionTeacher(
            jnp.broadcast_to((self.scale * is_it)[..., None], shape),
            jnp.broadcast_to(opening[:, None], shape[1:]),
        )


def _linear(sizes: tuple[int, ...], key: PRNGKeyArray) -> tuple[eqx.nn.Linear, ...]:
    pairs = list(pairwise(sizes))
    keys = jr.split(key, len(pairs))
    return tuple(eqx.nn.Linear(*pair, key=k) for pair, k in zip(pairs, keys, strict=True))


def _norms(units: tuple[int, ...], wanted: bool) -> tuple[BatchStatisticsNorm, ...]:
    return tuple(BatchStatisticsNorm(count) for count in units) if wanted else ()
