import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from recombine.methods.agreement import (
    TemporalState,
    cycle_environments,
    temporal_and_mask,
    temporal_and_mask_adam,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

BEST_RUNS = [(0.79, 0.36), (0.86, 0.40), (0.84, 0.41), (0.72, 0.47), (0.65, 0.47)]
"""(b3, threshold) of the five best runs of the thesis."""


def updates_of(optimizer, gradients, weights=None):
    """All updates, with weights that they are applied to, and the last state."""
    weights = jnp.zeros_like(gradients[0]) if weights is None else weights

    def step(carry, grads):
        weights, state = carry
        updates, state = optimizer.update(grads, state, weights)
        return (optax.apply_updates(weights, updates), state), updates

    start = (weights, optimizer.init(weights))
    (_, state), updates = jax.jit(lambda: jax.lax.scan(step, start, gradients))()
    return updates, state


def test_five_steps_by_hand():
    """b1 = b3 = 1/2, b2 = 3/4 and no correction, so that every number can be checked on paper.

    g  =  2,   2,    -4,      2,       2
    m  =  1,   1.5,  -1.25,   0.375,   1.1875
    v  =  1,   1.75, 5.3125,  4.984375, 4.73828125
    a  =  1/2, 3/4,  -1/8,    7/16,    23/32      passes 0.5: yes, yes, no, no, yes
    """
    optimizer = temporal_and_mask_adam(
        0.1, 0.5, 0.75, b3=0.5, threshold=0.5, eps=0.0, bias_correction=False
    )
    updates, state = updates_of(optimizer, jnp.array([[2.0], [2.0], [-4.0], [2.0], [2.0]]))
    roots = np.sqrt([1.0, 1.75, 5.3125, 4.984375, 4.73828125])
    moments = np.array([1.0, 1.5, -1.25, 0.375, 1.1875])
    passes = np.array([1, 1, 0, 0, 1])
    np.testing.assert_allclose(updates[:, 0], -0.1 * passes * moments / roots, rtol=1e-6)
    assert float(optax.tree.get(state, "sign_ema")[0]) == 23 / 32
    assert float(optax.tree.get(state, "mu")[0]) == 1.1875


def test_five_steps_with_correction_by_hand():
    gradients = np.array([2.0, 2.0, -4.0, 2.0, 2.0])
    m = v = a = 0.0
    wanted = []
    for t, g in enumerate(gradients, start=1):
        m, v, a = 0.5 * m + 0.5 * g, 0.75 * v + 0.25 * g * g, 0.5 * a + 0.5 * np.sign(g)
        step = (m / (1 - 0.5**t)) / (np.sqrt(v / (1 - 0.75**t)) + 1e-8)
        wanted.append(-0.1 * step * (abs(a) >= 0.5))
    optimizer = temporal_and_mask_adam(0.1, 0.5, 0.75, b3=0.5, threshold=0.5)
    updates, _ = updates_of(optimizer, jnp.asarray(gradients, jnp.float32)[:, None])
    np.testing.assert_allclose(updates[:, 0], wanted, rtol=1e-5)


def test_threshold_zero_is_adam():
    gradients = jr.normal(jr.key(0), (20, 50))
    masked, _ = updates_of(temporal_and_mask_adam(0.1, b3=0.9, threshold=0.0), gradients)
    plain, _ = updates_of(optax.adam(0.1), gradients)
    np.testing.assert_allclose(masked, plain, atol=1e-6)


def test_the_mask_opens_after_as_many_steps_of_one_sign_as_the_thesis_best_runs_need():
    def updates(b3, threshold):
        optimizer = temporal_and_mask_adam(0.1, b3=b3, threshold=threshold)
        return updates_of(optimizer, -jnp.ones((6, 1)))[0]

    moved = np.asarray(jax.vmap(updates)(*jnp.array(BEST_RUNS).T))[..., 0] > 0
    assert (np.argmax(moved, axis=1) + 1).tolist() == [2, 4, 4, 2, 2]
    assert moved.sum(axis=1).tolist() == [5, 3, 3, 5, 5]  # and stays open


def test_signs_that_alternate_never_pass():
    gradients = jnp.tile(jnp.array([[1.0], [-1.0]]), (50, 1))
    updates, state = updates_of(temporal_and_mask_adam(0.1, b3=0.79, threshold=0.36), gradients)
    assert not jnp.any(updates)
    assert float(optax.tree.get(state, "kept")) == 0.0


def test_random_signs_pass_as_often_as_the_averages_spread_says():
    signs = jnp.sign(jr.normal(jr.key(0), (60, 4000)))
    rule = temporal_and_mask(optax.identity(), 0.79, 0.36)
    updates, state = updates_of(rule, signs)
    assert float(jnp.std(state.sign_ema)) == pytest.approx((0.21 / 1.79) ** 0.5, rel=0.05)
    assert float(jnp.mean(updates[-1] != 0)) == pytest.approx(0.31, abs=0.03)
    assert float(state.kept) == pytest.approx(float(jnp.mean(updates[-1] != 0)))


def test_moments_see_every_gradient():
    gradients = jr.normal(jr.key(0), (10, 30))
    _, masked = updates_of(temporal_and_mask(optax.scale_by_adam(), 0.9, 0.8), gradients)
    _, plain = updates_of(optax.scale_by_adam(), gradients)
    np.testing.assert_array_equal(masked.inner.mu, plain.mu)
    np.testing.assert_array_equal(masked.inner.nu, plain.nu)


@pytest.mark.parametrize("threshold", [0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.9])
def test_a_first_step_that_just_reaches_the_threshold_passes(threshold):
    for b3 in (1 - threshold, jnp.float32(1) - jnp.float32(threshold)):
        rule = temporal_and_mask(optax.identity(), b3, threshold)
        updates, _ = rule.update(jnp.ones(1), rule.init(jnp.zeros(1)))
        assert updates.tolist() == [1.0]


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf, -jnp.inf])
def test_what_is_not_finite_is_not_masked_away_and_leaves_the_signs_finite(bad):
    for inner in (optax.identity(), optax.scale_by_adam()):
        rule = temporal_and_mask(inner, 0.9, 0.8)
        updates, state = rule.update(jnp.array([bad, 1.0]), rule.init(jnp.zeros(2)))
        assert np.isfinite(updates).tolist() == [False, True]
        assert jnp.all(jnp.isfinite(state.sign_ema))


