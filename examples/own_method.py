"""A method of one's own on the spirals: the trimmed mean of the environments' gradients.

In every component of the gradient the environments with the largest and with the smallest values
are left out, and the rest is averaged (Yin et al. 2018 guard against faulty machines in this way).
With nothing trimmed it is plain training; with as much as possible, the median.

Nothing here is part of the package. The command learns of this file from `--plugin`:

    recombine run own --quick --plugin examples/own_method.py
    recombine run ilc/synthetic/and-mask --quick
    recombine compare own ilc/synthetic/and-mask --plugin examples/own_method.py

The first run takes about a minute on two cores.
"""

import functools
from dataclasses import replace
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import PRNGKeyArray
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from recombine.experiments import AtMost, Group, Metric, Paper, Row, System, Variant
from recombine.methods.agreement import (
    BINARY,
    AgreementLearner,
    AgreementState,
    Descent,
    Drawn,
    Epochs,
    JoinGradients,
    LabelledEnvironments,
    LabelledExamples,
    MLPShape,
    Split,
)
from recombine.tasks import spirals


@functools.cache  # equal settings give one object, so that compiled programs are shared
def trimmed_mean(trim: float) -> optax.GradientTransformation:
    """Averages gradients over environments, less the share `trim` at either end."""

    def init(params: Any) -> Any:
        return AgreementState(jax.tree.map(lambda _: jnp.float32(1.0), params))  # masks nothing

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        def join(stacked: jax.Array) -> jax.Array:
            cut = min(int(trim * len(stacked)), (len(stacked) - 1) // 2)
            return jnp.mean(jnp.sort(stacked, axis=0)[cut : len(stacked) - cut], axis=0)

        return jax.tree.map(join, updates), state

    return optax.GradientTransformation(init, update)


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class TrimmedConfig:
    """The settings, each of which `--set` can change; sizes and schedule are those of our rows."""

    trim: Annotated[float, Field(ge=0, le=0.5)] = 0.25
    num_envs: Annotated[int, Field(ge=2)] = 32
    num_examples: int = 1280
    num_shortcuts: int = 32
    num_test: int = 2000
    hidden_units: int = 256
    hidden_layers: int = 3
    batch_size: int = 128
    learning_rate: float = 1e-2
    l2: float = 1e-4


def make_learner(config: TrimmedConfig, steps: int) -> AgreementLearner:
    """Pairs the task with the method."""
    inputs = spirals.NUM_MECHANISM + config.num_shortcuts
    return AgreementLearner(
        source=Drawn(_sampler(config)),
        network=MLPShape((inputs, *[config.hidden_units] * config.hidden_layers, 1)),
        objective=BINARY,
        method=JoinGradients(trimmed_mean(config.trim)),
        batches=Epochs(config.batch_size),
        optimizer=Descent(
            learning_rate=jnp.float32(config.learning_rate),
            l2=jnp.float32(config.l2),
            decay_steps=(steps // 2, 3 * steps // 4),
        ),
    )


@functools.cache
def _sampler(config: TrimmedConfig) -> Any:
    def sample(key: PRNGKeyArray) -> Split:
        train_key, test_key = jr.split(key)  # as our rows do: a seed has the same data in both
        train = spirals.sample_environments(
            train_key,
            num_envs=config.num_envs,
            num_examples=config.num_examples,
            num_shortcuts=config.num_shortcuts,
        )
        test = spirals.sample_test(
            test_key, num_examples=config.num_test, num_shortcuts=config.num_shortcuts
        )
        return Split(LabelledEnvironments(*train), LabelledExamples(*test))

    return sample


FULL = TrimmedConfig()
TINY = replace(
    FULL,
    num_envs=4,
    num_examples=32,
    num_shortcuts=4,
    num_test=64,
    hidden_units=8,
    hidden_layers=2,
    batch_size=16,
)
MEMORISES = AtMost(0.6)

TRIMMED = Row(
    id="own/spirals/trimmed-mean",
    claim="Leaving out the environments at either end does not leave out the shortcuts.",
    method="trimmed mean of gradients",
    make_learner=make_learner,
    metric=Metric("test_accuracy", "test accuracy", higher_is_better=False),
    also=(Metric("train_accuracy", "training accuracy"),),
    paper=Paper(source="not published", words="an example of a method of one's own"),
    full=Variant(FULL, steps=930, eval_every=10, num_seeds=10, rule=MEMORISES),
    quick=Variant(
        replace(FULL, hidden_units=128), steps=200, eval_every=50, num_seeds=2, rule=MEMORISES
    ),
    tiny=Variant(TINY, steps=8, eval_every=4, num_seeds=2, rule=AtMost(1.0)),
)

SYSTEM = System(
    id="own",
    title="A method of one's own",
    summary="The trimmed mean on the spirals.",
    groups=(Group("own/spirals", "Spirals and shortcuts", "not published", (TRIMMED,)),),
)
