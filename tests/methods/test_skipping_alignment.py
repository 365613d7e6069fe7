import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.skipping import (
    Batch,
    Skips,
    SquaredError,
    aligned_loss,
    alignment_costs,
    best_alignment,
    flip_coins,
    free_run,
    skip_loss,
    soft_alignment_cost,
)


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """This module compiles much and computes little."""


def all_paths(steps, length, horizon):
    """Lists every way to the last frame, as the frames that are matched."""
    paths = []
    for count in range(1, steps + 1):
        for skips in itertools.product(range(1, horizon + 1), repeat=count):
            if sum(skips) == length - 1:
                paths.append(np.cumsum(skips).tolist())
    return paths


def mean_cost(costs, path, step_cost):
    return np.mean([costs[u, t] for u, t in enumerate(path)]) + step_cost * len(path)


@pytest.mark.parametrize("step_cost", [0.0, 0.2])
def test_no_path_is_better_than_the_best(step_cost):
    steps, time, horizon = 6, 7, 3
    many = jr.uniform(jr.key(0), (20, steps, time))
    lengths = jnp.asarray([7, 6, 5, 2] * 5)
    align = jax.jit(
        jax.vmap(lambda c, n: best_alignment(c, n, Skips(1, horizon), step_cost=step_cost))
    )
    found = align(many, lengths)
    for item in range(20):
        costs, length = np.asarray(many[item]), int(lengths[item])
        paths = all_paths(steps, length, horizon)
        least = min(mean_cost(costs, path, step_cost) for path in paths)
        assert float(found.cost[item]) == pytest.approx(least, abs=1e-5)
        count = int(found.num_predictions[item])
        own = found.matched[item, :count].tolist()
        assert own in paths
        assert mean_cost(costs, own, step_cost) == pytest.approx(least, abs=1e-5)
        assert found.matched[item, count:].tolist() == [-1] * (steps - count)


def test_fewer_predictions_when_each_costs_more():
    costs = jr.uniform(jr.key(1), (8, 9))
    align = jax.jit(lambda c: best_alignment(costs, jnp.int32(9), Skips(1, 4), step_cost=c))
    counts = [int(align(c).num_predictions) for c in (0.0, 0.3, 5.0)]
    assert counts[0] >= counts[1] >= counts[2] == 2


def test_a_single_frame_needs_no_path():
    found = best_alignment(jnp.ones((3, 4)), jnp.int32(1), Skips(1, 2))
    assert found.matched.tolist() == [-1, -1, -1]
    assert float(found.cost) == 0.0
    assert float(soft_alignment_cost(jnp.ones((3, 4)), jnp.int32(1), Skips(1, 2), 0.1)) == 0.0


def test_the_soft_cost_becomes_the_hard_one():
    costs, length, skips = jr.uniform(jr.key(2), (6, 7)), jnp.int32(6), Skips(1, 3)
    hard = float(best_alignment(costs, length, skips).cost)
    at = jax.jit(lambda t: soft_alignment_cost(costs, length, skips, t))
    soft = [float(at(t)) for t in (0.3, 0.03, 1e-4)]
    assert soft[0] < soft[1] < hard
    assert soft[2] == pytest.approx(hard, abs=1e-3)


def test_the_soft_cost_equals_the_sum_over_all_paths():
    """With one number of predictions possible, it is a soft minimum of sums, divided by it."""
    costs, temperature = jr.uniform(jr.key(3), (3, 4)), 0.2
    only = jnp.full((3, 4), 1e6).at[:2].set(costs[:2])  # a third prediction is out of the question
    value = float(soft_alignment_cost(only, jnp.int32(4), Skips(1, 2), temperature))
    sums = np.asarray([costs[0, 1] + costs[1, 3], costs[0, 2] + costs[1, 3]])
    expected = -temperature * np.log(np.exp(-sums / temperature).sum()) / 2
    assert value == pytest.approx(expected, abs=1e-5)


