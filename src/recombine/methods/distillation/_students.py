"""Students of the published sizes, and one that is made of any layers."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

from recombine.methods._numbers import number
from recombine.methods.distillation._interface import Answer
from recombine.methods.distillation._layers import Convolution, WeightNormLinear

Activation = Callable[[Array], Array]


class LayeredStudent(eqx.Module):
    """Any layers in a row, with an activation between them; offers what some layers give out.

    What is offered of a layer is its output before the activation. With a `head`, its output is
    offered in place of that: an auxiliary task reads the last hidden layer.
    """

    layers: tuple[Callable[..., Any], ...]
    head: Callable[..., Any] | None = None
    offers: tuple[int, ...] = eqx.field(static=True, default=())
    """Numbers of layers; the last one gives the prediction."""
    linear: tuple[int, ...] = eqx.field(static=True, default=())
    """Layers without activation, beside the last."""
    activation: Activation = eqx.field(static=True, default=jax.nn.relu)
    flatten: bool = eqx.field(static=True, default=False)
    """Whether an example is made one vector first."""

    def __check_init__(self) -> None:
        known = range(len(self.layers))
        for name in ("offers", "linear"):
            wrong = [layer for layer in getattr(self, name) if layer not in known]
            if wrong:
                raise ValueError(
                    f"`{name}` are numbers of layers from 0 to {len(self.layers) - 1}; got {wrong}"
                )

    def __call__(self, inputs: Shaped[Array, " *shape"]) -> Answer:
        """Predicts for one example."""
        kind = inputs.dtype if jnp.issubdtype(inputs.dtype, jnp.inexact) else jnp.float32
        x: Any = jnp.asarray(inputs, kind)
        x = x.reshape(-1) if self.flatten else x
        given: list[Any] = []
        features = x
        for place, layer in enumerate(self.layers):
            features = x
            given.append(layer(x))
            x = given[-1] if place in self.linear else self.activation(given[-1])
        if self.head is not None:
            return Answer(given[-1], (self.head(features),))
        return Answer(given[-1], tuple(given[place] for place in self.offers))


@dataclass(frozen=True)
class MLPStudentShape:
    """The sizes of a fully connected student; called with a key, it draws one.

    The defaults are those of the control tasks (Neitz, thesis, App. C.2.2.2): five layers of 128
    units, all taught, with weight norm.

    Example:
        >>> import jax.random as jr, jax.numpy as jnp
        >>> student = MLPStudentShape(59, 32)(jr.key(0))
        >>> answer = student(jnp.zeros(59))
        >>> answer.prediction.shape, [h.shape for h in answer.activations]
        ((32,), [(128,), (128,), (128,), (128,), (128,)])
    """

    num_inputs: int  # in all: an example of several axes is made one vector
    num_outputs: int
    hidden: tuple[int, ...] = (128,) * 5
    offers: tuple[int, ...] | None = None
    """Layers that are taught, the output's number being `len(hidden)`; None: all hidden ones."""
    linear: tuple[int, ...] = ()
    """Hidden layers without activation."""
    weight_norm: bool = True
    auxiliary: int | None = None
    """The width of a linear head on the last hidden layer; what it gives is offered instead."""
    activation: Activation = jax.nn.relu

    def __post_init__(self) -> None:
        sizes = (self.num_inputs, self.num_outputs, *self.hidden)
        if min(sizes) < 1 or (self.auxiliary is not None and self.auxiliary < 1):
            raise ValueError(f"all sizes of a student must be at least 1; got {self}")

    def __call__(self, key: PRNGKeyArray) -> LayeredStudent:
        """Draws a student."""
        layer: Any = WeightNormLinear if self.weight_norm else eqx.nn.Linear
        sizes = (self.num_inputs, *self.hidden, self.num_outputs)
        head_key, *keys = jr.split(key, len(sizes))
        features = self.hidden[-1] if self.hidden else self.num_inputs
        offers = tuple(range(len(self.hidden))) if self.offers is None else self.offers
        layers = [layer(*pair, key=k) for pair, k in zip(pairwise(sizes), keys, strict=True)]
        head = None
        if self.auxiliary is not None:
            head = layer(features, self.auxiliary, key=head_key)
        return LayeredStudent(
            layers=tuple(layers),
            head=head,
            offers=offers if head is None else (),
            linear=self.linear,
            activation=self.activation,
            flatten=True,
        )


class CentreReadout(eqx.Module):
    """A linear layer that reads the middle cell of a map."""

    linear: eqx.nn.Linear

    def __call__(self, maps: Float[Array, "height width maps"]) -> Float[Array, " outputs"]:
        """Reads one example."""
        return self.linear(maps[maps.shape[0] // 2, maps.shape[1] // 2])


class MapStudentShape(eqx.Module):
    """The sizes of a convolutional student for maps of cells; called with a key, it draws one.

    Three layers of 3 x 3 for each of three steps of a cellular automaton (Neitz, thesis, §4.4.2),
    and one logit read from the middle cell; the thesis is silent on kernels and read-out. All
    layers are taught, as maps `[height, width, maps]`.
    """

    scale: Float[Array, ""] = eqx.field(converter=number, default=1.0)
    """Times which all weights are drawn."""
    num_layers: int = eqx.field(static=True, default=9)
    num_maps: int = eqx.field(static=True, default=16)
    num_outputs: int = eqx.field(static=True, default=1)
    offers: tuple[int, ...] | None = eqx.field(static=True, default=None)

    def __call__(self, key: PRNGKeyArray) -> LayeredStudent:
        """Draws a student."""
        *keys, last_key = jr.split(key, self.num_layers + 1)
        layers: list[Any] = [
            Convolution(1 if place == 0 else self.num_maps, self.num_maps, num_axes=2, key=k)
            for place, k in enumerate(keys)
        ]
        layers.append(CentreReadout(eqx.nn.Linear(self.num_maps, self.num_outputs, key=last_key)))
        student = LayeredStudent(
            layers=(_AsChannel(layers[0]), *layers[1:]),
            offers=tuple(range(self.num_layers)) if self.offers is None else self.offers,
        )
        return jax.tree.map(
            lambda leaf: leaf * self.scale if eqx.is_inexact_array(leaf) else leaf, student
        )


class _AsChannel(eqx.Module):
    """A layer that reads a map without channels as a map of one."""

    layer: Convolution

    def __call__(self, board: Float[Array, "height width"]) -> Float[Array, "height width maps"]:
        return self.layer(board[..., None])
