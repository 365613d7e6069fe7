r"""Two landscapes over two parameters: a minimum that they share, and one that their mean makes.

Both minima of the mean have loss zero and look alike. At the lower left each environment has the
same bowl. At the upper right environment A has a trough along the second parameter and environment
B one along the first: they cross, and only the mean has a minimum there.

$$L_e(\theta) = 1 - \exp\Big(-\frac{u\,v_e}{u + v_e}\Big), \qquad
u = \|\theta - \theta_{\mathrm{shared}}\|^2, \qquad v_A = 4 (\theta_1 - 0.7)^2, \quad
v_B = 4 (\theta_2 - 0.7)^2$$

The thesis shows such landscapes in Fig. 3.1 and describes them; it prints no formula. This one is
ours, made so that everything that is said there of the figure holds.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

SHARED = (-0.7, -0.7)
"""The minimum that both environments have."""

PATCHWORK = (0.7, 0.7)
"""The minimum that only the mean has: the crossing of two troughs."""

NUM_ENVS = 2
"""A and B."""

REACH = 1.5
"""The landscapes are looked at from -1.5 to 1.5 in both directions."""


def loss(params: Float[Array, " 2"], environment: Int[Array, ""] | int) -> Float[Array, ""]:
    """Returns the loss of environment 0, which is A, or 1, which is B; between 0 and 1.

    Example:
        >>> import jax.numpy as jnp
        >>> [float(loss(jnp.array(PATCHWORK), env)) for env in (0, 1)]
        [0.0, 0.0]
        >>> up = jnp.array([0.7, 1.4])  # along the trough of A
        >>> [round(float(loss(up, env)), 3) for env in (0, 1)]
        [0.0, 0.777]
    """
    bowl = jnp.sum((params - jnp.array(SHARED, params.dtype)) ** 2)
    trough = 4 * (params[environment] - jnp.asarray(PATCHWORK[0], params.dtype)) ** 2
    together = bowl + trough  # 0 nowhere: bowl and trough have no zero in common
    return 1 - jnp.exp(-bowl * trough / together)
