"""Where the control tasks meet the learner and its baselines."""

import functools
import itertools
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from recombine.experiments.distillation._config import ControlConfig, ControlSearchConfig
from recombine.experiments.distillation._search_learner import SearchLearner
from recombine.methods.distillation import (
    Adam,
    Batches,
    BucketLabels,
    ConvTeacherShape,
    Copy,
    DistillationLearner,
    GatedSquaredError,
    Given,
    GridLearner,
    MLPStudentShape,
    Momentum,
    NoisyFrames,
    PermutedFrames,
    PrivilegedExamples,
    PrivilegedSplit,
    Ready,
    SquaredError,
    TeacherTraining,
    Validation,
    Watch,
)
from recombine.tasks import mujoco_returns as returns

ERROR = "squared_error"
NO_TRITON = (("xla_gpu_enable_triton_gemm", False),)
"""Where nothing is differentiated twice, a run takes seconds: not worth the time that XLA takes to
try Triton kernels for every product. With a learned teacher they spare 8 % of the kernels."""
WATCHES = (
    Watch(f"test_{ERROR}", highest=False),
    Watch(f"selection_{ERROR}", highest=False, name="chosen"),
)


def make_control_learner(config: ControlConfig, steps: int) -> DistillationLearner:
    """Returns the learner of one row; a step is several iterations."""
    del steps
    task = returns.control_task(config.task)
    frame_units = returns.NUM_STEPS * task.frame_size
    is_auxiliary = config.method == "auxiliary"
    return DistillationLearner(
        source=Given(_data_of(config)),
        student=MLPStudentShape(
            task.num_inputs,
            returns.NUM_CLASSES,
            hidden=config.hidden,
            auxiliary=frame_units if is_auxiliary else None,
        ),
        objective=BucketLabels(),
        optimizer=Adam(config.learning_rate, l2=config.weight_decay),
        student_steps=config.student_steps,
        iterations=config.iterations,
        watches=WATCHES,
        precision=config.precision,
        compiler_options=() if config.method == "ldt" else NO_TRITON,
        view=_view_of(config),
        **_teaching_of(config, task),
    )


def make_control_search(config: ControlSearchConfig, steps: int) -> SearchLearner:
    """Returns all settings of a baseline as one learner; a program for each batch size."""
    grids, names = [], []
    for batch_size in config.batch_sizes:
        points = list(
            itertools.product(config.learning_rates, config.weight_decays, config.teaching_weights)
        )
        learners = [
            make_control_learner(
                replace(
                    config.base,
                    batch_size=batch_size,
                    learning_rate=rate,
                    weight_decay=decay,
                    teaching_weight=weight,
                ),
                steps,
            )
            for rate, decay, weight in points
        ]
        grids.append(GridLearner.of(learners))
        is_weighed = config.base.method == "auxiliary"
        names += [
            f"batch={batch_size},rate={rate:g},decay={decay:g}"
            + (f",weight={weight:g}" if is_weighed else "")
            for rate, decay, weight in points
        ]
    return SearchLearner(tuple(grids), tuple(names))


def _teaching_of(config: ControlConfig, task: returns.ControlTask) -> dict[str, Any]:
    """Returns teacher, its loss and training, and the batches, by the method."""
    if config.method == "model-free":
        return {"batches": Batches(config.batch_size)}
    if config.method == "auxiliary":
        return {
            "batches": Batches(config.batch_size),
            "teacher": Ready(Copy()),
            "teaching_loss": SquaredError(),
            "teaching_weight": config.teaching_weight,
        }
    training = TeacherTraining(
        Adam(config.meta_rate, config.meta_beta1),
        Momentum(config.inner_rate, config.inner_momentum, config.inner_weight_decay),
        skips_runaways=config.skip_runaways,
        longest_meta_gradient=config.longest_meta_gradient,
        inner_steps=config.inner_steps,
        keep=config.keep,
        packed=True,
    )
    return {
        "batches": Batches(
            config.batch_size,
            Validation(config.validation_share, config.resample, config.ascending),
        ),
        "teacher": ConvTeacherShape(
            returns.NUM_STEPS,
            task.frame_size,
            2 * sum(config.hidden),
            maps=config.teacher_maps,
            hidden=(config.teacher_hidden,),
        ),
        "teaching_loss": GatedSquaredError(config.gate_scale, config.gate_shift),
        "teaching_weight": config.teaching_weight,
        "teacher_training": None if config.method == "untrained" else training,
    }


def _view_of(config: ControlConfig) -> Any:
    if config.permuted:
        return PermutedFrames()
    return NoisyFrames(config.noisy_frames) if config.noisy_frames else None


def _data_of(config: ControlConfig) -> PrivilegedSplit:
    counts = (config.num_train, config.num_selection, config.num_test)
    load = _random_data if config.data == "random" else _simulated_data
    return load(config.task, config.data_seed, *counts)


@functools.cache  # all rows of a task share one copy
def _simulated_data(
    task: str, seed: int, num_train: int, num_selection: int, num_test: int
) -> PrivilegedSplit:
    sets = returns.load_returns(
        task, num_train=num_train, num_validation=num_selection, num_test=num_test, seed=seed
    )
    train, selection, test = (
        PrivilegedExamples(*(jnp.asarray(side) for side in part))
        for part in (sets.train, sets.validation, sets.test)
    )
    return PrivilegedSplit(
        train, test._replace(privileged=None), selection._replace(privileged=None)
    )


@functools.cache
def _random_data(
    task: str, seed: int, num_train: int, num_selection: int, num_test: int
) -> PrivilegedSplit:
    about, rng = returns.control_task(task), np.random.default_rng(seed)

    def draw(count: int) -> PrivilegedExamples:
        frames = (count, returns.NUM_STEPS, about.frame_size)
        return PrivilegedExamples(
            jnp.asarray(rng.normal(size=(count, about.num_inputs)), jnp.float32),
            jnp.asarray(rng.normal(size=frames), jnp.float32),
            jnp.asarray(rng.integers(0, returns.NUM_CLASSES, count), jnp.int32),
        )

    train, selection, test = (draw(count) for count in (num_train, num_selection, num_test))
    return PrivilegedSplit(
        train, test._replace(privileged=None), selection._replace(privileged=None)
    )
