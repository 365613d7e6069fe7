"""The residual network of the CIFAR-10 experiments, in modes with and without coupling.

"FastResNet" of the PyTorch-Ignite examples, which the thesis names (Neitz, thesis, App. B.2.5):

    prep    conv 64                               32 x 32
    layer1  conv 128, pool, + (conv 128, conv 128)  16 x 16
    layer2  conv 256, pool                        8 x 8
    layer3  conv 512, pool, + (conv 512, conv 512)  4 x 4
    head    maximum over the image, linear to 10, times 0.125

Every conv is 3 x 3 without a bias, followed by normalisation and a ReLU; there is no ReLU after a
sum. Weights start uniform within 1 / sqrt(fan-in), scales at 1, shifts at 0.

Batch normalisation couples the examples of a batch, so a network takes a batch, not one example.
Where no coupling is wanted, `frozen` makes the batch's statistics constants of the backward pass,
and `norm="group"` builds the network with group normalisation (groups of 16 channels), which looks
at one example at a time. Images are channels-last, which is what the matrix units of GPUs want.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.agreement._pooling import max_over_squares
from recombine.methods.agreement._tallied_layers import (
    tallied_conv,
    tallied_linear,
    tallied_scale_and_shift,
)

Norm = Literal["batch", "group"]
"""Over what activations are normalised."""

WIDTHS = {
    "prep": (None, 64),
    "layer1": (64, 128),
    "res1a": (128, 128),
    "res1b": (128, 128),
    "layer2": (128, 256),
    "layer3": (256, 512),
    "res3a": (512, 512),
    "res3b": (512, 512),
}
"""The channels into and out of every block; images have three, whatever the width."""

OUTPUT_SCALE = 0.125
EPS = 1e-5
MOMENTUM = 0.1
"""How much of a running statistic one batch replaces."""

GROUP_SIZE = 16


class Moments(NamedTuple):
    """The mean and the variance of every channel, and of how many numbers."""

    mean: Float[Array, " channels"]
    variance: Float[Array, " channels"]
    size: Float[Array, ""]


Statistics = dict[str, Moments]
"""What every block normalises by; empty for group normalisation."""


class Block(eqx.Module):
    """The weights of one convolution and its normalisation."""

    kernel: Float[Array, "3 3 inputs outputs"]
    scale: Float[Array, " outputs"]
    shift: Float[Array, " outputs"]

    def __init__(self, inputs: int, outputs: int, *, key: PRNGKeyArray):
        reach = (9 * inputs) ** -0.5
        self.kernel = jr.uniform(key, (3, 3, inputs, outputs), minval=-reach, maxval=reach)
        self.scale = jnp.ones(outputs)
        self.shift = jnp.zeros(outputs)


class FastResNet(eqx.Module):
    """The weights of the network; called on a batch of images it returns logits."""

    blocks: dict[str, Block]
    head: Float[Array, "features classes"]
    norm: Norm = eqx.field(static=True)

    def __init__(self, shape: "ResNetShape", *, key: PRNGKeyArray):
        *keys, head_key = jr.split(key, len(WIDTHS) + 1)
        channels = {
            name: (shape.channels(inputs), shape.channels(outputs))
            for name, (inputs, outputs) in WIDTHS.items()
        }
        self.blocks = {
            name: Block(*sizes, key=block_key)
            for (name, sizes), block_key in zip(channels.items(), keys, strict=True)
        }
        features = channels["res3b"][1]
        reach = features**-0.5
        self.head = jr.uniform(head_key, (features, shape.classes), minval=-reach, maxval=reach)
        self.norm = shape.norm

    def __call__(
        self,
        images: Float[Array, "examples rows columns 3"],
        statistics: Statistics | None = None,
        *,
        frozen: bool = False,
    ) -> tuple[Float[Array, "examples classes"], Statistics]:
        """Returns the logits, and the statistics of the batch.

        Args:
            images: normalised images, channels last, square, with sides that divide by 8.
            statistics: what to normalise by, for evaluation; without them, by the batch itself.
            frozen: whether the batch's statistics are constants of the backward pass, so that an
                example's gradient has no path through the other examples.
        """
        seen: Statistics = {}

        def cbr(name: str, x: Array) -> Array:
            block = self.blocks[name]
            x = tallied_conv(x, block.kernel)
            if self.norm == "group":
                x = _normalize_groups(x)
            else:
                moments = _moments(x) if statistics is None else statistics[name]
                seen[name] = jax.lax.stop_gradient(moments)
                x = _normalize(x, seen[name] if frozen else moments)
            return jax.nn.relu(tallied_scale_and_shift(x, block.scale, block.shift))

        x = cbr("prep", images)
        x = max_over_squares(cbr("layer1", x), 2)
        x = x + cbr("res1b", cbr("res1a", x))
        x = max_over_squares(cbr("layer2", x), 2)
        x = max_over_squares(cbr("layer3", x), 2)
        x = x + cbr("res3b", cbr("res3a", x))
        features = max_over_squares(x, x.shape[1])[:, 0, 0]
        return tallied_linear(features, self.head) * OUTPUT_SCALE, seen


@dataclass(frozen=True)
class ResNetShape:
    """The sizes of a `FastResNet`; calling it makes one.

    Example:
        >>> import jax, jax.random as jr
        >>> network = ResNetShape()(jr.key(0))
        >>> sum(leaf.size for leaf in jax.tree.leaves(network))
        6573120
    """

    width: float = 1.0  # multiplies every number of channels; below 1 for quick runs
    norm: Norm = "batch"
    classes: int = 10

    def __post_init__(self) -> None:
        if self.norm not in ("batch", "group"):
            raise ValueError(f'`norm` must be "batch" or "group"; got {self.norm!r}')
        if self.width <= 0 or (64 * self.width) % 1:
            raise ValueError(
                f"`width` must make a whole number of channels of 64, such as 0.25; got "
                f"{self.width}"
            )

    def __call__(self, key: PRNGKeyArray) -> FastResNet:
        """Returns a network at its random start."""
        return FastResNet(self, key=key)

    def channels(self, of_full_width: int | None) -> int:
        """Returns how many channels a layer has; `None` stands for the image's three."""
        return 3 if of_full_width is None else round(of_full_width * self.width)

    def initial_statistics(self) -> Statistics:
        """Returns running statistics before the first batch: mean 0, variance 1."""
        if self.norm == "group":
            return {}
        sizes = {name: self.channels(outputs) for name, (_, outputs) in WIDTHS.items()}
        return {
            name: Moments(jnp.zeros(size), jnp.ones(size), jnp.float32(0))
            for name, size in sizes.items()
        }


