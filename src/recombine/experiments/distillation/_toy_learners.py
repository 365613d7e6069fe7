"""Where the two toy tasks meet students and teachers."""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from recombine.experiments.distillation._config import HiddenXorConfig, NoisyLabelsConfig
from recombine.experiments.distillation._sizes_learner import Sizes, SizesLearner, WeightedLabels
from recombine.methods.distillation import (
    Adam,
    Batches,
    BinaryLabels,
    DistillationLearner,
    Divergence,
    Drawn,
    DrawnLabels,
    MLPStudentShape,
    MLPTeacherShape,
    PrivilegedExamples,
    PrivilegedSplit,
    SquaredError,
    TeacherTraining,
    Validation,
    Watch,
)
from recombine.tasks import privileged_toys as toys


def make_hidden_xor_learner(config: HiddenXorConfig, steps: int) -> SizesLearner:
    """Returns the learner of all cells of task A.

    A step is an iteration with one pass over the training part; without a teacher, an epoch.
    """
    del steps
    is_taught = config.method == "ldt"
    held = [round(config.validation_share * n) if is_taught else 0 for n in config.sizes]
    Batches(config.batch_size).check(min(n - h for n, h in zip(config.sizes, held, strict=True)))
    worlds = XorWorlds(
        max(config.dimensions), max(config.sizes), config.num_test, config.num_selection
    )
    learner = DistillationLearner(
        source=Drawn(worlds),  # which draws nothing here: the worlds do
        student=MLPStudentShape(
            worlds.num_inputs,
            1,
            hidden=(config.bottleneck, config.hidden),
            offers=(0,),
            linear=(0,),
            weight_norm=False,
        ),
        objective=WeightedLabels(BinaryLabels()),
        optimizer=Adam(config.learning_rate, config.beta1, l2=config.weight_decay),
        batches=Batches(config.batch_size, Validation(config.validation_share)),
        **(_xor_teacher(config) if is_taught else {}),
    )
    cells = [(d, n) for d in config.dimensions for n in config.sizes]
    judged = config.judged_sizes or config.sizes
    return SizesLearner(
        learner,
        Sizes(jnp.asarray(config.sizes), jnp.asarray(held)),
        jnp.asarray(config.dimensions),
        sample=worlds,
        adjust=FewerInputs(worlds.num_inputs),
        most_held=max(held),
        resample=config.split == "resample",
        whole_passes=True,
        names=tuple(f"{d}/{n}" for d, n in cells),
        judged=tuple(place for place, (_, n) in enumerate(cells) if n in judged),
    )


def make_noisy_labels_learner(config: NoisyLabelsConfig, steps: int) -> DistillationLearner:
    """Returns the learner of task B; a step is an iteration of a few student steps."""
    del steps
    is_taught = config.method == "ldt"
    validation = Validation(
        config.validation_share,
        resample=config.split != "fixed",
        ascending=config.split == "ascending",
    )
    return DistillationLearner(
        source=Drawn(NoisySample(config.num_inputs, config.num_train, config.num_test)),
        student=MLPStudentShape(
            config.num_inputs,
            NUM_CLASSES,
            hidden=config.hidden,
            offers=(len(config.hidden),),
            weight_norm=False,
        ),
        objective=DrawnLabels(config.entropy_weight),
        optimizer=Adam(config.learning_rate, l2=config.weight_decay),
        batches=Batches(config.batch_size, validation if is_taught else None),
        student_steps=config.student_steps,
        watches=(
            Watch("test_divergence", highest=False),
            Watch("selection_loss", highest=False, name="chosen"),
        ),
        **(_noisy_teacher(config) if is_taught else {}),
    )


def sample_hidden_xor(config: HiddenXorConfig) -> dict[str, np.ndarray]:
    """Returns examples of the smallest dimension, to be drawn before anything was run."""
    world_key, key = jr.split(jr.key(0))
    world = toys.draw_xor_world(world_key, num_inputs=min(config.dimensions))
    examples = toys.sample_xor(key, world, num_examples=300)
    return {
        "hidden": np.asarray(examples.inputs @ world.projection.T),
        "privileged": np.asarray(examples.privileged),
        "labels": np.asarray(examples.labels),
    }


