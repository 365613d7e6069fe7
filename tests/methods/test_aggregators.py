from fractions import Fraction
from itertools import pairwise

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from recombine.methods.agreement import (
    and_mask,
    arithmetic_mean,
    min_agreement,
    sign_agreement,
)


def apply(rule, grads):
    return rule.update(grads, rule.init(jax.tree.map(lambda g: g[0], grads)))[0]


def random_grads(seed=0, envs=8, size=200):
    return jr.normal(jr.key(seed), (envs, size))


def test_agreement_is_kept_and_dispute_is_zeroed():
    grads = jnp.array([[1.0, 1.0], [3.0, -3.0]])
    assert apply(and_mask(1.0), grads).tolist() == [2.0, 0.0]


def test_threshold_zero_is_the_plain_mean():
    grads = random_grads()
    np.testing.assert_array_equal(apply(and_mask(0.0), grads), jnp.mean(grads, axis=0))
    np.testing.assert_array_equal(apply(arithmetic_mean(), grads), jnp.mean(grads, axis=0))


def test_unanimity_keeps_exactly_the_unanimous():
    grads = random_grads(envs=3)
    unanimous = jnp.abs(jnp.sum(jnp.sign(grads), axis=0)) == 3
    kept = apply(and_mask(1.0), grads) != 0
    assert jnp.array_equal(kept, unanimous)
    assert 0 < int(kept.sum()) < kept.size


def test_a_higher_threshold_keeps_no_more():
    grads = random_grads(envs=16)
    kept = [apply(and_mask(tau), grads) != 0 for tau in (0.0, 0.25, 0.5, 0.75, 1.0)]
    for looser, stricter in pairwise(kept):
        assert not jnp.any(stricter & ~looser)


def test_ties_count_as_agreement_for_every_number_of_environments():
    for envs in range(1, 129):
        for twentieth in range(21):
            exact = Fraction(twentieth, 20) * envs
            smallest = next(lead for lead in range(envs + 1) if lead >= exact)
            assert min_agreement(twentieth / 20, envs) == smallest


@pytest.mark.parametrize(
    ("signs", "threshold", "kept"),
    [
        ([1, 1, 0, 0], 0.5, True),
        ([1, 1, 0, 0], 0.51, False),
        ([1, 1, 1, 0], 1.0, False),
        ([0, 0, 0, 0], 0.5, False),
        ([-1, -1, -1, 1], 0.5, True),
    ],
)
def test_zeros_abstain(signs, threshold, kept):
    grads = jnp.array(signs, jnp.float32)[:, None]
    lead = int(sign_agreement(grads)[0])
    assert lead == abs(sum(signs))
    assert (lead >= min_agreement(threshold, 4)) is kept
    assert bool(apply(and_mask(threshold), grads + 0.0)[0] != 0) is kept


def test_the_order_of_environments_does_not_matter():
    grads = random_grads()
    shuffled = grads[jr.permutation(jr.key(1), 8)]
    one, other = apply(and_mask(0.5), grads), apply(and_mask(0.5), shuffled)
    assert jnp.array_equal(one != 0, other != 0)
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_scaling_an_environment_does_not_move_the_mask_and_flipping_all_flips_the_result():
    grads = random_grads()
    scaled = grads * jnp.arange(1.0, 9.0)[:, None]
    assert jnp.array_equal(apply(and_mask(0.5), grads) != 0, apply(and_mask(0.5), scaled) != 0)
    np.testing.assert_array_equal(apply(and_mask(0.5), -grads), -apply(and_mask(0.5), grads))


def test_rescaling_makes_up_for_what_was_masked_in_each_tensor():
    grads = {
        "some": jnp.array([[1.0, 1.0, 1.0, 1.0], [1.0, -1.0, -1.0, -1.0]]),
        "all": jnp.array([[2.0], [4.0]]),
        "none": jnp.array([[1.0, 1.0], [-1.0, -1.0]]),
    }
    scaled = apply(and_mask(1.0, rescale="tensor"), grads)
    assert scaled["some"].tolist() == [4.0, 0.0, 0.0, 0.0]
    assert scaled["all"].tolist() == [3.0]
    assert scaled["none"].tolist() == [0.0, 0.0]
    together = apply(and_mask(1.0, rescale="global"), grads)
    assert together["some"][0] == pytest.approx(3.5)
    assert together["all"][0] == pytest.approx(10.5)