def test_the_soft_gradient_is_finite_and_right():
    costs, length, skips = jr.uniform(jr.key(4), (6, 7)), jnp.int32(6), Skips(1, 3)
    value = jax.jit(lambda c: soft_alignment_cost(c, length, skips, 0.1))
    grad = jax.grad(value)(costs)
    assert np.isfinite(grad).all()
    assert np.asarray(grad[:, 6]).tolist() == [0.0] * 6  # beyond the trajectory
    direction = jr.normal(jr.key(5), costs.shape)
    slope = (value(costs + 1e-2 * direction) - value(costs - 1e-2 * direction)) / 2e-2
    assert float(jnp.vdot(grad, direction)) == pytest.approx(float(slope), rel=2e-2)


def test_alignment_needs_a_way():
    with pytest.raises(ValueError, match="cannot reach the end"):
        best_alignment(jnp.ones((2, 9)), jnp.int32(9), Skips(1, 3))
    with pytest.raises(ValueError, match="`shortest` must be 1"):
        best_alignment(jnp.ones((8, 9)), jnp.int32(9), Skips(2, 3))


FRAMES = jnp.array([0.0, 1, 2, 3, 4, 5, 6, 9])[None, :, None]
BATCH = Batch(FRAMES, jnp.array([8]))
COINS = flip_coins(jr.key(0), 7, 1)


def add(a):
    return lambda x: x + a


@jax.jit
def greedy_loss(a):
    return skip_loss(add(a), BATCH, COINS, skips=Skips(1, 3), frame_loss=SquaredError())[0]


@jax.jit
def hard_loss(a, truth=0.0):
    settings = {"skips": Skips(1, 3), "frame_loss": SquaredError()}
    return aligned_loss(add(a), BATCH, COINS, truth=truth, **settings)


@jax.jit
def soft_loss(a):
    settings = {"skips": Skips(1, 3), "frame_loss": SquaredError()}
    return aligned_loss(add(a), BATCH, COINS, temperature=1e-3, **settings)


def test_a_free_run_costs_what_its_predictions_do():
    predictions = free_run(add(3.0), FRAMES[:, 0], 7)
    costs = alignment_costs(predictions, BATCH, SquaredError())
    expected = (3.0 * np.arange(1, 8)[:, None] - np.asarray(FRAMES[0, :, 0])[None]) ** 2
    np.testing.assert_allclose(costs[0], expected, rtol=1e-5)


def test_the_global_loss_is_at_most_the_greedy_one():
    """A greedy free run is one of the paths that global alignment chooses from."""
    loss, rollout = hard_loss(2.6)
    assert float(loss) <= float(greedy_loss(2.6)) + 1e-6
    costs = (2.6 * np.arange(1, 8)[:, None] - np.asarray(FRAMES[0, :, 0])[None]) ** 2
    paths = all_paths(7, 8, 3)
    least = min(paths, key=lambda path: mean_cost(costs, path, 0.0))
    assert float(loss) == pytest.approx(mean_cost(costs, least, 0.0), rel=1e-4)
    assert rollout.matched[: len(least), 0].tolist() == least


def test_a_global_match_can_be_fed_the_truth():
    loss, rollout = hard_loss(3.0, truth=1.0)
    assert rollout.matched[:3, 0].tolist() == [3, 6, 7]
    assert float(loss) == 0.0


def test_the_soft_loss_trains_through_the_free_run():
    (value, rollout), grad = jax.value_and_grad(soft_loss, has_aux=True)(2.6)
    assert float(value) == pytest.approx(float(hard_loss(2.6)[0]), abs=5e-3)
    slope = (soft_loss(2.61)[0] - soft_loss(2.59)[0]) / 0.02
    assert float(grad) == pytest.approx(float(slope), rel=0.05)
    assert int(rollout.num_predictions[0]) == 3
