r"""A video model that starts as a copy of its input.

Most of a frame stands still. A model at a random start learns to copy it first, which is most of
the loss, and loses what moves: a few pixels, in a colour that hardly occurs elsewhere. To draw it
again takes longer than all the rest. Nothing in the architecture asks for that: the last two
layers see the input beside the features, so that they can pass it on from the start.

The units of the hidden layer are shared out among the channels. Those of one channel add up to a
line through points of the logit, the inverse of the sigmoid that follows:

$$\operatorname{logit}(x) \approx y_0 + \sum_j d_j \max(0, x - t_j)$$

with knots $t_j$ and changes of slope $d_j$. The features have a small part in all of it.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

MARGIN = 0.02  # the logits of 0 and 1 are not finite: those of values a little inside are taken
SMALL = 0.01  # what is left of all other weights


def start_as_copy(model: Any) -> Any:
    """Sets the last two layers of a `VideoModel` so that it returns nearly what it is given.

    Args:
        model: at its random start, with at least as many kernels as channels.
    """
    join, out = model.layers[-2:]
    channels, kernels = out.weight.shape[-1], join.weight.shape[-1]
    each = kernels // channels
    knots, bends, lowest = _logit_line(each)
    copying = jnp.arange(channels * each)
    channel = copying // each
    # The input stands before the features.
    join_weight = (SMALL * join.weight).at[0, 0, :channels, copying].set(0.0)
    join_weight = join_weight.at[0, 0, channel, copying].set(1.0)
    out_weight = (SMALL * out.weight).at[0, 0, copying].set(0.0)
    out_weight = out_weight.at[0, 0, copying, channel].set(jnp.tile(bends, channels))
    return eqx.tree_at(
        lambda model: tuple(
            part for layer in model.layers[-2:] for part in (layer.weight, layer.bias)
        ),
        model,
        (
            join_weight,
            join.bias.at[copying].set(-jnp.tile(knots, channels)),
            out_weight,
            jnp.full_like(out.bias, lowest),
        ),
    )


def _logit_line(parts: int) -> tuple[Float[Array, " parts"], Float[Array, " parts"], float]:
    """Returns knots and changes of slope of a line through the logit, and where it starts."""
    points = np.linspace(0.0, 1.0, parts + 1)
    values = np.log((points + MARGIN) / (1 - points + MARGIN))
    slopes = np.diff(values) / np.diff(points)
    bends = np.diff(slopes, prepend=0.0)
    return jnp.asarray(points[:-1], jnp.float32), jnp.asarray(bends, jnp.float32), float(values[0])
