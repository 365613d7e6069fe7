"""Penalties against slow formulas, and their gradients against finite differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.agreement import (
    BINARY,
    DANN,
    IRM,
    MLP,
    MULTICLASS,
    AdversarialShape,
    Fishr,
    LabelledEnvironments,
    Problem,
    VREx,
    head_variances,
    reverse_gradient,
    scale_gradients,
    split_running,
)

ENVS, EXAMPLES = 3, 6
INPUTS = jr.normal(jr.key(0), (ENVS, EXAMPLES, 2))
LABELS = jr.randint(jr.key(1), (ENVS, EXAMPLES), 0, 2)
BATCHES = LabelledEnvironments(INPUTS, LABELS)
MODEL = MLP((2, 5, 1), key=jr.key(2))
PROBLEM = Problem(BINARY)


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """This module compiles much and computes little."""


def gradient(method, model=MODEL, state=None, step=5, batches=BATCHES, problem=PROBLEM):
    state = method.init(model, ENVS) if state is None else state
    return _gradient(method, problem, model, batches, state, jnp.int32(step))


@eqx.filter_jit
def _gradient(method, problem, model, batches, state, step):
    return method.gradient(problem, model, batches, state, step=step, key=jr.key(3))


@eqx.filter_jit
def env_losses(model, scale=1.0):
    """The mean loss of each environment, one after the other."""
    losses = []
    for env in range(ENVS):
        logits = scale * jax.vmap(model)(INPUTS[env])
        losses.append(jnp.mean(jax.vmap(BINARY.loss)(logits, LABELS[env])))
    return jnp.stack(losses)


def assert_is_gradient_of(value, grads, model=MODEL, reach=1e-3):
    """Compares with slopes and differences of `value`, written out plainly, in 8 directions."""
    params, running = split_running(model)
    leaves, structure = jax.tree.flatten(params)

    @jax.jit
    def along(key):
        keys = jr.split(key, len(leaves))
        steps = [jr.normal(k, leaf.shape) for k, leaf in zip(keys, leaves, strict=True)]

        def at(distance):
            moved = [p + distance * d for p, d in zip(leaves, steps, strict=True)]
            return value(eqx.combine(jax.tree.unflatten(structure, moved), running))

        values = jax.vmap(at)(jnp.array([reach, -reach]))
        exact = jax.grad(at)(0.0)
        ours = sum(jnp.sum(g * d) for g, d in zip(jax.tree.leaves(grads), steps, strict=True))
        return ours, exact, (values[0] - values[1]) / (2 * reach)

    ours, exact, difference = jax.vmap(along)(jr.split(jr.key(10), 8))
    np.testing.assert_allclose(ours, exact, rtol=1e-3, atol=1e-4)
    # Between two points a unit may change sides: then a difference is no slope.
    off = np.abs(ours - difference) > 5e-3 + 0.02 * np.abs(difference)
    assert off.sum() <= 2


def test_irm_is_the_mean_loss_and_the_squared_slope_of_a_dummy_scale():
    def slopes(model):
        near = 1e-2  # central differences in the scale
        return (env_losses(model, 1 + near) - env_losses(model, 1 - near)) / (2 * near)

    found = gradient(IRM(20.0, 0))
    logits = jax.vmap(jax.vmap(MODEL))(INPUTS)
    np.testing.assert_allclose(
        scale_gradients(BINARY, logits, LABELS), slopes(MODEL), rtol=1e-2, atol=1e-4
    )
    np.testing.assert_allclose(found.metrics["penalty"], jnp.mean(slopes(MODEL) ** 2), rtol=2e-2)
    np.testing.assert_allclose(found.losses, env_losses(MODEL), rtol=1e-5)

    def value(model):
        seen = jax.vmap(jax.vmap(model))(INPUTS)
        penalty = jnp.mean(scale_gradients(BINARY, seen, LABELS) ** 2)
        return (jnp.mean(env_losses(model)) + 20.0 * penalty) / 20.0

    assert_is_gradient_of(value, found.grads)


def test_irm_has_weight_one_until_annealing_ends_and_divides_by_no_weight_below_one():
    early, plain = gradient(IRM(20.0, 6), step=5), gradient(IRM(1.0, 0))
    assert eqx.tree_equal(early.grads, plain.grads)
    late = gradient(IRM(20.0, 6), step=6)
    assert not np.allclose(late.grads.weights[0], plain.grads.weights[0])
    weak, none = gradient(IRM(0.5, 0)), gradient(IRM(0.0, 0))
    slope = jax.tree.map(lambda a, b: (a - b) / 0.5, weak.grads, none.grads)
    whole = jax.tree.map(lambda a, b: a - b, plain.grads, none.grads)
    np.testing.assert_allclose(slope.weights[0], whole.weights[0], rtol=1e-3, atol=1e-6)


def test_vrex_adds_the_variance_of_the_losses():
    found = gradient(VREx(7.0, 0))
    losses = np.asarray(env_losses(MODEL))
    np.testing.assert_allclose(found.metrics["penalty"], losses.var(), rtol=1e-4)

    def value(model):
        losses = env_losses(model)
        return jnp.mean(losses) + 7.0 * jnp.mean((losses - jnp.mean(losses)) ** 2)

    assert_is_gradient_of(value, found.grads)
    assert eqx.tree_equal(gradient(VREx(7.0, 9), step=8).grads, gradient(VREx(1.0, 0)).grads)


@eqx.filter_jit
def slow_variances(model, objective=BINARY, labels=LABELS):
    """The variance over examples of each example's own gradient in the last layer."""

    def loss(head, x, label):
        weight, bias = head
        changed = eqx.tree_at(lambda m: (m.weights[-1], m.biases[-1]), model, (weight, bias))
        return objective.loss(changed(x), label)

    head = (model.weights[-1], model.biases[-1])
    rows = []
    for env in range(ENVS):
        each = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(head, INPUTS[env], labels[env])
        flat = jnp.concatenate([each[0], each[1][:, None]], axis=1).reshape(EXAMPLES, -1)
        rows.append(jnp.mean((flat - jnp.mean(flat, axis=0, keepdims=True)) ** 2, axis=0))
    return jnp.stack(rows)


