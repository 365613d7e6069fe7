"""Where the Game of Life meets convolutional students and teachers that weigh its frames."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from recombine.experiments.distillation._config import LifeConfig
from recombine.experiments.distillation._sizes_learner import Sizes, SizesLearner, WeightedLabels
from recombine.methods.distillation import (
    Adam,
    AttentionShape,
    Batches,
    BinaryLabels,
    DistillationLearner,
    Drawn,
    MapStudentShape,
    Momentum,
    PrivilegedExamples,
    PrivilegedSplit,
    SquaredError,
    TeacherTraining,
    Validation,
)
from recombine.tasks import life

CERTAIN = 30.0  # a logit that leaves nothing to the other frames


def make_life_learner(config: LifeConfig, steps: int) -> SizesLearner:
    """Returns the learner of all training sizes; a step is several iterations."""
    del steps
    is_learned = config.method == "ldt"
    held = [
        min(round(config.validation_share * n), config.most_validation) if is_learned else 0
        for n in config.sizes
    ]
    Batches(config.batch_size).check(min(n - h for n, h in zip(config.sizes, held, strict=True)))
    sample = LifeSample(
        config.board,
        config.num_steps,
        max(config.sizes),
        config.num_test,
        config.num_selection,
        config.in_order,
        config.oracle_is_told,
    )
    learner = DistillationLearner(
        source=Drawn(sample),  # which draws nothing here: the sizes share one world
        student=MapStudentShape(
            num_layers=life.LAYERS_PER_STEP * config.num_steps,
            num_maps=config.num_maps,
        ),
        objective=WeightedLabels(BinaryLabels()),
        optimizer=Adam(config.learning_rate, l2=config.weight_decay),
        batches=Batches(config.batch_size, Validation(config.validation_share)),
        student_steps=config.student_steps,
        measured_together=1000,
        **({} if config.method == "none" else _teacher(config)),
    )
    return SizesLearner(
        learner,
        Sizes(jnp.asarray(config.sizes), jnp.asarray(held)),
        jnp.arange(len(config.teaching_weights)),
        jnp.asarray(config.teaching_weights),
        sample=sample,
        best_of_worlds=True,
        most_held=max(held),
        iterations=config.iterations,
        names=tuple(str(size) for size in config.sizes),
    )


def sample_life(config: LifeConfig) -> dict[str, np.ndarray]:
    """Returns a board and its future in the true order, to be drawn before anything was run."""
    order = jnp.arange(config.num_steps)
    found = life.sample_life(jr.key(2), order, num_examples=1, size=config.board)
    boards = np.concatenate([found.inputs, found.privileged[0]])
    return {"boards": boards, "order": np.asarray(life.draw_time_order(jr.key(0)))}


@dataclass(frozen=True)
class LifeSample:
    """Draws boards and their future, in an order of the seed; the hint is what an oracle knows."""

    board: int
    num_steps: int
    num_train: int
    num_test: int
    num_selection: int
    in_order: bool = False
    tells_order: bool = True

    def __call__(self, key: PRNGKeyArray, world: Int[Array, ""] | None = None) -> PrivilegedSplit:
        """Draws the data of a seed."""
        del world
        order_key, *keys = jr.split(key, 4)
        true_order = jnp.arange(self.num_steps)
        order = true_order if self.in_order else life.draw_time_order(order_key, self.num_steps)

        def sample(key: PRNGKeyArray, count: int) -> PrivilegedExamples:
            found = life.sample_life(key, order, num_examples=count, size=self.board)
            return PrivilegedExamples(*found)

        counts = (self.num_train, self.num_test, self.num_selection)
        train, test, selection = (sample(k, n) for k, n in zip(keys, counts, strict=True))
        return PrivilegedSplit(
            train,
            test._replace(privileged=None),
            selection._replace(privileged=None),
            order if self.tells_order else true_order,
        )


def _teacher(config: LifeConfig) -> dict[str, Any]:
    is_oracle, is_learned = config.method == "fixed-oracle", config.method == "ldt"
    settings: dict[str, Any] = {
        "teacher": AttentionShape(
            CERTAIN if is_oracle else config.attention_scale,
            num_frames=config.num_steps,
            num_layers=life.LAYERS_PER_STEP * config.num_steps,
            num_maps=config.num_maps,
            oracle_every=life.LAYERS_PER_STEP if is_oracle else None,
        ),
        "tells_teacher": is_oracle,
        "teaching_loss": SquaredError(),
    }
    if is_learned:
        settings["teacher_training"] = TeacherTraining(
            Momentum(config.meta_rate, config.meta_momentum, 0.0),
            inner_steps=config.inner_steps,
            hoist=False,  # targets are boards for every map: cheap to make, large to keep
        )
    return settings
