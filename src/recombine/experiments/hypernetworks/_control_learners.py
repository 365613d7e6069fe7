"""Where the hyperteacher meets oracles and controls."""

from dataclasses import replace
from typing import Any

from recombine.experiments.hypernetworks._control_config import ControlConfig
from recombine.experiments.hypernetworks._hyperteacher_learner import (
    HyperteacherLearner,
    architecture_of,
    make_hyperteacher_learner,
)
from recombine.experiments.hypernetworks._nearest_task import NearestTaskLearner
from recombine.experiments.hypernetworks._told_tasks import ToldStudentConfig, ToldTasks
from recombine.methods.hypernetworks import InContextConfig, MonolithicConfig, RidgeHeadConfig

SCALE = 10.0  # from where the scale of a regression onto probabilities is learned


def make_control_learner(
    config: ControlConfig, steps: int
) -> HyperteacherLearner | NearestTaskLearner:
    """Returns the learner of one row."""
    learner = make_hyperteacher_learner(config, steps)
    source = learner.source
    changes: dict[str, Any] = {"decodes": None}  # a task's own parameters say nothing here
    num_told = source.num_layers * source.num_modules
    if config.control == "told-student":
        changes["source"] = ToldTasks(source)
        changes["architecture"] = ToldStudentConfig(
            num_inputs=config.num_inputs + num_told,
            num_outputs=config.num_outputs,
            num_layers=source.num_layers,
            num_modules=source.num_modules,
            width=config.width,
            has_first=source.has_first,
        )
    elif config.control == "told-mlp":
        changes["source"] = ToldTasks(source)
        wider = replace(config, num_inputs=config.num_inputs + num_told)
        changes["architecture"] = architecture_of(wider)
    elif config.control == "ridge-head":
        changes["architecture"] = RidgeHeadConfig(
            num_inputs=config.num_inputs,
            num_outputs=config.num_outputs,
            width=config.width,
            num_hidden=config.num_hidden,
            scale=SCALE,
        )
    elif config.control == "in-context":
        changes["architecture"] = InContextConfig(
            num_inputs=config.num_inputs,
            num_outputs=config.num_outputs,
            width=config.encoder_width,
        )
    elif config.control == "nearest-task":  # which takes the place of the smallest network
        changes["architecture"] = MonolithicConfig(
            num_inputs=config.num_inputs, num_outputs=config.num_outputs, width=1, num_hidden=1
        )
    made = replace(learner, meta=replace(learner.meta, **changes))
    return NearestTaskLearner(made) if config.control == "nearest-task" else made
