"""Where the hyperteacher meets the four learners, and amortised inference."""

import math
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.experiments.hypernetworks._config import HyperteacherConfig
from recombine.experiments.hypernetworks._drawn_supports import count_combinations, describe_codes
from recombine.experiments.hypernetworks._told_tasks import ToldTasks
from recombine.methods.hypernetworks import (
    AmortisedConfig,
    Architecture,
    EncoderConfig,
    HyperNetworkConfig,
    InnerLoop,
    MetaLearner,
    MetaTraining,
    MonolithicConfig,
    OuterLoop,
    SoftLabels,
    count_parameters,
)
from recombine.tasks.hyperteacher import (
    Hyperteacher,
    HyperteacherWorld,
    make_hyperteacher,
    task_codes,
)

Metrics = dict[str, Float[Array, ""]]
WATCHED = ("valid", "test", "ood")
DECODED = ("test", "ood")  # fitted on the first, measured on the second


class HyperteacherLearner(eqx.Module):
    """A meta-learner on the hyperteacher; it also says what the training support can teach."""

    meta: MetaLearner

    @property
    def source(self) -> Hyperteacher:
        """The tasks."""
        source = self.meta.source
        source = source.source if isinstance(source, ToldTasks) else source
        assert isinstance(source, Hyperteacher)
        return source

    def init(self, key: PRNGKeyArray) -> MetaTraining:
        """Draws a teacher, what is held out, and the shared parameters."""
        return self.meta.init(key)

    def step(self, state: MetaTraining, key: PRNGKeyArray) -> tuple[MetaTraining, Metrics]:
        """Adapts to a batch of tasks, then takes one step on the shared parameters."""
        return self.meta.step(state, key)

    def evaluate(self, state: MetaTraining, key: PRNGKeyArray) -> Metrics:
        """Measures new tasks of trained combinations, and held-out combinations."""
        return self.meta.evaluate(state, key)

    def final(self, state: MetaTraining, key: PRNGKeyArray) -> Metrics:
        """Measures everything, also by the number of active modules, and decodes latents."""
        metrics = {
            name: value
            for name, value in self.meta.final(state, key).items()
            if not name.startswith("ood_hot") or self._is_beyond_training(name)
        }
        metrics["gap"] = metrics["test_accuracy"] - metrics["ood_accuracy"]
        metrics["parameters"] = jnp.float32(count_parameters(state.model))
        metrics |= describe_codes(self._codes(state.world))
        return metrics | count_combinations(state.world.combinations)

    def inspect(self, state: MetaTraining, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns which modules were trained together, and what came of adapting to tasks."""
        found = self.meta.inspect(state, key)
        codes = self._codes(state.world)
        kept = {"trained_together": codes.T @ codes}
        if "decoded" in found:
            kept["decoded"] = found["decoded"]
        for name in DECODED:
            kept[f"{name}_support_losses"] = jnp.mean(found[f"{name}_support_losses"], axis=0)
            kept[f"{name}_task_accuracy"] = found[f"{name}_task_accuracy"]
        return kept

    def _is_beyond_training(self, name: str) -> bool:
        """Says whether a metric is the accuracy with more active modules than were ever trained.

        With fewer they are part of `ood`, or there are none.
        """
        hotness = int(name.split("_")[2])
        return hotness > self.source.max_active and name.endswith("_accuracy")

    def _codes(self, world: HyperteacherWorld) -> Float[Array, "tasks modules"]:
        """Says of every training task which of the layers' modules it has; others have none."""
        order = world.combinations
        codes = self.source.latents_of(order.tasks).reshape(len(order.tasks), -1)
        return jnp.where(order.is_trained[:, None], codes, 0.0)


def make_hyperteacher_learner(config: HyperteacherConfig, steps: int) -> HyperteacherLearner:
    """Returns the learner of one row."""
    inner = InnerLoop(
        learning_rate=config.inner_rate,
        num_steps=config.inner_steps,
        batch_size=config.batch_size,
        eps_root=config.inner_eps_root,  # pyright: ignore[reportArgumentType]
        keep="everything",  # of the few tasks in a step: computing it again would take longer
    )
    outer = OuterLoop(
        learning_rate=config.outer_rate,
        weight_decay=config.weight_decay,
        clip_norm=config.clip_norm,
        clip_tasks=config.clip_tasks,
        decay_steps=steps if config.outer_decays else None,
    )
    meta = MetaLearner(
        _source(config),
        architecture_of(config),
        SoftLabels(),
        inner,
        outer,
        num_tasks=config.num_tasks,
        num_measured=config.num_measured,
        chunk_size=math.gcd(config.chunk_size, config.num_measured),
        watched=WATCHED,
        decodes=DECODED,
        precision=config.precision,
    )
    return HyperteacherLearner(meta)


def architecture_of(config: HyperteacherConfig) -> Architecture:
    """Returns the network of a row; an encoder makes its hypernetwork an amortised one."""
    sizes: dict[str, Any] = {
        "num_inputs": config.num_inputs,
        "num_outputs": config.num_outputs,
        "width": config.width,
        "num_hidden": config.num_hidden,
    }
    if config.learner in ("anil", "maml"):
        if config.encoder is not None:
            raise ValueError(
                f"`encoder` predicts a hypernetwork's embedding, and {config.learner} has none; "
                f"leave it out, or choose linear-hnet or deep-hnet"
            )
        return MonolithicConfig(
            adapts="head" if config.learner == "anil" else "everything", **sizes
        )
    network = HyperNetworkConfig(
        bank="linear" if config.learner == "linear-hnet" else "deep",
        num_templates=config.num_templates,
        adapts_bias=config.adapts_bias,
        **sizes,
    )
    if config.encoder is None:
        return network
    return AmortisedConfig(network, EncoderConfig(kind=config.encoder, width=config.encoder_width))


def sample_hyperteacher(config: HyperteacherConfig) -> dict[str, np.ndarray]:
    """Returns which modules are trained together, where that is the same for all seeds."""
    source = _source(config)
    if config.support == "random":
        return {}
    train = np.asarray(source.order.train)
    codes = task_codes(train, np.asarray(source.masks), source.num_layers).astype(float)
    return {"trained_together": codes.T @ codes}


def _source(config: HyperteacherConfig) -> Hyperteacher:
    return make_hyperteacher(
        config.support,
        num_modules=config.num_modules,
        max_active=config.max_active,
        held_out=config.held_out,
        num_hidden=config.teacher_hidden,
        num_inputs=config.num_inputs,
        num_outputs=config.num_outputs,
        width=config.teacher_width,
        num_support=config.num_support,
        num_query=config.num_query,
    )
