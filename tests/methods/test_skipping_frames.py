import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.skipping import (
    BinaryCrossEntropy,
    Schedule,
    SquaredError,
    as_floats,
    exploration_rate,
    stairs,
    truth_rate,
)


def test_a_frame_against_itself_costs_its_entropy():
    frame = jr.uniform(jr.key(0), (4, 5, 3))
    entropy = -frame * jnp.log(frame) - (1 - frame) * jnp.log(1 - frame)
    assert float(BinaryCrossEntropy()(frame, frame)) == pytest.approx(
        float(entropy.mean()), abs=1e-4
    )


def test_a_full_mismatch_costs_what_the_smallest_probability_does():
    assert float(BinaryCrossEntropy()(jnp.zeros(3), jnp.ones(3))) == pytest.approx(13.8, abs=0.05)
    assert float(BinaryCrossEntropy()(jnp.ones(3), jnp.zeros(3))) == pytest.approx(13.8, abs=0.1)


@pytest.mark.parametrize("loss", [BinaryCrossEntropy(), SquaredError()])
def test_many_frames_cost_what_each_costs(loss):
    prediction = jr.uniform(jr.key(0), (4, 5, 3))
    frames = jr.uniform(jr.key(1), (6, 4, 5, 3))
    each = jax.jit(jax.vmap(loss, in_axes=(None, 0)))(prediction, frames)
    np.testing.assert_allclose(jax.jit(loss.against)(prediction, frames), each, rtol=1e-5)


def test_losses_are_float32_whatever_is_predicted():
    prediction = jnp.full((2, 3), 0.3, jnp.bfloat16)
    frames = jnp.full((4, 2, 3), 0.5)
    for loss in (BinaryCrossEntropy(), SquaredError()):
        assert loss(prediction, frames[0]).dtype == jnp.float32
        assert loss.against(prediction, frames).dtype == jnp.float32


def test_only_bytes_are_scaled():
    assert as_floats(jnp.array([255], jnp.uint8)).tolist() == [1.0]
    assert as_floats(jnp.array([255.0])).tolist() == [255.0]


def test_exploration_falls_to_zero_and_can_be_off():
    rates = [float(exploration_rate(i, 15_000)) for i in (0, 7_500, 15_000, 40_000)]
    assert rates == [1.0, 0.5, 0.0, 0.0]
    assert float(exploration_rate(0, 0)) == 0.0


def test_truth_is_fed_less_and_less_but_never_never():
    rates = [float(truth_rate(i, 20_000)) for i in (0, 4_000, 20_000, 37_500)]
    np.testing.assert_allclose(rates, [1.0, 0.5, 1 / 6, 0.0964], atol=1e-4)


def test_the_learning_rate_takes_the_stairs():
    rates = [float(stairs(i, 5e-4, 15_000)) for i in (0, 14_999, 15_000, 29_999, 30_000)]
    np.testing.assert_allclose(rates, [5e-4, 5e-4, 1e-4, 1e-4, 2e-5], rtol=1e-5)


def test_a_schedule_holds_the_three():
    schedule = Schedule(exploration_steps=10.0, sampling_steps=20.0, decay_every=4.0)
    step = jnp.int32(5)
    assert float(schedule.exploration(step)) == pytest.approx(0.5)
    assert float(schedule.truth(step)) == pytest.approx(1 / 2.25)
    assert float(schedule.rate(step)) == pytest.approx(1e-4)


def test_the_learning_rate_may_rise_along_a_line_first():
    schedule = Schedule(learning_rate=1e-2, decay_every=6.0, warm_up_steps=4.0)
    rates = [float(schedule.rate(jnp.int32(step))) for step in range(7)]
    np.testing.assert_allclose(rates, [2.5e-3, 5e-3, 7.5e-3, 1e-2, 1e-2, 1e-2, 2e-3], rtol=1e-5)
