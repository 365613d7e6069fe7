"""The hyperteacher's learner with an encoder that gradient descent teaches."""

from dataclasses import replace

from recombine.experiments.hypernetworks._control_config import DistilledConfig
from recombine.experiments.hypernetworks._hyperteacher_learner import (
    HyperteacherLearner,
    make_hyperteacher_learner,
)
from recombine.methods.hypernetworks import Distillation, InnerLoop


def make_distilled_learner(config: DistilledConfig, steps: int) -> HyperteacherLearner:
    """Returns the learner of one row; without a weight of distillation nothing is taught."""
    learner = make_hyperteacher_learner(config, steps)
    if config.distilled is None:
        return learner
    distillation = Distillation(
        weight=config.distilled,
        descent=InnerLoop(learning_rate=config.descent_rate, num_steps=config.descent_steps),
    )
    return replace(learner, meta=replace(learner.meta, distillation=distillation))
