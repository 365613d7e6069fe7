"""A model's consistency in words: what to ask of a trained model of one's own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from recombine.methods.consistency._curvature import FULL_UP_TO
from recombine.methods.consistency._inconsistency import inconsistency
from recombine.methods.consistency._landscapes import make_landscapes
from recombine.methods.consistency._matrices import hessian_bound, quadratic_inconsistency
from recombine.methods.consistency._profile import AgreementProfile, agreement_profile


@dataclass(frozen=True)
class ConsistencyReport:
    """How hard to vary a model is, and which of its parameters the environments agree on."""

    epsilon: float
    score: float
    """The inconsistency that was found, a lower bound; `epsilon` is the best there is."""
    region: str
    """The environment that does not notice the variation that reaches the score."""
    judge: str
    """The environment that does."""
    by_pair: Float[np.ndarray, "envs envs"]
    """The score of every pair: rows do not notice, columns do."""
    losses: Float[np.ndarray, " envs"]
    """The loss of every environment."""
    environments: tuple[str, ...]
    radius: float | None
    agreement: AgreementProfile
    quadratic_score: float | None = None
    """The score if every loss were its second-order expansion; None where that says nothing."""
    quadratic_bound: float | None = None
    """The bound on it by the means of the Hessians (proposition 3)."""
    curvature_note: str = ""
    """Why there is no quadratic score, where there is none."""

    @property
    def times_epsilon(self) -> float:
        """The score in units of `epsilon`: 1 is as consistent as can be."""
        return self.score / self.epsilon

    def to_text(self) -> str:
        """Returns the report as lines of plain text."""
        where = "" if self.radius is None else f" within a distance of {self.radius:.3g}"
        name_width = max(len(name) for name in self.environments)
        per_env = [
            f"  {name:<{name_width}}  loss {loss:.4g}, does not notice {unnoticed:.4g}"
            for name, loss, unnoticed in zip(
                self.environments, self.losses, self.by_pair.max(axis=1), strict=True
            )
        ]
        curvature = (
            f"by curvature alone {self.quadratic_score:.4g}, at most {self.quadratic_bound:.4g}"
            if self.quadratic_score is not None and self.quadratic_bound is not None
            else f"curvature: {self.curvature_note}"
        )
        return "\n".join(
            [
                f"inconsistency at least {self.score:.4g}{where}: {self.times_epsilon:.3g} times "
                f"epsilon ({self.epsilon:.3g}), where 1 is the best",
                f"reached where {self.region} notices nothing and {self.judge} does",
                curvature,
                "",
                "environments, and the largest difference in any loss that each does not notice",
                *per_env,
                "",
                "agreement of the environments' gradients, |mean sign|",
                self.agreement.to_text(),
            ]
        )

    def __str__(self) -> str:
        return self.to_text()


def consistency_report(
    loss: Callable[[PyTree[Any], PyTree[Any]], Float[Array, ""]],
    params: PyTree[Any],
    batches: PyTree[Any],
    epsilon: float,
    *,
    key: PRNGKeyArray,
    environments: Sequence[str] | None = None,
    **measure: Any,
) -> ConsistencyReport:
    """Measures a solution in every way of this room, and returns what can be read and printed.

    The curvature is looked at where the whole Hessian is affordable, up to 128 parameters.

    Args:
        loss: the mean loss of one environment's batch.
        params: the solution, any pytree.
        batches: a pytree whose arrays have a leading axis of environments.
        epsilon: how far a loss may move before its environment notices.
        key: for the walks.
        environments: their names; by default, numbers from 0.
        **measure: what else `inconsistency` takes: `steps`, `restarts`, `radius` and so on.

    Example:
        >>> import jax.numpy as jnp, jax.random as jr
        >>> def loss(w, curvature):
        ...     return 0.5 * jnp.sum(curvature * w**2)
        >>> curvatures = jnp.array([[1.0, 2.0], [1.0, 8.0]])
        >>> report = consistency_report(loss, jnp.zeros(2), curvatures, 0.01, key=jr.key(0))
        >>> print(report.to_text().splitlines()[1])
        reached where environment 0 notices nothing and environment 1 does
    """
    scapes = make_landscapes(loss, params, batches)
    names = tuple(environments or (f"environment {index}" for index in range(scapes.num_envs)))
    if len(names) != scapes.num_envs:
        raise ValueError(
            f"`environments` must name each of the {scapes.num_envs} environments; got "
            f"{len(names)} names"
        )
    found = inconsistency(loss, params, epsilon, key=key, batches=batches, **measure)
    report = ConsistencyReport(
        epsilon=float(epsilon),
        score=float(found.score),
        region=names[int(found.region)],
        judge=names[int(found.judge)],
        by_pair=np.asarray(found.by_pair),
        losses=np.asarray(found.losses),
        environments=names,
        radius=measure.get("radius"),
        agreement=agreement_profile(loss, params, batches),
    )
    dims = scapes.point.size
    if dims > FULL_UP_TO:
        note = f"not computed for {dims:,} parameters, only up to {FULL_UP_TO}"
        return replace(report, curvature_note=note)
    of_environment = jax.jit(jax.hessian(scapes.loss, argnums=1))
    hessians = np.stack(
        [np.asarray(of_environment(jnp.int32(e), scapes.point)) for e in range(scapes.num_envs)]
    )
    try:
        score = quadratic_inconsistency(hessians, epsilon)
        bound = hessian_bound(hessians, epsilon)
    except ValueError as error:
        return replace(report, curvature_note=str(error))
    return replace(report, quadratic_score=score, quadratic_bound=bound)
