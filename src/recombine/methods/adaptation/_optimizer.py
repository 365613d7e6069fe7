"""An inner optimizer that has derivatives everywhere."""

import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

DIFFERENTIABLE_EPS = float(jnp.finfo(jnp.float32).eps)
"""Added to Adam's second moment under its square root; without it the derivative at an exactly zero
gradient (a dead unit, an unused embedding) is not a number."""


def differentiable_adamw(
    learning_rate: float | Float[Array, ""],
    *,
    weight_decay: float | Float[Array, ""] = 1e-4,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = DIFFERENTIABLE_EPS,
) -> optax.GradientTransformation:
    """Returns AdamW for inner loops, as all learners of Schug et al. (2024) use it.

    The weight decay is Optax's default, which the authors' code gets because it passes none.
    """
    return optax.adamw(
        learning_rate, b1=b1, b2=b2, eps=eps, eps_root=eps_root, weight_decay=weight_decay
    )