@dataclass(frozen=True)
class XorWorlds:
    """Draws data of task A with so many inputs, of which a world uses the first; others are 0."""

    num_inputs: int
    num_train: int
    num_test: int
    num_selection: int

    def __call__(
        self, key: PRNGKeyArray, num_used: Int[Array, ""] | None = None
    ) -> PrivilegedSplit:
        """Draws the data of the world whose dimension is `num_used`."""
        used = self.num_inputs if num_used is None else num_used
        world_key, *keys = jr.split(key, 4)
        wide = toys.draw_xor_world(world_key, num_inputs=self.num_inputs).projection
        is_used = jnp.arange(self.num_inputs) < used
        # Entries reach to one over the root of the dimension, which is that of the world.
        projection = jnp.where(is_used[None], wide * jnp.sqrt(self.num_inputs / used), 0.0)

        def sample(key: PRNGKeyArray, count: int) -> PrivilegedExamples:
            found = toys.sample_xor(key, toys.XorWorld(projection), num_examples=count)
            inputs = jnp.where(is_used[None], found.inputs, 0.0)
            return PrivilegedExamples(inputs, found.privileged, found.labels)

        train, test, selection = (
            sample(k, count)
            for k, count in zip(
                keys, (self.num_train, self.num_test, self.num_selection), strict=True
            )
        )
        return PrivilegedSplit(
            train, test._replace(privileged=None), selection._replace(privileged=None)
        )


@dataclass(frozen=True)
class FewerInputs:
    """Fits a student that was made for so many inputs to a world that uses fewer."""

    num_inputs: int

    def __call__(self, student: Any, num_used: Int[Array, ""]) -> Any:
        """Gives the first layer the spread that it has with the used inputs alone."""
        factor = jnp.sqrt(self.num_inputs / num_used)
        first = jax.tree.map(lambda leaf: leaf * factor, student.layers[0])
        return eqx.tree_at(lambda of: of.layers[0], student, first)


NUM_CLASSES = 4


@dataclass(frozen=True)
class NoisySample:
    """Draws the data of task B; a label is a class and the chances that it was drawn with."""

    num_inputs: int
    num_train: int
    num_test: int

    def __call__(self, key: PRNGKeyArray) -> PrivilegedSplit:
        """Draws the data of a seed."""
        world_key, *keys = jr.split(key, 4)
        world = toys.draw_noisy_world(
            world_key, num_inputs=self.num_inputs, num_classes=NUM_CLASSES
        )

        def sample(key: PRNGKeyArray, count: int) -> PrivilegedExamples:
            found = toys.sample_noisy(key, world, num_examples=count)
            labels = (found.labels, jax.nn.softmax(found.logits))
            return PrivilegedExamples(found.inputs, found.privileged, labels)

        counts = (self.num_train, self.num_test, self.num_test)
        train, test, selection = (sample(k, n) for k, n in zip(keys, counts, strict=True))
        return PrivilegedSplit(
            train, test._replace(privileged=None), selection._replace(privileged=None)
        )


def _xor_teacher(config: HiddenXorConfig) -> dict[str, Any]:
    return {
        "teacher": MLPTeacherShape(4, config.bottleneck, hidden=config.teacher_hidden),
        "teaching_loss": SquaredError(),
        "teaching_weight": config.teaching_weight,
        "teacher_training": TeacherTraining(
            Adam(config.meta_rate, config.beta1), inner_steps=config.inner_steps, keep="everything"
        ),
    }


def _noisy_teacher(config: NoisyLabelsConfig) -> dict[str, Any]:
    return {
        "teacher": MLPTeacherShape(32, NUM_CLASSES, hidden=config.teacher_hidden),
        "teaching_loss": Divergence(),
        "teaching_weight": config.teaching_weight,
        "teacher_training": TeacherTraining(
            Adam(config.meta_rate), inner_steps=config.inner_steps, keep="everything"
        ),
    }
