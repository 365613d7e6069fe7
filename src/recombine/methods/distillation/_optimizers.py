"""Optimizers of student, inner loop and teacher, with derivatives everywhere.

"Weight decay" is L2: it is added to the gradient, before momentum or Adam (Neitz, thesis, App. C).
Numbers are array leaves, so that one compiled program serves all their values.
"""

from typing import Any

import equinox as eqx
import optax
from jaxtyping import Array, Float

from recombine.methods._numbers import number

SMALLEST_ROOT = 1e-16
"""Added to Adam's second moment under its square root. Without it, the derivative through an update
is not a number where a gradient is exactly zero, as that of a dead unit is."""


class Adam(eqx.Module):
    """Adam, with L2 in the gradient."""

    learning_rate: Float[Array, ""] = eqx.field(converter=number, default=1e-3)
    b1: Float[Array, ""] = eqx.field(converter=number, default=0.9)
    b2: Float[Array, ""] = eqx.field(converter=number, default=0.999)
    l2: Float[Array, ""] = eqx.field(converter=number, default=0.0)
    eps: Float[Array, ""] = eqx.field(converter=number, default=1e-8)
    eps_root: Float[Array, ""] = eqx.field(converter=number, default=SMALLEST_ROOT)

    def transformation(self) -> optax.GradientTransformation:
        """Returns it as Optax knows it."""
        numbers: dict[str, Any] = {
            "b1": self.b1,
            "b2": self.b2,
            "eps": self.eps,
            "eps_root": self.eps_root,
        }
        return optax.chain(
            optax.add_decayed_weights(self.l2),
            optax.scale_by_adam(**numbers),
            optax.scale_by_learning_rate(self.learning_rate),
        )


class Momentum(eqx.Module):
    r"""Gradient descent with momentum: $v \leftarrow \mu v + g + \lambda \theta$, and no dampening.

    The defaults are those of the inner loop of the control tasks (Neitz, thesis, Table C.6).
    """

    learning_rate: Float[Array, ""] = eqx.field(converter=number, default=1e-2)
    momentum: Float[Array, ""] = eqx.field(converter=number, default=0.75)
    l2: Float[Array, ""] = eqx.field(converter=number, default=1e-8)

    def transformation(self) -> optax.GradientTransformation:
        """Returns it as Optax knows it."""
        decay: Any = self.momentum
        return optax.chain(
            optax.add_decayed_weights(self.l2),
            optax.trace(decay=decay),
            optax.scale_by_learning_rate(self.learning_rate),
        )
