"""Where the spirals meet the methods."""

import dataclasses
import functools
from typing import Any

import jax.random as jr
from jaxtyping import PRNGKeyArray

from recombine.experiments.agreement._config import (
    DannConfig,
    DataConfig,
    EnvironmentsConfig,
    FishrConfig,
    IrmConfig,
    Options,
    RegularizedConfig,
    SpiralsConfig,
    SyntheticConfig,
    VrexConfig,
)
from recombine.methods.agreement import (
    BINARY,
    DANN,
    IRM,
    AdversarialShape,
    AgreementLearner,
    AndMask,
    Descent,
    Drawn,
    Epochs,
    Fishr,
    Groups,
    JoinGradients,
    LabelledEnvironments,
    LabelledExamples,
    Method,
    MLPShape,
    Pooled,
    Split,
    VREx,
    and_mask,
    arithmetic_mean,
    geometric_mean,
)
from recombine.tasks import spirals


def make_synthetic_learner(config: SpiralsConfig, steps: int) -> AgreementLearner:
    """Returns the learner of one synthetic row; every seed draws a data set of its own."""
    options = config if isinstance(config, Options) else Options()
    method = _method(config)
    return AgreementLearner(
        source=Drawn(_sampler(config)),
        network=_network(config, options),
        objective=BINARY,
        method=method,
        batches=_batches(config),
        optimizer=Descent(
            learning_rate=config.learning_rate,  # pyright: ignore[reportArgumentType]
            l2=config.l2,  # pyright: ignore[reportArgumentType]
            l1=options.l1 or None,  # pyright: ignore[reportArgumentType]
            decay_steps=tuple(int(share * steps) for share in config.decay_at),
            kind=options.optimizer,
            decoupled=isinstance(config, RegularizedConfig) and config.decoupled,
        ),
        dropout=options.dropout or None,  # pyright: ignore[reportArgumentType]
        probe=spirals.spiral_plane(
            num_shortcuts=config.num_shortcuts, style=spirals.STYLES[config.style]
        ),
        trace_steps=steps if isinstance(method, JoinGradients) else 0,
    )


def sample_split(config: DataConfig, key: PRNGKeyArray) -> Split:
    """Draws training environments and a test set."""
    style = spirals.STYLES[config.style]
    train_key, test_key = jr.split(key)
    train = spirals.sample_environments(
        train_key,
        num_envs=config.num_envs,
        num_examples=config.num_examples,
        num_shortcuts=config.num_shortcuts,
        style=style,
    )
    test = spirals.sample_test(
        test_key, num_examples=config.num_test, num_shortcuts=config.num_shortcuts, style=style
    )
    return Split(LabelledEnvironments(*train), LabelledExamples(*test))


def _sampler(config: SpiralsConfig) -> Any:
    is_pooled = isinstance(config, EnvironmentsConfig) and config.group_size is None
    names = [field.name for field in dataclasses.fields(DataConfig)]
    return _sampler_of(DataConfig(**{name: getattr(config, name) for name in names}), is_pooled)


@functools.cache  # one function per data set: learners that differ in numbers share a program
def _sampler_of(config: DataConfig, is_pooled: bool) -> Any:
    def sample(key: PRNGKeyArray) -> Split:
        split = sample_split(config, key)
        if not is_pooled:
            return split
        inputs, labels = split.train
        pooled = LabelledEnvironments(
            inputs.reshape(1, -1, inputs.shape[-1]), labels.reshape(1, -1)
        )
        return Split(pooled, split.test)

    return sample


def _network(config: SpiralsConfig, options: Options) -> Any:
    inputs = spirals.NUM_MECHANISM + config.num_shortcuts
    if isinstance(config, DannConfig):
        return AdversarialShape(
            inputs=inputs,
            hidden_units=config.hidden_units,
            outputs=1,
            num_envs=config.num_envs,
            batch_norm=options.batch_norm,
        )
    sizes = (inputs, *[config.hidden_units] * config.hidden_layers, 1)
    return MLPShape(sizes, batch_norm=options.batch_norm)


def _batches(config: SpiralsConfig) -> Epochs | Groups:
    if isinstance(config, EnvironmentsConfig):
        return Groups(config.batch_size, num_envs=config.group_size or 1)
    return Epochs(config.batch_size)


def _method(config: SpiralsConfig) -> Method:
    epoch = config.num_examples // config.batch_size
    match config:
        case IrmConfig():
            return IRM(*_numbers(config.penalty_weight, config.anneal_epochs * epoch))
        case VrexConfig():
            return VREx(*_numbers(config.penalty_weight, config.anneal_epochs * epoch))
        case FishrConfig():
            return Fishr(*_numbers(config.penalty_weight, config.anneal_epochs * epoch, config.ema))
        case DannConfig():
            return DANN(*_numbers(config.reversal))
        case SyntheticConfig():
            return _joined(config)
    raise TypeError(f"no method is known for a {type(config).__name__}")


def _numbers(*values: float) -> Any:
    """Hands numbers to fields that make arrays of them, past the checker of types."""
    return values


def _joined(config: SyntheticConfig) -> JoinGradients | Pooled:
    is_pooled = isinstance(config, EnvironmentsConfig) and config.group_size is None
    couples = isinstance(config, RegularizedConfig) and config.batch_norm
    if config.threshold == 0:
        # Through batch norm every environment's gradient costs a pass back over all examples.
        return Pooled() if is_pooled or couples else JoinGradients(arithmetic_mean())
    if isinstance(config, RegularizedConfig) and config.mean == "geometric":
        return JoinGradients(geometric_mean(config.threshold, rescale=config.rescale))
    if config.rescale == "global":
        return JoinGradients(and_mask(config.threshold, rescale="global"))
    return JoinGradients(AndMask(config.threshold, float(config.rescale == "tensor")))
