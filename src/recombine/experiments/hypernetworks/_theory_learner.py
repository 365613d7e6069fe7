"""The theory's student, measured: does it compute unseen combinations, and has it the modules?"""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from recombine.experiments.hypernetworks._config import TheoryConfig
from recombine.methods.hypernetworks import (
    InnerLoop,
    MetaLearner,
    MetaTraining,
    ModularStudentConfig,
    OuterLoop,
    SquaredError,
    count_parameters,
)
from recombine.methods.modularity import (
    chance_alignment,
    chance_corrected,
    explained_variance,
    fit_mixing,
    fit_readout,
    generated_alignment,
    latent_r_squared,
    mix_modules,
    module_alignment,
    relative_loss,
    to_teacher_coordinates,
)
from recombine.tasks.hyperteacher import (
    NUM_THEORY_MODULES,
    THEORY_SUPPORTS,
    TeacherStudent,
    is_connected,
    is_identifying,
    support_rank,
    theory_masks,
)

Metrics = dict[str, Float[Array, ""]]
SETS = ("train", "unseen", "unseen_unit")
ALIGNMENTS = ("joint_alignment", "per_module_alignment", "max_min_alignment", "dead_units")


class TheoryLearner(eqx.Module):
    """A meta-learner of a `ModularStudent`, with the measures of the theory."""

    meta: MetaLearner
    facts: dict[str, Float[Array, ""]]  # of the support; arrays, so that programs are shared
    long_inner_steps: int = eqx.field(static=True)

    def init(self, key: PRNGKeyArray) -> MetaTraining:
        """Draws a teacher and a student."""
        return self.meta.init(key)

    def step(self, state: MetaTraining, key: PRNGKeyArray) -> tuple[MetaTraining, Metrics]:
        """Infers the latents of a batch of tasks, then takes one step on the shared parameters."""
        return self.meta.step(state, key)

    def evaluate(self, state: MetaTraining, key: PRNGKeyArray) -> Metrics:
        """Measures loss on seen and unseen combinations, and module alignment."""
        del key
        return self._measure(state)[0]

    def final(self, state: MetaTraining, key: PRNGKeyArray) -> Metrics:
        """Measures everything: all numbers of active modules, latents, and longer inference."""
        metrics, found, readout = self._measure(state)
        by_hotness = self.meta.final(state, key)
        metrics |= {n: v for n, v in by_hotness.items() if n.startswith("hot_") and "loss" in n}
        latents, inferred = found.latents[1], found.adapted[1]  # of unseen combinations
        metrics["unseen_latent_r2"] = jnp.mean(latent_r_squared(latents, inferred @ readout.T))
        generated = generated_alignment(
            jax.vmap(state.world.generate)(latents), jax.vmap(state.model.generate)(inferred)
        )
        metrics["task_independent_alignment"] = generated.task_independent
        metrics["task_dependent_alignment"] = generated.task_dependent
        unused = len(self.meta.source.sets)  # the numbers below are the sets' own
        chance = chance_alignment(
            jr.fold_in(state.evaluation_key, unused),
            state.world.modules,
            state.model.modules.shape[-1],
        )["joint_alignment"]
        metrics["chance_alignment"] = chance
        metrics["corrected_alignment"] = chance_corrected(metrics["joint_alignment"], chance)
        inner = dataclasses.replace(self.meta.inner, num_steps=self.long_inner_steps)
        longer = dataclasses.replace(self.meta, inner=inner).adapt_set(state, "unseen")
        metrics["unseen_loss_longer"] = jnp.mean(longer.measures["loss"])
        metrics["parameters"] = jnp.float32(count_parameters(state.model))
        return metrics | self.facts

    def inspect(self, state: MetaTraining, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns the support, and how alike the units of teacher and student are."""
        del key
        _, found, readout = self._measure(state)
        student = to_teacher_coordinates(state.model.modules, readout)
        cosines = jnp.einsum(
            "miu,miw->muw", _unit(state.world.modules), _unit(student), precision="highest"
        )
        return {
            "masks": self.meta.source.masks,  # pyright: ignore[reportAttributeAccessIssue]
            "unit_cosines": cosines,
            "support_losses": jnp.mean(found.support_losses, axis=1),
        }

    def _measure(self, state: MetaTraining) -> tuple[Metrics, Any, Float[Array, "modules latents"]]:
        found = self.meta.adapt_sets(state, SETS)
        assert found.latents is not None
        metrics: Metrics = {}
        for number, name in enumerate(SETS):
            outputs, targets = found.outputs[number], found.query.targets[number]
            metrics[f"{name}_loss"] = jnp.mean(found.measures["loss"][number])
            metrics[f"{name}_relative_loss"] = relative_loss(outputs, targets).population
            metrics[f"{name}_r2"] = explained_variance(outputs, targets)
        metrics["diverged"] = 1 - jnp.mean(found.finite.astype(jnp.float32))
        readout = fit_readout(found.latents[0], found.adapted[0])
        student = to_teacher_coordinates(state.model.modules, readout)
        summary = module_alignment(state.world.modules, student).summary()
        metrics |= {name: summary[name] for name in ALIGNMENTS}
        metrics["unit_consistency"] = metrics["joint_alignment"] / metrics["per_module_alignment"]
        mixed = mix_modules(state.model.modules, fit_mixing(found.latents[0], found.adapted[0]))
        regressed = module_alignment(state.world.modules, mixed).summary()
        metrics["regressed_alignment"] = regressed["joint_alignment"]
        return metrics, found, readout


def make_theory_learner(config: TheoryConfig, steps: int) -> TheoryLearner:
    """Returns the learner of one row."""
    source = TeacherStudent(
        padded_masks(config.support),
        continuous=config.latents == "continuous",
        num_inputs=config.num_inputs,
        width=config.width,
        num_outputs=config.num_outputs,
        num_rows=config.num_rows,
        num_query_rows=config.num_query_rows,
    )
    student = ModularStudentConfig(
        num_inputs=config.num_inputs,
        num_outputs=config.num_outputs,
        num_latents=round(config.latent_factor * NUM_THEORY_MODULES),
        width=round(config.width_factor * config.width),
    )
    inner = InnerLoop(
        learning_rate=config.inner_rate,
        num_steps=config.inner_steps,
        fresh=True,
        order="first",
        optimizer=config.inner_optimizer,
        damping=config.damping,
        pull=config.pull,
    )
    outer = OuterLoop(
        learning_rate=config.outer_rate,
        weight_decay=config.weight_decay,
        clip_norm=None,
        decay_steps=steps,
    )
    meta = MetaLearner(
        source,
        student,
        SquaredError(),
        inner,
        outer,
        num_tasks=config.num_tasks,
        num_measured=config.num_measured,
        chunk_size=config.chunk_size,
        precision=config.precision,
    )
    return TheoryLearner(meta, support_facts(config), config.long_inner_steps)


def padded_masks(support: str) -> Bool[np.ndarray, "masks modules"]:
    """Returns the masks of a support, each as often as all others, equally many for all supports.

    Drawn uniformly they are the same distribution, and all supports share one compiled program.
    """
    masks = theory_masks(support)
    length = math.lcm(*(len(groups) for groups in THEORY_SUPPORTS.values()))
    return np.tile(masks, (length // len(masks), 1))


def sample_theory(config: TheoryConfig) -> dict[str, np.ndarray]:
    """Returns the support of a row, to be drawn before anything was run."""
    return {"masks": theory_masks(config.support)}


def support_facts(config: TheoryConfig) -> dict[str, Float[Array, ""]]:
    """Returns what the support of a row can teach, by the theory."""
    masks = theory_masks(config.support)
    facts = {
        "support_rank": support_rank(masks),
        "support_connected": is_connected(masks),
        "support_identifying": is_identifying(masks, continuous=config.latents == "continuous"),
    }
    return {name: jnp.float32(value) for name, value in facts.items()}


def _unit(modules: Float[Array, "modules inputs units"]) -> Float[Array, "modules inputs units"]:
    length = jnp.sqrt(jnp.sum(jnp.square(modules), axis=1, keepdims=True))
    return modules / jnp.maximum(length, 1e-12)