def test_decay_after_reaches_masked_weights():
    optimizer = temporal_and_mask_adam(0.1, b3=0.9, threshold=0.9, weight_decay=0.5)
    weights = jnp.array([2.0, -4.0])
    updates, _ = optimizer.update(jnp.ones(2), optimizer.init(weights), weights)
    np.testing.assert_allclose(updates, [-0.1, 0.2], rtol=1e-6)  # -lr * decay * weight, no step
    unmasked = temporal_and_mask_adam(0.1, b3=0.9, threshold=0.0, weight_decay=0.5)
    updates, _ = unmasked.update(jnp.ones(2), unmasked.init(weights), weights)
    np.testing.assert_allclose(updates, [-0.1 - 0.05 * 1.9, -0.1 + 0.05 * 4.1], rtol=1e-5)


def test_decay_before_is_masked_and_leaves_the_signs_to_the_data():
    weights = jnp.array([-100.0, -100.0])  # its decay outweighs the gradient
    optimizer = temporal_and_mask_adam(
        0.1, b3=0.5, threshold=0.5, weight_decay=0.5, decay_placement="before"
    )
    updates, state = optimizer.update(jnp.array([1.0, 0.0]), optimizer.init(weights), weights)
    np.testing.assert_allclose(updates, [0.1, 0.0], rtol=1e-5)
    assert optax.tree.get(state, "sign_ema").tolist() == [0.5, 0.0]