def test_fishr_matches_the_variances_of_the_examples_own_gradients():
    seen = PROBLEM.look(MODEL, BATCHES, jr.key(0))
    expected = slow_variances(MODEL)
    np.testing.assert_allclose(head_variances(BINARY, seen), expected, rtol=1e-3, atol=1e-6)

    found = gradient(Fishr(30.0, 0, 0.0))
    spread = expected - expected.mean(axis=0, keepdims=True)
    penalty = float(jnp.mean(jnp.sum(spread**2, axis=1)))
    np.testing.assert_allclose(found.metrics["penalty"], penalty, rtol=1e-3)

    def value(model):
        variances = slow_variances(model)
        spread = variances - jnp.mean(variances, axis=0, keepdims=True)
        return jnp.mean(env_losses(model)) + 30.0 * jnp.mean(jnp.sum(spread**2, axis=1))

    assert_is_gradient_of(value, found.grads)


def test_fishr_knows_heads_of_several_outputs():
    model = MLP((2, 5, 3), key=jr.key(4))
    labels = jr.randint(jr.key(5), (ENVS, EXAMPLES), 0, 3)
    batches = LabelledEnvironments(INPUTS, labels)
    seen = Problem(MULTICLASS).look(model, batches, jr.key(0))
    ours = head_variances(MULTICLASS, seen)
    expected = slow_variances(model, MULTICLASS, labels)
    np.testing.assert_allclose(ours, expected, rtol=1e-3, atol=1e-6)
    assert Fishr().init(model, ENVS).shape == ours.shape