def update_statistics(running: Statistics, batch: Statistics) -> Statistics:
    """Moves running statistics by a tenth towards those of a batch, as PyTorch does.

    Args:
        running: from `ResNetShape.initial_statistics`, or from here.
        batch: what the network returned in training.
    """

    def move(old: Moments, new: Moments) -> Moments:
        unbiased = new.variance * (new.size / jnp.maximum(new.size - 1, 1))
        return Moments(
            (1 - MOMENTUM) * old.mean + MOMENTUM * new.mean,
            (1 - MOMENTUM) * old.variance + MOMENTUM * unbiased,
            new.size,
        )

    return {name: move(running[name], batch[name]) for name in running}


def _moments(x: Float[Array, "examples rows columns channels"]) -> Moments:
    over = (0, 1, 2)
    count = jnp.float32(x.size // x.shape[-1])
    return Moments(jnp.mean(x, axis=over), jnp.var(x, axis=over), count)


def _normalize(x: Float[Array, "examples rows columns channels"], by: Moments) -> Array:
    mean, variance = (values[None, None, None, :] for values in by[:2])
    return (x - mean) * jax.lax.rsqrt(variance + EPS)


def _normalize_groups(x: Float[Array, "examples rows columns channels"]) -> Array:
    channels = x.shape[-1]
    size = GROUP_SIZE if channels % GROUP_SIZE == 0 else channels
    grouped = x.reshape(*x.shape[:-1], channels // size, size)
    mean = jnp.mean(grouped, axis=(1, 2, 4), keepdims=True)
    variance = jnp.var(grouped, axis=(1, 2, 4), keepdims=True)
    return ((grouped - mean) * jax.lax.rsqrt(variance + EPS)).reshape(x.shape)
