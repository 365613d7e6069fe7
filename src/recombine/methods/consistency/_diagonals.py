"""Score and bound of diagonal Hessians in JAX, for many at a time or inside another program."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def diagonal_inconsistency(
    diagonals: Float[Array, "envs dims"], epsilon: float
) -> Float[Array, ""]:
    r"""Returns the exact score of quadratic landscapes whose axes are the parameters.

    $$\mathcal I^\epsilon = \epsilon \max_{e,e',i} \lambda_i^{e'} / \lambda_i^e$$

    Example:
        >>> import jax.numpy as jnp
        >>> float(diagonal_inconsistency(jnp.array([[1.0], [10.0]]), 0.5))
        5.0
    """
    return epsilon * jnp.max(jnp.max(diagonals, axis=0) / jnp.min(diagonals, axis=0))


def diagonal_bound(
    diagonals: Float[Array, "2 dims"], epsilon: float, *, constant: float = 4.0
) -> Float[Array, ""]:
    """Bounds that score for two environments, as `hessian_bound` does.

    Example:
        >>> import jax.numpy as jnp
        >>> round(float(diagonal_bound(jnp.array([[1.0], [10.0]]), 1.0)), 3)
        12.1
    """
    if len(diagonals) != 2:
        raise ValueError(f"the bound is for 2 environments; got {len(diagonals)}")
    arithmetic = jnp.log(jnp.mean(diagonals, axis=0))
    geometric = jnp.mean(jnp.log(diagonals), axis=0)
    return constant * epsilon * jnp.exp(2 * jnp.sum(arithmetic - geometric))