def test_fishr_averages_over_steps_and_waits():
    method = Fishr(30.0, 0, 0.9)
    start = method.init(MODEL, ENVS)
    first = gradient(method, state=start)
    variances = np.asarray(slow_variances(MODEL))
    np.testing.assert_allclose(first.state, 0.1 * variances, rtol=1e-3, atol=1e-7)
    second = gradient(method, state=first.state)
    np.testing.assert_allclose(second.state, 0.19 * variances, rtol=1e-3, atol=1e-7)
    spread = 1.9 * (variances - variances.mean(axis=0))  # 0.19 / (1 - 0.9)
    np.testing.assert_allclose(second.metrics["penalty"], (spread**2).sum(axis=1).mean(), rtol=1e-3)
    waiting = gradient(Fishr(30.0, 6, 0.9), step=5)
    without = gradient(VREx(0.0, 0))
    np.testing.assert_allclose(
        waiting.grads.weights[0], without.grads.weights[0], rtol=1e-5, atol=1e-7
    )


def test_dann_lowers_both_losses_and_reverses_one_on_the_way_back():
    model = AdversarialShape(2, 5, 1, ENVS)(jr.key(6))
    found = gradient(DANN(0.3), model=model)
    domains = jnp.repeat(jnp.arange(ENVS), EXAMPLES)
    flat = INPUTS.reshape(-1, 2)

    def losses(embedding, classifier, discriminator):
        embedded = jax.nn.leaky_relu(jax.vmap(embedding)(flat), 0.01)
        logits = jax.vmap(classifier)(embedded)
        task = jnp.mean(jax.vmap(BINARY.loss)(logits, LABELS.reshape(-1)))
        guesses = jax.nn.log_softmax(jax.vmap(discriminator)(embedded))
        domain = -jnp.mean(guesses[jnp.arange(len(domains)), domains])
        return task, domain

    parts = (model.embedding, model.classifier, model.discriminator)
    task = jax.grad(lambda *parts: losses(*parts)[0], argnums=(0, 1, 2))(*parts)
    domain = jax.grad(lambda *parts: losses(*parts)[1], argnums=(0, 1, 2))(*parts)
    expected = (
        jax.tree.map(lambda a, b: a - 0.3 * b, task[0], domain[0]),
        task[1],
        domain[2],
    )
    ours = (found.grads.embedding, found.grads.classifier, found.grads.discriminator)
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(found.metrics["domain_loss"], losses(*parts)[1], rtol=1e-5)
    np.testing.assert_allclose(found.losses.mean(), losses(*parts)[0], rtol=1e-5)


def test_a_reversed_gradient_leaves_the_value():
    value, slope = jax.value_and_grad(lambda x: jnp.sum(reverse_gradient(x, 2.0) ** 2))(
        jnp.array([1.0, -3.0])
    )
    assert float(value) == pytest.approx(10.0)
    np.testing.assert_allclose(slope, [-4.0, 12.0])


@pytest.mark.slow
@pytest.mark.parametrize("method", [IRM(5.0, 0), VREx(5.0, 0), Fishr(5.0, 0)])
def test_penalties_see_batch_norm_over_all_environments(method):
    model = MLP((2, 5, 1), key=jr.key(7), batch_norm=True)
    found = gradient(method, model=model)
    assert found.running.norms[0].running.mean is not None
    params, _ = split_running(model)
    assert jax.tree.structure(found.grads) == jax.tree.structure(params)

    def value(model):
        seen = PROBLEM.look(model, BATCHES, jr.key(0))
        if isinstance(method, IRM):
            penalty = jnp.mean(scale_gradients(BINARY, seen.logits, LABELS) ** 2)
            return (jnp.mean(seen.losses) + 5.0 * penalty) / 5.0
        if isinstance(method, VREx):
            return jnp.mean(seen.losses) + 5.0 * jnp.var(seen.losses)
        variances = head_variances(BINARY, seen)
        spread = variances - jnp.mean(variances, axis=0, keepdims=True)
        penalty = jnp.mean(jnp.sum(spread**2, axis=1))
        return jnp.mean(seen.losses) + 5.0 * penalty

    if not isinstance(method, Fishr):  # its average over steps is tested above
        assert_is_gradient_of(value, found.grads, model=model)
