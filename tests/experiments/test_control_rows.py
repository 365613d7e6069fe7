"""Oracles, controls and taught encoders: what they are told, and what they can know."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.experiments import find_row
from recombine.experiments.hypernetworks._hyperteacher_learner import make_hyperteacher_learner
from recombine.experiments.hypernetworks._nearest_task import KnownTasks
from recombine.experiments.hypernetworks._told_tasks import ToldStudent, ToldTasks

CONTROLS = "modular/hyperteacher/controls"


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are many here, and small."""


def made(name, variant="tiny"):
    row = find_row(name)
    chosen = row.variant(variant)
    return row.make_learner(chosen.config, chosen.steps), chosen.config


def test_full_rows_differ_from_the_published_ones_only_in_what_they_are_about():
    taught, _ = made("modular/hyperteacher/distilled/taught", "full")
    alone, _ = made("modular/hyperteacher/distilled/by-itself", "full")
    assert taught.meta.distillation is not None
    assert alone.meta.distillation is None
    assert eqx.tree_equal(dataclasses.replace(taught.meta, distillation=None), alone.meta)
    assert (
        alone.meta.architecture
        == made("modular/hyperteacher/amortised/deep-set", "full")[0].meta.architecture
    )
    anil, _ = made("modular/hyperteacher/compositional/anil", "full")
    for name in ("told-mlp", "ridge-head"):
        control, _ = made(f"{CONTROLS}/{name}", "full")
        sizes = (control.meta.architecture.width, control.meta.architecture.num_hidden)
        assert sizes == (anil.meta.architecture.width, anil.meta.architecture.num_hidden)
        assert control.meta.inner.num_steps == 0
        assert jax.tree.leaves(control.meta.outer) == jax.tree.leaves(anil.meta.outer)


NAMES = ("told-student", "told-mlp", "ridge-head", "in-context", "nearest-task", "pooled")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "in-context" else name
        for name in NAMES
    ],
)
def test_every_control_is_trained_and_measured_like_the_others(name):
    learner, _ = made(f"{CONTROLS}/{name}")

    def run(key):  # traced only
        state = learner.init(key)
        new, metrics = learner.step(state, key)
        return state, new, metrics, learner.final(new, key), learner.inspect(new, key)

    before, after, metrics, final, found = eqx.filter_eval_shape(run, jr.key(0))
    assert jax.tree.structure(before) == jax.tree.structure(after)
    assert "loss" in metrics
    assert {"ood_accuracy", "test_accuracy", "ood_loss", "gap", "support_rank"} <= set(final)
    assert "decoded_mean" not in final
    assert "trained_together" in found


def test_oracles_see_the_same_tasks_and_the_latent_beside_every_input():
    learner, config = made(f"{CONTROLS}/told-student")
    source = learner.meta.source
    assert isinstance(source, ToldTasks)
    assert learner.source is source.source

    @jax.jit
    def draw():
        world = source.begin(jr.key(0))
        return tuple(s.sample(world, jr.key(1), 3) for s in (source, source.source))

    told, plain = draw()
    for part in ("support", "query"):
        inputs, others = getattr(told, part).inputs, getattr(plain, part).inputs
        np.testing.assert_array_equal(inputs[..., : config.num_inputs], others)
        beside = inputs[..., config.num_inputs :]
        latents = plain.latent.reshape(3, 1, -1)
        np.testing.assert_array_equal(beside, np.broadcast_to(latents, beside.shape))


def test_a_told_student_with_the_teachers_weights_is_the_teacher():
    row = find_row(f"{CONTROLS}/told-student")
    same = dataclasses.replace(row.tiny.config, width=16, teacher_width=16)
    learner = row.make_learner(same, 2)

    @jax.jit
    def run():
        state = learner.init(jr.key(0))
        assert isinstance(state.model, ToldStudent)
        twin = eqx.tree_at(
            lambda m: (m.network, m.reference.value),
            state.model,
            (state.world.teacher, state.world.reference),
        )
        return [learner.evaluate(state._replace(model=m), jr.key(1)) for m in (state.model, twin)]

    random, twin = run()
    assert float(twin["ood_accuracy"]) == 1.0
    assert abs(float(twin["ood_loss"])) < 1e-4
    assert float(random["ood_loss"]) > 0.1


@pytest.mark.slow
def test_the_nearest_task_is_the_task_itself_where_it_was_trained():
    learner, config = made(f"{CONTROLS}/nearest-task")

    @jax.jit
    def run():
        state = learner.init(jr.key(0))
        stepped, metrics = learner.step(state, jr.key(1))
        return state, stepped, metrics, learner.evaluate(state, jr.key(2))

    state, stepped, metrics, measured = run()
    assert isinstance(state.model, KnownTasks)
    assert eqx.tree_equal(stepped.model, state.model)
    assert jnp.isfinite(metrics["loss"])
    assert float(measured["test_accuracy"]) == 1.0
    assert abs(float(measured["test_loss"])) < 1e-4
    assert float(measured["ood_accuracy"]) < 1.0
    # Its teacher is that of the rows it stands beside.
    beside = make_hyperteacher_learner(config, 1)
    world = jax.jit(lambda: beside.init(jr.key(0)).world)()
    assert eqx.tree_equal(world, state.world)


def test_connected_rows_have_all_four_learners():
    for support in ("connected", "disconnected"):
        for learner in ("linear-hnet", "deep-hnet", "anil", "maml"):
            row = find_row(f"modular/hyperteacher/connected/{support}/{learner}")
            assert row.full.config.support == support
            assert row.quick is not None
