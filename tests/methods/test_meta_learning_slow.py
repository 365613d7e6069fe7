"""Learners on the tasks they were made for, small, and for minutes (spec 9.2 in little)."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.hypernetworks import (
    AmortisedConfig,
    EncoderConfig,
    HyperNetworkConfig,
    InnerLoop,
    MetaLearner,
    ModularStudentConfig,
    MonolithicConfig,
    OuterLoop,
    SoftLabels,
    SquaredError,
)
from recombine.methods.modularity import explained_variance
from recombine.tasks.hyperteacher import TeacherStudent, make_hyperteacher, mask_matrix
from recombine.training import fit

pytestmark = pytest.mark.slow

SIZES = {"num_inputs": 8, "num_outputs": 4}
HNET = HyperNetworkConfig(num_templates=8, width=32, num_hidden=2, **SIZES)
DEEP = dataclasses.replace(HNET, bank="deep", adapts_bias=False)
LEARNERS = {
    "linear": (HNET, InnerLoop()),
    "deep": (DEEP, InnerLoop()),
    "anil": (
        MonolithicConfig(width=64, num_hidden=2, **SIZES),
        InnerLoop(learning_rate=0.03, num_steps=30, batch_size=16),
    ),
    "maml": (
        MonolithicConfig(width=32, num_hidden=2, adapts="everything", **SIZES),
        InnerLoop(learning_rate=0.01),
    ),
    "amortised": (AmortisedConfig(HNET, EncoderConfig(width=64)), InnerLoop(num_steps=0)),
}


def accuracy_without_adapting(source, world, query):
    """How often the best answers are right that depend on the input and not on the task."""
    every = source.latents_of(world.combinations.train)

    def of_task(inputs, targets):
        answers = jax.vmap(lambda latent: source.targets(world, latent, inputs))(every)
        labels = jax.nn.one_hot(jnp.argmax(answers, axis=-1), targets.shape[-1])
        right = jnp.argmax(targets, axis=-1)
        means = [jnp.mean(of_tasks, axis=0) for of_tasks in (answers, labels)]
        return jnp.stack([jnp.mean(jnp.argmax(mean, axis=-1) == right) for mean in means])

    return float(jax.vmap(of_task)(query.inputs, query.targets).mean(axis=0).max())


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_learns_to_adapt_to_a_family_of_tasks(name):
    source = make_hyperteacher(
        num_modules=2, max_active=1, width=16, num_support=32, num_query=32, **SIZES
    )
    architecture, inner = LEARNERS[name]
    rate = 1e-2 if name == "amortised" else 2e-3
    learner = MetaLearner(
        source,
        architecture,
        SoftLabels(),
        inner,
        OuterLoop(learning_rate=rate, weight_decay=1e-4, clip_norm=2.0),
        num_tasks=16,
        num_measured=64,
        watched=("test",),
    )
    done = fit(learner, steps=1_000, eval_every=1_000, progress=False)
    state = jax.tree.map(lambda leaf: leaf[0], done.state)
    measured = learner.adapt_set(state, "test")
    accuracy = float(measured.measures["accuracy"].mean())
    assert accuracy == pytest.approx(done.final["test_accuracy"][0], abs=1e-3)
    best = accuracy_without_adapting(source, state.world, measured.query)
    assert 0.5 < best < 0.75  # three tasks of four classes agree often
    assert accuracy > best + 0.05  # of 2,048 queries one standard error is a hundredth


def theory(groups):
    source = TeacherStudent(
        mask_matrix(groups, 3), num_inputs=6, width=4, num_outputs=2, num_rows=32, num_query_rows=64
    )
    inner = InnerLoop(learning_rate=0.03, num_steps=50, fresh=True, order="first", optimizer="adam")
    outer = OuterLoop(learning_rate=3e-3, weight_decay=0.0, clip_norm=None, decay_steps=600)
    student = ModularStudentConfig(num_inputs=6, num_outputs=2, num_latents=6, width=8)
    return MetaLearner(
        source, student, SquaredError(), inner, outer, num_tasks=16, num_measured=64, chunk_size=64
    )


def test_a_student_of_a_connected_support_does_unseen_combinations():
    scores = {}
    for name, groups in {"connected": [(0, 1), (1, 2)], "split": [(0, 1), (2,)]}.items():
        learner = theory(groups)

        @eqx.filter_jit
        def run(learner, key):
            state = learner.init(key)
            keys = jr.split(key, 600)
            state, metrics = jax.lax.scan(lambda s, k: learner.step(s, k), state, keys)
            unseen = learner.adapt_set(state, "unseen")
            return metrics["loss"], explained_variance(unseen.outputs, unseen.query.targets)

        losses, scores[name] = run(learner, jr.key(0))
        assert np.mean(losses[-20:]) < 0.1 * losses[0]
    assert scores["connected"] > 0.7
    assert scores["connected"] > scores["split"]
