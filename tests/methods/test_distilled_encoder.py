"""An encoder that is taught by descent: what is compared, and what the lesson changes."""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.hypernetworks import (
    AmortisedConfig,
    Distillation,
    EncoderConfig,
    HyperNetworkConfig,
    InnerLoop,
    MetaLearner,
    OuterLoop,
    SquaredError,
    TaskEmbedding,
    embedding_distance,
    give_lesson,
)


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are small here."""


class Examples(NamedTuple):
    inputs: jax.Array
    targets: jax.Array
    weights: jax.Array | None = None


class Task(NamedTuple):
    support: Examples
    query: Examples
    latent: jax.Array


class Slopes(eqx.Module):
    """Lines through the origin; a task is a slope."""

    sets = ("all",)

    def begin(self, key):
        del key

    def sample(self, world, key, num_tasks):
        return self.sample_set(world, "all", key, num_tasks)

    def sample_set(self, world, name, key, num_tasks):
        slopes = jr.uniform(key, (num_tasks, 1), minval=-1.0)

        def rows(key):
            inputs = jr.normal(key, (num_tasks, 4, 1))
            return Examples(inputs, slopes[:, None] * inputs)

        support, query = map(rows, jr.split(key))
        return Task(support, query, slopes)


NETWORK = HyperNetworkConfig(
    num_inputs=1, num_outputs=1, num_templates=3, width=4, num_hidden=1, adapts_bias=False
)
ENCODED = AmortisedConfig(NETWORK, EncoderConfig(width=4, num_layers=1))
DESCENT = InnerLoop(learning_rate=0.5, num_steps=2)


def learner_of(**changes):
    settings = {"num_tasks": 2, "num_measured": 2, "inner": InnerLoop(num_steps=0), **changes}
    return MetaLearner(Slopes(), ENCODED, SquaredError(), **settings)


def test_only_the_direction_of_a_row_counts():
    one = TaskEmbedding(jnp.ones((1, 2)), jnp.array([[1.0, 0.0]]), jnp.ones((1, 2)), None)
    assert float(embedding_distance(one, one)) == pytest.approx(0, abs=1e-6)
    longer = jax.tree.map(lambda rows: 3 * rows, one)
    assert float(embedding_distance(one, longer)) == pytest.approx(0, abs=1e-6)
    turned = one._replace(hidden=jnp.array([[0.0, 1.0]]))
    assert float(embedding_distance(one, turned)) == pytest.approx(1 / 3, abs=1e-6)
    away = jax.tree.map(lambda rows: -rows, one)
    assert float(embedding_distance(one, away)) == pytest.approx(2, abs=1e-6)
    nothing = jax.tree.map(jnp.zeros_like, one)
    slopes = jax.grad(lambda e: embedding_distance(e, one))(nothing)
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))


def test_a_lesson_is_what_descent_does_without_the_encoder():
    plain = dataclasses.replace(learner_of(), architecture=NETWORK, inner=DESCENT)

    @jax.jit
    def run():
        model = ENCODED.make(key=jr.key(0))
        task = jax.tree.map(lambda leaf: leaf[0], Slopes().sample(None, jr.key(1), 1))

        def distance(model):
            lesson = give_lesson(
                Distillation(descent=DESCENT), model, SquaredError(), task, key=jr.key(2)
            )
            return lesson.distance, lesson

        grads, lesson = jax.grad(distance, has_aux=True)(model)
        found = plain.adapt(model.hypernetwork, task.support, jr.key(2)).params
        outputs = model.hypernetwork.predict(found, task.query.inputs)
        loss = SquaredError().loss(outputs, task.query.targets, None)
        answer = model.start(task.support.inputs, task.support.targets, None, key=jr.key(2))
        return lesson, loss, embedding_distance(answer, found), grads

    lesson, loss, distance, grads = run()
    np.testing.assert_allclose(lesson.loss, loss, rtol=1e-5)
    np.testing.assert_allclose(lesson.distance, distance, rtol=1e-5)
    assert lesson.finite
    # The distance teaches the encoder, and nothing else.
    assert not any(jnp.any(leaf != 0) for leaf in jax.tree.leaves(grads.hypernetwork))
    assert any(jnp.any(leaf != 0) for leaf in jax.tree.leaves(grads.encoder))


@pytest.mark.slow
def test_the_encoder_comes_near_what_descent_finds():
    def taught(weight):
        return learner_of(
            distillation=Distillation(weight=weight, descent=DESCENT),
            outer=OuterLoop(learning_rate=1e-2),
            num_tasks=4,
        )

    @eqx.filter_jit
    def run(learner):  # one program for both: weights are numbers
        state = learner.init(jr.key(0))
        return jax.lax.scan(lambda s, k: learner.step(s, k), state, jr.split(jr.key(1), 200))

    (state, metrics), (_, others) = run(taught(10.0)), run(taught(0.0))
    assert int(state.step) == 200
    assert all(jnp.isfinite(values).all() for values in metrics.values())
    last, without = (found["distance"][-20:].mean() for found in (metrics, others))
    assert last < 0.75 * without


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="infers nothing: its `num_steps` must be at least 1"):
        Distillation(descent=InnerLoop(num_steps=0))
    with pytest.raises(TypeError, match="and a HyperNetworkConfig has none; leave it out"):
        MetaLearner(Slopes(), NETWORK, SquaredError(), distillation=Distillation())
