"""How consistent the solutions of a training algorithm are (Neitz, thesis, §3.2.1, Eq. 3.2)."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, PRNGKeyArray, PyTree

from recombine.methods.consistency._inconsistency import inconsistency
from recombine.methods.consistency._landscapes import Loss


class LearningConsistency(NamedTuple):
    """Invariant learning consistency (ILC), estimated."""

    consistency: float
    """Minus the mean score of the solutions: the higher, the better; at most 0."""
    standard_error: float
    """Of that mean, over initialisations; NaN for one."""
    scores: Float[np.ndarray, " inits"]
    """The inconsistency of each solution."""


def learning_consistency(
    train: Callable[[PyTree[Any]], PyTree[Any]],
    init: Callable[[PRNGKeyArray], PyTree[Any]],
    losses: Loss | Sequence[Loss],
    epsilon: float,
    keys: PRNGKeyArray,
    **measure: Any,
) -> LearningConsistency:
    r"""Estimates the ILC of a training algorithm by Monte Carlo over its initialisations.

    $$\mathrm{ILC}(\mathcal A, p) = -E_{\theta_0 \sim p}
    \big[\mathcal I^\epsilon(\mathcal A_\infty(\theta_0, \mathcal E))\big]$$

    It belongs to the algorithm together with the model and the distribution of initial parameters.
    Every score is a lower bound, so the estimate is an upper bound.

    Args:
        train: takes initial parameters to where the algorithm, on all environments, converges.
        init: draws initial parameters.
        losses: as for `inconsistency`.
        epsilon: how far a loss may move before its environment notices.
        keys: one for every initialisation.
        **measure: what else `inconsistency` takes: `batches`, `steps`, `radius` and so on.

    Example:
        >>> import jax.numpy as jnp, jax.random as jr
        >>> def loss(w, curvature):
        ...     return 0.5 * jnp.sum(curvature * w**2)
        >>> found = learning_consistency(
        ...     train=jnp.zeros_like,  # an optimizer that is done at once
        ...     init=lambda key: jr.normal(key, (2,)),
        ...     losses=loss,
        ...     epsilon=0.01,
        ...     keys=jr.split(jr.key(0), 3),
        ...     batches=jnp.array([[1.0, 2.0], [1.0, 2.0]]),  # the environments are the same
        ... )
        >>> round(found.consistency, 3)
        -0.01
    """
    if len(keys) == 0:
        raise ValueError("`keys` is empty; give one key for every initialisation")
    scores = np.array(
        [
            float(inconsistency(losses, train(init(key)), epsilon, key=key, **measure).score)
            for key in keys
        ]
    )
    spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else float("nan")
    return LearningConsistency(-float(scores.mean()), spread / len(scores) ** 0.5, scores)
