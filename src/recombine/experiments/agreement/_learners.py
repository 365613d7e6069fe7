"""Where the spirals meet the AND-mask."""

import functools

import jax.random as jr
from jaxtyping import PRNGKeyArray

from recombine.experiments.agreement._config import SyntheticConfig
from recombine.methods.agreement import (
    BINARY,
    AgreementLearner,
    Drawn,
    LabelledEnvironments,
    LabelledExamples,
    MLPShape,
    Split,
    and_mask,
    arithmetic_mean,
)
from recombine.tasks import spirals


def make_synthetic_learner(config: SyntheticConfig, steps: int) -> AgreementLearner:
    """Returns the learner of one synthetic row; every seed draws a data set of its own."""
    style = spirals.STYLES[config.style]
    sizes = (
        spirals.NUM_MECHANISM + config.num_shortcuts,
        *[config.hidden_units] * config.hidden_layers,
        1,
    )
    return AgreementLearner(
        source=Drawn(_sampler(config)),
        network=MLPShape(sizes),
        objective=BINARY,
        aggregator=(
            and_mask(config.threshold, rescale=config.rescale)
            if config.threshold > 0
            else arithmetic_mean()
        ),
        batch_size=config.batch_size,
        decay_steps=tuple(int(share * steps) for share in config.decay_at),
        learning_rate=config.learning_rate,  # pyright: ignore[reportArgumentType]
        l2=config.l2,  # pyright: ignore[reportArgumentType]
        probe=spirals.spiral_plane(num_shortcuts=config.num_shortcuts, style=style),
    )


@functools.cache  # one function per config: a learner that is made again compiles nothing anew
def _sampler(config: SyntheticConfig):
    style = spirals.STYLES[config.style]

    def sample(key: PRNGKeyArray) -> Split:
        train_key, test_key = jr.split(key)
        train = spirals.sample_environments(
            train_key,
            num_envs=config.num_envs,
            num_examples=config.num_examples,
            num_shortcuts=config.num_shortcuts,
            style=style,
        )
        test = spirals.sample_test(
            test_key,
            num_examples=config.num_test,
            num_shortcuts=config.num_shortcuts,
            style=style,
        )
        return Split(LabelledEnvironments(*train), LabelledExamples(*test))

    return sample
