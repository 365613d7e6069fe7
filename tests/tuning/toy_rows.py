"""A plugin with rows that train in no time: a walk to a target, with a rate to be searched."""

import dataclasses
from typing import Annotated, Any

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from recombine.experiments import (
    AtLeast,
    Choice,
    Group,
    LogUniform,
    Metric,
    Paper,
    Row,
    Search,
    Space,
    System,
    Uniform,
    Variant,
    Whole,
)


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class ToyConfig:
    rate: Annotated[float, Field(gt=0)] = 0.1
    target: float = 1.0
    units: Annotated[int, Field(ge=1)] = 2
    sizes: tuple[int, ...] = (1,)


def make_learner(config: ToyConfig, steps: int) -> Any:
    import equinox as eqx
    import jax.numpy as jnp
    import jax.random as jr

    if config.units == 13:
        raise ValueError("13 units bring bad luck")

    return _learner_class(eqx, jnp, jr)(
        jnp.float32(config.rate), jnp.float32(config.target), config.units
    )


_CLASS: list[Any] = []


def _learner_class(eqx: Any, jnp: Any, jr: Any) -> Any:
    """One class for all learners, made when JAX is there."""
    if _CLASS:
        return _CLASS[0]

    class Walk(eqx.Module):
        rate: Any
        target: Any
        units: int = eqx.field(static=True)

        def init(self, key: Any) -> Any:
            return jr.normal(key, (self.units,))

        def step(self, state: Any, key: Any) -> Any:
            state = state + self.rate * (self.target - state)
            return state, {"size": jnp.max(jnp.abs(state)) ** 8}

        def evaluate(self, state: Any, key: Any) -> Any:
            return {"error": jnp.mean(jnp.abs(state - 1.0)), "test_error": jnp.mean(state)}

        def final(self, state: Any, key: Any) -> Any:
            return {"late": jnp.mean(state)}

    _CLASS.append(Walk)
    return Walk


ERROR = Metric("error", "error", higher_is_better=False, percent=False)
TEST = Metric("test_error", "test error", higher_is_better=False, percent=False)
LATE = Metric("late", "what is measured last", percent=False)
GONE = Metric("gone", "what nobody measures", percent=False)
SPACE = {"rate": LogUniform(1e-3, 1.0, points=4), "target": Uniform(0.0, 2.0)}


def make_row(name: str, search: Search | None) -> Row:
    variant = Variant(ToyConfig(), steps=8, eval_every=2, num_seeds=2, rule=AtLeast(0.0))
    return Row(
        id=f"toy/{name}",
        claim="A walk arrives.",
        method=name,
        make_learner=make_learner,
        metric=TEST,
        also=(LATE, GONE),
        paper=Paper("nowhere", words="nothing"),
        full=variant,
        quick=dataclasses.replace(variant, steps=12),
        tiny=variant,
        search=search,
    )


SYSTEM = System(
    "toy",
    "Toys",
    "Walks to a target.",
    (
        Group(
            "toy",
            "Toys",
            "nowhere",
            (
                make_row("walk", Search(SPACE, ERROR, quick=Space(SPACE, ("steps=4",)))),
                make_row("plain", None),
                make_row(
                    "shapes",
                    Search(
                        {"rate": SPACE["rate"], "units": Choice((1, 2, 13))}, TEST, by_test=True
                    ),
                ),
                make_row(
                    "grid",
                    Search(
                        {
                            "units": Whole(1, 2),
                            "rate": LogUniform(0.1, 1.0, points=2),
                            "sizes": Choice(((1,), (2, 3))),
                        },
                        ERROR,
                    ),
                ),
                make_row("wild", Search({"rate": LogUniform(1.5, 50.0)}, ERROR)),
                make_row("wrong", Search({"rate": Uniform(-1.0, 1.0)}, ERROR)),
            ),
        ),
    ),
)