def test_a_gradient_that_is_not_finite_is_not_masked_away():
    for bad in (jnp.nan, jnp.inf, -jnp.inf):
        grads = jnp.array([[bad, 1.0], [-1.0, -1.0], [1.0, 1.0]])
        for rescale in (None, "tensor"):
            out = apply(and_mask(1.0, rescale=rescale), grads)
            assert not jnp.isfinite(out[0])
            assert out[1] == 0


def test_the_state_tells_what_was_kept():
    rule = and_mask(1.0)
    grads = {"w": jnp.array([[1.0, 1.0], [1.0, -1.0]])}
    _, state = rule.update(grads, rule.init({"w": jnp.zeros(2)}))
    assert float(state.kept["w"]) == 0.5


def test_it_composes_with_optax_under_jit():
    optimizer = optax.chain(and_mask(1.0, rescale="tensor"), optax.adam(0.1))
    params = {"w": jnp.ones(2), "nothing": None}
    grads = {"w": jnp.array([[1.0, 1.0], [3.0, -3.0]]), "nothing": None}
    updates, _ = jax.jit(optimizer.update)(grads, optimizer.init(params), params)
    np.testing.assert_allclose(updates["w"], [-0.1, 0.0], atol=1e-6)


def test_half_precision_is_averaged_in_single_and_comes_back_half():
    grads = jnp.full((256, 1), 1.001, jnp.bfloat16)
    out = apply(and_mask(1.0), grads)
    assert out.dtype == jnp.bfloat16
    assert out[0] == grads[0, 0]


def test_coupled_decay_erases_masked_weights_at_a_rate_that_does_not_depend_on_it():
    """The mechanism behind the synthetic result (Adam normalises the decay of masked weights)."""
    weights = jr.normal(jr.key(0), (256, 256)) * (2 / 256) ** 0.5
    disputed = jnp.stack([jnp.ones_like(weights), -jnp.ones_like(weights)])
    for decay in (1e-3, 1e-6):
        optimizer = optax.chain(and_mask(1.0), optax.add_decayed_weights(decay), optax.adam(1e-2))
        now, state = weights, optimizer.init(weights)
        shares = []
        update = jax.jit(optimizer.update)
        for step in range(1, 41):
            updates, state = update(disputed, state, now)
            now = optax.apply_updates(now, updates)
            if step in (10, 20, 40):
                shares.append(float(jnp.std(now) / jnp.std(weights)))
        np.testing.assert_allclose(shares, [0.37, 0.19, 0.08], atol=0.025)


@pytest.mark.parametrize("threshold", [-0.1, 1.1, float("nan")])
def test_a_threshold_outside_its_range_is_refused(threshold):
    with pytest.raises(ValueError, match=r"`threshold`.*in \[0, 1\]"):
        and_mask(threshold)


def test_an_unknown_rescaling_is_refused():
    with pytest.raises(ValueError, match="`rescale`"):
        and_mask(1.0, rescale="layer")


def test_gradients_without_an_environment_axis_are_refused():
    with pytest.raises(ValueError, match="leading axis of environments"):
        and_mask(1.0).update(jnp.float32(1.0), None)


def test_unequal_numbers_of_environments_are_refused():
    with pytest.raises(ValueError, match=r"\['a'\] has 2, \['b'\] has 3"):
        and_mask(1.0).update({"a": jnp.ones((2, 1)), "b": jnp.ones((3, 1))}, None)


def test_one_environment_is_a_warning():
    with pytest.warns(UserWarning, match="only one environment"):
        out = and_mask(1.0).update(jnp.array([[2.0, -1.0]]), None)[0]
    assert out.tolist() == [2.0, -1.0]


def test_equal_settings_give_one_rule():
    assert and_mask(0.8, rescale="tensor") is and_mask(0.8, rescale="tensor")
    assert and_mask(0.8) is not and_mask(0.9)
