r"""The sigmoid that ends the video model, with the derivative of the cross entropy in mind.

Pixels are values y of a sigmoid, and the loss is a cross entropy with a small number ε in its
logarithms (`BinaryCrossEntropy`). Their two derivatives, multiplied as they are, vanish where a
pixel is saturated: for a pixel of 0 that is shown as 1 the logit's gradient should be 1, and is
0.45 at a logit of 14 and 0 at 17, where y is 1 in float32. White ground gets there within some
hundred steps. What was to be drawn on it is lost then, and no gradient brings it back.

So the derivative of the sigmoid is taken to be

$$y' = (y + \epsilon)\,(1 - y + \epsilon)$$

with the same ε, which makes the gradient of the loss that of a cross entropy of logits, y - a for a
true pixel a, up to ε. Everywhere else it differs from the usual one by ε.
"""

import jax
from jaxtyping import Array, Float

from recombine.methods.skipping._frames import EPSILON


@jax.custom_jvp
def pixels_of(logits: Float[Array, " *shape"]) -> Float[Array, " *shape"]:
    """Returns values in [0, 1] whose cross entropy has a gradient wherever they are wrong.

    Example:
        >>> import jax.numpy as jnp
        >>> from recombine.methods.skipping import BINARY_CROSS_ENTROPY
        >>> def loss(logit):  # of a pixel that should be black
        ...     return BINARY_CROSS_ENTROPY(pixels_of(logit), jnp.zeros(()))
        >>> round(float(jax.grad(loss)(30.0)), 3)
        1.0
    """
    return jax.nn.sigmoid(logits)


@pixels_of.defjvp
def _pixels_of_jvp(
    primals: tuple[Array], tangents: tuple[Array]
) -> tuple[Float[Array, " *shape"], Float[Array, " *shape"]]:
    pixels = pixels_of(primals[0])
    return pixels, slope_at(pixels) * tangents[0]


def slope_at(pixels: Float[Array, " *shape"]) -> Float[Array, " *shape"]:
    """Returns the derivative of `pixels_of` where it has these values."""
    return (pixels + EPSILON) * (1 - pixels + EPSILON)