def test_schedules_are_taken():
    schedule = optax.piecewise_constant_schedule(0.1, {1: 0.1})
    optimizer = temporal_and_mask_adam(schedule, b3=0.5, threshold=0.0, weight_decay=1.0)
    weights = jnp.array([1.0])
    updates, _ = updates_of(optimizer, jnp.zeros((2, 1)), weights)
    np.testing.assert_allclose(updates[:, 0], [-0.1, -0.01 * 0.9], rtol=1e-5)


def test_it_needs_no_weights_when_nothing_decays():
    optimizer = temporal_and_mask_adam(0.1, b3=0.5, threshold=0.5)
    updates, _ = optimizer.update(jnp.ones(2), optimizer.init(jnp.zeros(2)))
    np.testing.assert_allclose(updates, [-0.1, -0.1], rtol=1e-5)


def test_settings_can_be_searched_in_one_program():
    gradients = jr.normal(jr.key(0), (8, 20)) + 0.5

    def last(b1, b3, threshold, decay):
        optimizer = temporal_and_mask_adam(0.1, b1, b3=b3, threshold=threshold, weight_decay=decay)
        return updates_of(optimizer, gradients, jnp.ones(20))[0][-1]

    settings = [jnp.array(numbers) for numbers in ([0.2, 0.7], [0.8, 0.6], [0.4, 0.5], [0.1, 0.2])]
    together = jax.vmap(last)(*settings)
    for number, alone in enumerate(zip(*settings, strict=True)):
        wanted = last(*(float(value) for value in alone))
        np.testing.assert_allclose(together[number], wanted, rtol=1e-4, atol=1e-6)


def test_half_precision_holes_and_empty_tensors():
    params = {"w": jnp.ones(3, jnp.bfloat16), "none": None, "empty": jnp.zeros((0, 2))}
    optimizer = temporal_and_mask_adam(0.1, b3=0.5, threshold=0.5, weight_decay=0.1)
    state = optimizer.init(params)
    updates, new = jax.jit(optimizer.update)(params, state, params)
    assert updates["w"].dtype == jnp.bfloat16
    assert updates["none"] is None
    same = jax.tree.map(lambda one, other: one.dtype == other.dtype, state, new)
    assert jax.tree.all(same)
    assert isinstance(new[0], TemporalState)
    assert float(new[0].kept["empty"]) == 1.0


def test_it_goes_into_optax_masked_with_extra_arguments():
    params = {"w": jnp.ones(2), "b": jnp.ones(2)}
    rule = temporal_and_mask(optax.identity(), 0.9, 0.8)
    optimizer = optax.chain(optax.masked(rule, {"w": True, "b": False}), optax.sgd(1.0))
    updates, _ = optimizer.update(params, optimizer.init(params), params, value=jnp.float32(1.0))
    assert updates["w"].tolist() == [0.0, 0.0]
    assert updates["b"].tolist() == [-1.0, -1.0]


@pytest.mark.parametrize(
    ("b3", "threshold", "name"), [(0.5, 1.5, "threshold"), (-0.1, 0.5, "b3"), (1.0, 0.5, "b3")]
)
def test_numbers_outside_their_range_are_refused(b3, threshold, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        temporal_and_mask(optax.identity(), b3, threshold)


def test_every_environment_is_visited_once_per_cycle_in_an_order_of_its_own():
    environment_of = cycle_environments(jr.key(0), 16)
    visits = jax.jit(jax.vmap(environment_of))(jnp.arange(64)).reshape(4, 16)
    assert jnp.array_equal(jnp.sort(visits, axis=1), jnp.tile(jnp.arange(16), (4, 1)))
    assert len({tuple(cycle.tolist()) for cycle in visits}) == 4
    again = cycle_environments(jr.key(0), 16)
    assert int(again(37)) == int(visits[2, 5])
    with pytest.raises(ValueError, match="`num_envs`"):
        cycle_environments(jr.key(0), 0)
