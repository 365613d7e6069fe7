"""The methods of the invariant estimators, by name, each with the numbers that it takes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.random as jr
from jaxtyping import PRNGKeyArray

from recombine.estimators._checks import check_number
from recombine.methods.agreement import (
    DANN,
    IRM,
    MLP,
    AdversarialNetwork,
    Fishr,
    JoinGradients,
    Method,
    MLPShape,
    Pooled,
    Rescale,
    VREx,
    and_mask,
    geometric_mean,
)

InvariantMethod = Literal["and-mask", "geometric", "irm", "vrex", "fishr", "dann", "plain"]
"""How an invariant estimator makes one gradient of its environments."""

TAKES: dict[str, tuple[str, ...]] = {
    "and-mask": ("threshold", "rescale"),
    "geometric": ("threshold", "rescale"),
    "irm": ("penalty_weight", "anneal_share"),
    "vrex": ("penalty_weight", "anneal_share"),
    "fishr": ("penalty_weight", "anneal_share"),
    "dann": ("penalty_weight",),
    "plain": (),
}
"""Which settings each method has. The others must be left as they are."""

PENALTY_WEIGHTS = {"irm": 100.0, "vrex": 10.0, "fishr": 1000.0, "dann": 1.0}
"""Those of DomainBed."""

ANNEAL_SHARES = {"irm": 0.1, "vrex": 0.1, "fishr": 0.3}
"""Those of DomainBed: 500, 500 and 1,500 of 5,001 steps."""


class MethodSettings(NamedTuple):
    """What a user says of the method, with what is meant by saying nothing."""

    name: str = "and-mask"
    threshold: Any = 1.0
    rescale: Any = "tensor"
    penalty_weight: Any = None
    anneal_share: Any = None

    def check(self) -> None:
        """Refuses names and numbers that there are not, and settings that would do nothing."""
        if not isinstance(self.name, str) or self.name not in TAKES:
            raise ValueError(
                f"`method` must be one of {', '.join(map(repr, TAKES))}; got {self.name!r}"
            )
        check_number("threshold", self.threshold)
        and_mask(float(self.threshold), rescale=self.rescale)  # refuses what it cannot use
        if self.penalty_weight is not None:
            check_number("penalty_weight", self.penalty_weight, least=0.0)
        if self.anneal_share is not None:
            check_number("anneal_share", self.anneal_share, least=0.0)
            if self.anneal_share > 1:
                raise ValueError(
                    f"`anneal_share` is the share of the steps before the penalty has its full "
                    f"weight, in [0, 1]; got {self.anneal_share!r}"
                )
        for setting, unset in self._field_defaults.items():
            if setting != "name" and getattr(self, setting) != unset:
                self._check_taken(setting, unset)

    def _check_taken(self, setting: str, unset: Any) -> None:
        if setting not in TAKES[self.name]:
            takers = [f'"{name}"' for name, taken in TAKES.items() if setting in taken]
            raise ValueError(
                f"`{setting}` is {getattr(self, setting)!r}, but `method` is {self.name!r}, which "
                f"does not use it: it is for {', '.join(takers)}. Leave `{setting}` at {unset!r}."
            )

    def make(self, steps: int) -> Method:
        """Returns the method; the settings must have been checked."""
        weight = self._or_else(self.penalty_weight, PENALTY_WEIGHTS)
        waiting = round(steps * self._or_else(self.anneal_share, ANNEAL_SHARES))
        rescale: Rescale | None = self.rescale
        match self.name:
            case "and-mask":
                return JoinGradients(and_mask(float(self.threshold), rescale=rescale))
            case "geometric":
                return JoinGradients(geometric_mean(float(self.threshold), rescale=rescale))
            case "irm":
                return IRM(weight=weight, anneal_steps=waiting)  # pyright: ignore[reportArgumentType]
            case "vrex":
                return VREx(weight=weight, anneal_steps=waiting)  # pyright: ignore[reportArgumentType]
            case "fishr":
                return Fishr(weight=weight, anneal_steps=waiting)  # pyright: ignore[reportArgumentType]
            case "dann":
                return DANN(reversal=weight)  # pyright: ignore[reportArgumentType]
        return Pooled()

    def _or_else(self, given: Any, usual: dict[str, float]) -> float:
        return usual.get(self.name, 0.0) if given is None else float(given)

    def network(
        self, sizes: tuple[int, ...], num_envs: int, start_scale: float
    ) -> Callable[[PRNGKeyArray], Any]:
        """Returns what makes the network to be trained."""
        if self.name != "dann":
            return ScaledStart(MLPShape(sizes), start_scale)
        if len(sizes) < 3:
            raise ValueError(
                '`method="dann"` hides the environment from the last hidden layer, so '
                "`hidden_sizes` must have at least one; got none"
            )
        return ScaledStart(WatchedShape(sizes, num_envs), start_scale)


@dataclass(frozen=True)
class ScaledStart:
    """A network whose random start is made smaller."""

    shape: Callable[[PRNGKeyArray], Any]
    scale: float

    def __call__(self, key: PRNGKeyArray) -> Any:
        """Returns a network at its random start."""
        return jax.tree.map(lambda leaf: self.scale * leaf, self.shape(key))


@dataclass(frozen=True)
class WatchedShape:
    """An `MLP` in two parts, with a discriminator that reads its last hidden layer.

    The embedding ends where the output layer begins, so that the network that is used is the same
    for every method.
    """

    sizes: tuple[int, ...]
    num_envs: int

    def __call__(self, key: PRNGKeyArray) -> AdversarialNetwork:
        """Returns a network at its random start."""
        embedding_key, output_key, watcher_key = jr.split(key, 3)
        watched = self.sizes[-2]
        return AdversarialNetwork(
            embedding=MLP(self.sizes[:-1], key=embedding_key),
            classifier=MLP(self.sizes[-2:], key=output_key),
            discriminator=MLP((watched, watched, self.num_envs), key=watcher_key),
        )


def used_network(trained: Any) -> MLP:
    """Returns what predicts, as one `MLP`; a discriminator has done its work."""
    if not isinstance(trained, AdversarialNetwork):
        return trained
    parts = (trained.embedding, trained.classifier)
    weights = [weight for part in parts for weight in part.weights]
    biases = [bias for part in parts for bias in part.biases]
    return eqx.tree_at(lambda mlp: (mlp.weights, mlp.biases), parts[0], (weights, biases))
