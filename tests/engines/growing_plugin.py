"""A system from outside the package, so small that it compiles in no time: a number that grows."""

import dataclasses
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr

from recombine.experiments import (
    AtLeast,
    Group,
    Metric,
    Paper,
    Row,
    Search,
    System,
    Uniform,
    Variant,
)

SIZE = Metric("size", "size", percent=False)


@dataclasses.dataclass(frozen=True)
class GrowthConfig:
    rate: float = 1.01


class Grow(eqx.Module):
    rate: jnp.ndarray

    def init(self, key: Any) -> Any:
        return jr.uniform(key)

    def step(self, state: Any, key: Any) -> Any:
        grown = state * self.rate
        return grown, {"size": grown}

    def evaluate(self, state: Any, key: Any) -> Any:
        return {"size": state}


def make_learner(config: GrowthConfig, steps: int) -> Grow:
    return Grow(jnp.float32(config.rate))


def variant(rate: float) -> Variant:
    return Variant(GrowthConfig(rate), steps=8, eval_every=2, num_seeds=2, rule=AtLeast(0.0))


def row(name: str, rate: float) -> Row:
    return Row(
        id=f"growing/numbers/{name}",
        claim="It grows.",
        method=name,
        make_learner=make_learner,
        metric=SIZE,
        paper=Paper("none"),
        full=variant(rate),
        quick=variant(rate),
        tiny=variant(rate),
        search=Search({"rate": Uniform(0.5, 1.5)}, SIZE),
    )


ROWS = (row("slowly", 1.01), row("beyond-all-bounds", 1e38))
SYSTEM = System(
    id="growing",
    title="Growing numbers",
    summary="For tests.",
    groups=(Group("growing/numbers", "Numbers", "none", ROWS),),
)
