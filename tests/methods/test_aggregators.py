import functools
import math
from fractions import Fraction
from itertools import pairwise

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from recombine.methods.agreement import (
    AndMask,
    GradientStatistics,
    agreement_mask,
    and_mask,
    arithmetic_mean,
    attainable_levels,
    dispute_mask,
    domainbed_and_mask,
    geometric_mean,
    min_agreement,
    sand_mask,
    sign_agreement,
    stacked_statistics,
    xor_mask,
)

RULES = {
    "mean": arithmetic_mean(),
    "and": and_mask(1.0),
    "and-rescaled": and_mask(1.0, rescale="tensor"),
    "and-global": and_mask(1.0, rescale="global"),
    "and-number": AndMask(1.0, 1.0),
    "geometric": geometric_mean(),
    "geometric-strict": geometric_mean(strict=True),
    "geometric-loose": geometric_mean(0.5, rescale="tensor"),
    "xor": xor_mask(1.0),
    "sand": sand_mask(0.5),
}

pytestmark = pytest.mark.usefixtures("quick_compilation")


@jax.jit
def by_every_rule(grads):
    """What every rule makes of the gradients, in one program, which compiles faster than many."""
    start = jax.tree.map(lambda g: g[0], grads)
    return {name: rule.update(grads, rule.init(start))[0] for name, rule in RULES.items()}


@functools.partial(jax.jit, static_argnums=0)  # one program compiles faster than its operations
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


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf, -jnp.inf])
@pytest.mark.parametrize("others", [[1.0, -1.0], [1.0, 1.0], [0.0, 0.0], [-jnp.inf, 1.0]])
def test_what_is_not_finite_in_one_environment_is_hidden_by_no_rule(bad, others):
    """Whether the other environments agree, dispute or abstain."""
    clean = np.array([[1.0], [1.0], [1.0]])
    for place in range(3):
        column = np.array([*others[:place], bad, *others[place:]])[:, None]
        grads = jnp.asarray(np.concatenate([column, clean], axis=1), jnp.float32)
        for name, out in by_every_rule(grads).items():
            assert np.isfinite(out).tolist() == [False, True], name


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

    def shares(decay):
        coupled = optax.chain(and_mask(1.0), optax.add_decayed_weights(decay), optax.adam(1e-2))
        return shares_left(coupled, weights)

    for left in jax.vmap(shares)(jnp.array([1e-3, 1e-4, 1e-5, 1e-6])):
        np.testing.assert_allclose(left, [0.37, 0.19, 0.08], atol=0.025)


def test_decoupled_decay_erases_nothing():
    weights = jr.normal(jr.key(0), (64, 64)) * (2 / 256) ** 0.5
    decoupled = optax.chain(and_mask(1.0), optax.adamw(1e-2, weight_decay=1e-4))
    np.testing.assert_allclose(shares_left(decoupled, weights), [1, 1, 1], atol=1e-3)


def shares_left(optimizer, weights):
    """The size of weights whose gradient is disputed, after 10, 20 and 40 steps."""
    disputed = jnp.stack([jnp.ones_like(weights), -jnp.ones_like(weights)])

    def step(carry, _):
        now, state = carry
        updates, state = optimizer.update(disputed, state, now)
        now = optax.apply_updates(now, updates)
        return (now, state), jnp.sqrt(jnp.mean(now**2) / jnp.mean(weights**2))

    _, shares = jax.lax.scan(step, (weights, optimizer.init(weights)), length=40)
    return shares[jnp.array([9, 19, 39])]


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
    assert geometric_mean() is geometric_mean()
    assert xor_mask(0.5) is xor_mask(0.5)
    assert sand_mask(0.5) is sand_mask(0.5)


# The AND-mask with a threshold that is a number in an array.


def test_a_threshold_in_an_array_has_the_same_ties_as_whole_numbers():
    """Every published threshold and every number of environments, against exact fractions."""
    thresholds = [twentieth / 20 for twentieth in range(21)]
    arrays = jnp.asarray(thresholds, jnp.float32)
    kept = jax.jit(
        jax.vmap(
            lambda threshold, stats: agreement_mask(stats, threshold),
            in_axes=(0, None),
        )
    )
    disputed = jax.jit(
        jax.vmap(lambda strength, stats: dispute_mask(stats, strength), in_axes=(0, None))
    )
    for envs in range(1, 129):
        leads = jnp.arange(129)  # a fixed shape compiles once; leads above `envs` are skipped
        stats = GradientStatistics(jnp.int32(envs), total=leads * 1.0, signs=-leads)
        exact = np.array([min_agreement(tau, envs) for tau in thresholds])
        exact_xor = np.array([Fraction(20 - n, 20) * envs // 1 for n in range(21)])
        possible = np.arange(129) <= envs
        wanted = np.arange(129)[None] >= exact[:, None]
        assert np.array_equal(np.asarray(kept(arrays, stats))[:, possible], wanted[:, possible])
        wanted = np.arange(129)[None] <= exact_xor[:, None]
        assert np.array_equal(np.asarray(disputed(arrays, stats))[:, possible], wanted[:, possible])


def test_plain_numbers_have_exact_ties():
    """The rules themselves, with a static threshold and a static number of environments."""

    @functools.partial(jax.jit, static_argnums=0)
    def masks(envs, signs):
        stats = GradientStatistics(num_envs=envs, total=signs * 1.0, signs=signs)
        shares = [twentieth / 20 for twentieth in range(21)]
        both = [(agreement_mask(stats, share), dispute_mask(stats, share)) for share in shares]
        return jnp.stack([jnp.stack(pair) for pair in both])

    for envs in (41, 50):  # where a division in single precision fails
        leads = [*range(envs + 1)]
        kept = np.asarray(masks(envs, jnp.array(leads)))
        for twentieth in range(21):
            share = Fraction(twentieth, 20) * envs
            assert kept[twentieth, 0].tolist() == [lead >= share for lead in leads]
            assert kept[twentieth, 1].tolist() == [lead <= envs - share for lead in leads]


def test_the_rule_with_arrays_is_the_rule_with_numbers():
    grads = {"w": random_grads(envs=20), "b": random_grads(seed=1, envs=20, size=5)}
    settings = [(0.0, None), (0.2, None), (0.6, "tensor"), (1.0, "tensor")]
    rules = AndMask(jnp.array([0.0, 0.2, 0.6, 1.0]), jnp.array([0.0, 0.0, 1.0, 1.0]))
    together, state = jax.vmap(lambda rule: rule.update(grads, None))(rules)
    alone = jax.jit(
        lambda: [and_mask(tau, rescale=rescale).update(grads, None) for tau, rescale in settings]
    )()
    for number, (out, out_state) in enumerate(alone):
        for name in grads:
            np.testing.assert_allclose(together[name][number], out[name], 1e-6, 1e-7)
            assert state.kept[name][number] == out_state.kept[name]


def test_the_rule_with_arrays_goes_into_a_chain():
    optimizer = optax.chain(AndMask(1.0, 1.0), optax.adam(0.1))
    params, grads = jnp.ones(2), jnp.array([[1.0, 1.0], [3.0, -3.0]])
    updates, state = jax.jit(optimizer.update)(grads, optimizer.init(params), params)
    np.testing.assert_allclose(updates, [-0.1, 0.0], atol=1e-6)
    assert float(state[0].kept) == 0.5


@pytest.mark.parametrize("bad", [2.0, jnp.array([0.5, 1.5]), jnp.nan])
def test_arrays_outside_their_range_are_refused_where_they_are_known(bad):
    with pytest.raises(ValueError, match=r"`threshold`.*in \[0, 1\]"):
        AndMask(bad)
    with pytest.raises(ValueError, match="`rescale` is 1"):
        AndMask(0.5, bad)


def test_attainable_levels_are_the_thresholds_that_differ():
    assert attainable_levels(2) == (0.0, 1.0)
    assert attainable_levels(3) == (1 / 3, 1.0)
    for envs in range(1, 12):
        levels = attainable_levels(envs)
        leads = range(envs % 2, envs + 1, 2)  # without gradients that are zero
        kept = {
            threshold: tuple(lead >= min_agreement(threshold, envs) for lead in leads)
            for threshold in [*levels, *(n / 200 for n in range(201))]
        }
        assert len({kept[level] for level in levels}) == len(levels) == len(set(kept.values()))
    with pytest.raises(ValueError, match="`num_envs`"):
        attainable_levels(0)


# The XOR-mask.


def test_xor_keeps_what_is_disputed():
    grads = jnp.array([[1.0, 1.0, 1.0], [3.0, -3.0, 0.0]])
    assert apply(xor_mask(1.0), grads).tolist() == [0.0, -1.0, 0.0]
    assert apply(xor_mask(0.5), grads).tolist() == [0.0, -1.0, 0.5]


def test_xor_of_strength_zero_is_the_plain_mean():
    grads = random_grads()
    np.testing.assert_array_equal(apply(xor_mask(0.0), grads), jnp.mean(grads, axis=0))


@pytest.mark.parametrize("strength", [0.01, 0.5, 1.0])
def test_xor_of_two_environments_is_the_complement_of_unanimity(strength):
    stats = stacked_statistics(random_grads(envs=2))
    assert jnp.array_equal(dispute_mask(stats, strength), ~agreement_mask(stats, 1.0))


def test_a_stronger_xor_keeps_no_more_and_the_strongest_keeps_ties_alone():
    stats = stacked_statistics(random_grads(envs=16))
    kept = [dispute_mask(stats, strength) for strength in (0.0, 0.25, 0.5, 0.75, 1.0)]
    for looser, stricter in pairwise(kept):
        assert not jnp.any(stricter & ~looser)
    assert jnp.array_equal(kept[-1], stats.signs == 0)


def test_a_strength_outside_its_range_is_refused():
    with pytest.raises(ValueError, match=r"`strength`.*in \[0, 1\]"):
        xor_mask(1.5)


# The geometric mean.


@pytest.mark.parametrize("strict", [False, True])
def test_the_geometric_mean_is_the_root_of_the_product(strict):
    grads = jnp.exp(random_grads(envs=7))
    wanted = np.prod(np.asarray(grads, np.float64), axis=0) ** (1 / 7)
    rule = geometric_mean(strict=strict)
    np.testing.assert_allclose(apply(rule, grads), wanted, rtol=1e-5)
    np.testing.assert_allclose(apply(rule, -grads), -wanted, rtol=1e-5)


def test_the_geometric_mean_is_never_longer_than_the_mean():
    grads = random_grads(envs=3)
    geometric, arithmetic = apply(geometric_mean(), grads), apply(and_mask(1.0), grads)
    assert jnp.all(jnp.abs(geometric) <= jnp.abs(arithmetic) * (1 + 1e-6))
    assert jnp.array_equal(geometric != 0, arithmetic != 0)


def test_on_diagonal_quadratics_it_is_the_gradient_of_the_geometric_mean_landscape():
    curvatures = jnp.exp(jr.normal(jr.key(0), (5, 30)))
    away = jr.normal(jr.key(1), (30,))
    loss = lambda weights, curvature: 0.5 * jnp.sum(curvature * weights**2)  # noqa: E731
    grads = jax.vmap(jax.grad(loss), in_axes=(None, 0))(away, curvatures)
    wanted = np.exp(np.mean(np.log(curvatures), axis=0)) * away
    np.testing.assert_allclose(apply(geometric_mean(strict=True), grads), wanted, rtol=1e-5)


def test_a_zero_stops_the_strict_mean_and_weighs_little_in_the_other():
    grads = jnp.ones((16, 1)).at[0].set(0.0)
    assert apply(geometric_mean(strict=True), grads).tolist() == [0.0]
    assert apply(geometric_mean(0.5), grads)[0] == pytest.approx(1e-10 ** (1 / 16), rel=1e-4)
    assert apply(geometric_mean(0.5), grads)[0] == pytest.approx(0.24, abs=0.005)


def test_small_gradients_are_lifted_unless_strict():
    grads = jnp.full((2, 1), 1e-10)
    assert apply(geometric_mean(), grads)[0] == pytest.approx(2e-10, rel=1e-4)
    assert apply(geometric_mean(strict=True), grads)[0] == pytest.approx(1e-10, rel=1e-4)


def test_a_loose_geometric_mean_has_the_sign_of_the_mean_and_all_magnitudes():
    grads = jnp.array([[1.0], [1.0], [1.0], [-16.0]])
    out = apply(geometric_mean(0.5, rescale="tensor"), grads)
    assert out[0] == pytest.approx(-2.0, rel=1e-5)  # the mean is negative


def test_a_strict_mean_with_a_threshold_is_refused():
    with pytest.raises(ValueError, match=r"`strict`.*`threshold` must be 1"):
        geometric_mean(0.5, strict=True)
    with pytest.raises(ValueError, match="`eps_log` must be above 0"):
        geometric_mean(eps_log=0.0)


# Parity with DomainBed, written out from its formulas in NumPy.


def domainbed_mean(grads, tau):
    mask = np.abs(np.sign(grads).mean(0)) >= tau
    return mask * grads.mean(0) / (1e-10 + mask.mean())


def domainbed_sand(grads, tau, k):
    variance = grads.var(0, ddof=1)
    steep = np.tanh(k * (np.abs(np.sign(grads).mean(0)) - tau) / variance)
    mask = np.maximum(steep, 0)
    return mask * grads.mean(0) / (1e-10 + mask.mean())


def test_the_and_mask_is_that_of_domainbed():
    grads = random_grads(envs=3)
    for tau in (0.0, 0.3, 0.5, 1.0):
        wanted = domainbed_mean(np.asarray(grads, np.float64), tau)
        out = apply(and_mask(tau, rescale="tensor"), grads)
        np.testing.assert_allclose(out, wanted, 1e-6, 1e-7)


@pytest.mark.parametrize(("tau", "k"), [(0.0, 10.0), (0.5, 0.1), (0.9, 1e3)])
def test_the_sand_mask_is_that_of_domainbed(tau, k):
    grads = random_grads(envs=3)
    wanted = domainbed_sand(np.asarray(grads, np.float64), tau, k)
    assert np.count_nonzero(wanted) > 0
    np.testing.assert_allclose(apply(sand_mask(tau, k), grads), wanted, rtol=2e-5, atol=1e-9)


def test_sand_at_domainbeds_default_masks_everything_and_says_so():
    grads = random_grads(envs=3)
    for _ in range(2):  # every time, though rules are made once
        with pytest.warns(UserWarning, match="nothing trains"):
            rule = sand_mask(1.0)
    assert not jnp.any(apply(rule, grads))
    assert not jnp.any(domainbed_sand(np.asarray(grads, np.float64), 1.0, 10.0) > 1e-6)


def test_sand_without_variance_is_a_hard_mask():
    grads = jnp.array([[2.0, 0.0], [2.0, 0.0]])
    assert apply(sand_mask(0.5), grads).tolist() == [4.0, 0.0]


def test_sand_at_a_tie_is_zero_however_small_the_variance():
    grads = 1e-6 * jnp.array([[1.0, 1.0]] * 4 + [[-1.0, 1.0]])  # 3 of 5: the level 0.6
    assert apply(sand_mask(0.6), grads)[0] == 0


def test_a_sand_mask_that_does_not_rise_is_refused():
    with pytest.raises(ValueError, match="`k`"):
        sand_mask(0.5, 0.0)


def test_the_domainbed_preset_is_mask_rescaling_coupled_decay_and_adam():
    params = {"w": jr.normal(jr.key(2), (200,))}
    grads = {"w": random_grads(envs=3)}
    preset = domainbed_and_mask(0.9, learning_rate=1e-3, weight_decay=1e-2)
    updates, _ = jax.jit(preset.update)(grads, preset.init(params), params)
    masked = domainbed_mean(np.asarray(grads["w"], np.float64), 0.9)
    total = masked + 1e-2 * np.asarray(params["w"], np.float64)
    np.testing.assert_allclose(updates["w"], -1e-3 * total / (np.abs(total) + 1e-8), rtol=1e-4)


# Every rule: under transformations, in half precision, on odd pytrees, inside Optax.


def test_every_rule_is_the_same_under_jit_and_vmap():
    seeds = jr.normal(jr.key(0), (2, 8, 200))
    together = jax.jit(jax.vmap(by_every_rule))(seeds)
    for number, grads in enumerate(seeds):
        jitted = by_every_rule(grads)
        for name, rule in RULES.items():
            eager = rule.update(grads, rule.init(grads[0]))[0]
            np.testing.assert_allclose(jitted[name], eager, 1e-5, 1e-6, err_msg=name)
            np.testing.assert_allclose(together[name][number], eager, 1e-5, 1e-6, err_msg=name)


def test_every_rule_can_be_differentiated_through():
    grads = random_grads(envs=4)
    slopes = jax.jit(jax.jacrev(lambda g: jax.tree.map(jnp.sum, by_every_rule(g))))(grads)
    for name, slope in slopes.items():
        assert jnp.all(jnp.isfinite(slope)), name
        assert jnp.any(slope != 0), name
    mask = agreement_mask(stacked_statistics(grads), 1.0)
    np.testing.assert_allclose(slopes["and"], np.broadcast_to(mask / 4, (4, 200)), rtol=1e-6)


def test_every_rule_gives_half_precision_back():
    grads = random_grads().astype(jnp.bfloat16)
    fine = by_every_rule(grads.astype(jnp.float32))
    for name, out in by_every_rule(grads).items():
        assert out.dtype == jnp.bfloat16, name
        np.testing.assert_array_equal(out, fine[name].astype(jnp.bfloat16), err_msg=name)


def test_every_rule_takes_pytrees_with_holes_and_empty_tensors():
    grads = {"w": random_grads(), "none": None, "empty": jnp.zeros((8, 0, 2))}
    params = {"w": jnp.zeros(200), "none": None, "empty": jnp.zeros((0, 2))}
    alone = by_every_rule(grads["w"])
    for name, rule in RULES.items():
        out, state = rule.update(grads, rule.init(params), params)
        assert out["none"] is None
        assert out["empty"].shape == (0, 2)
        assert float(state.kept["empty"]) == 1.0
        assert jax.tree.structure(out) == jax.tree.structure(params)
        assert jax.tree.structure(state) == jax.tree.structure(rule.init(params))
        np.testing.assert_allclose(out["w"], alone[name], 1e-5, 1e-6, err_msg=name)


def test_every_rule_ignores_the_order_of_environments():
    grads = random_grads()
    shuffled = by_every_rule(grads[jr.permutation(jr.key(1), 8)])
    for name, out in by_every_rule(grads).items():
        np.testing.assert_allclose(shuffled[name], out, 1e-4, 1e-6, err_msg=name)


def test_every_rule_flips_when_all_gradients_flip():
    grads = random_grads()
    flipped = by_every_rule(-grads)
    for name, out in by_every_rule(grads).items():
        np.testing.assert_array_equal(flipped[name], -out, err_msg=name)


def test_every_rule_keeps_the_shape_of_its_state_in_a_scan():
    params = jnp.zeros(200)

    def step(states, grads):
        new = {name: rule.update(grads, states[name], params)[1] for name, rule in RULES.items()}
        return new, {name: state.kept for name, state in new.items()}

    start = {name: rule.init(params) for name, rule in RULES.items()}
    _, kept = jax.lax.scan(step, start, jr.normal(jr.key(0), (3, 8, 200)))
    for name, shares in kept.items():
        assert jnp.all((shares >= 0) & (shares <= 1)), name
        assert jnp.any(shares < 1) or name == "mean"


def test_tensors_can_have_rules_of_their_own():
    params = {"w": jnp.zeros(2), "b": jnp.zeros(2)}
    grads = {name: jnp.array([[1.0, 1.0], [3.0, -3.0]]) for name in params}
    rules = {"strict": and_mask(1.0, rescale="tensor"), "pooled": arithmetic_mean()}
    apart = optax.multi_transform(rules, {"w": "strict", "b": "pooled"})
    out, _ = jax.jit(apart.update)(grads, apart.init(params), params)
    assert out["w"].tolist() == [4.0, 0.0]
    assert out["b"].tolist() == [2.0, -1.0]
    weights_only = {"w": True, "b": False}
    masked = optax.chain(
        optax.masked(and_mask(1.0, rescale="global"), weights_only),
        optax.masked(arithmetic_mean(), {"w": False, "b": True}),
    )
    out, _ = masked.update(grads, masked.init(params), params)
    assert out["w"].tolist() == [4.0, 0.0]
    assert out["b"].tolist() == [2.0, -1.0]


def test_no_environment_is_refused():
    with pytest.raises(ValueError, match="there is no environment"):
        and_mask(1.0).update(jnp.zeros((0, 3)), None)


# The propositions of the thesis that are about masks.


def expected_norms(envs, tau, size):
    """E||mean||^2, E||masked mean||^2 and the kept fraction of random gradients, exactly."""
    masked = kept = 0.0
    for plus in range(envs + 1):
        if abs(2 * plus - envs) >= min_agreement(tau, envs):
            chance = math.comb(envs, plus) / 2**envs
            kept += chance
            spread = envs * (1 - 2 / math.pi) + (2 * plus - envs) ** 2 * 2 / math.pi
            masked += chance * spread
    return size / envs, size * masked / envs**2, kept


@pytest.mark.parametrize(
    ("envs", "masked", "kept"),
    [(5, 415.99, 0.375), (10, 99.956, 0.109375), (20, 9.5383, 0.011818), (100, 7.96e-7, 1.12e-9)],
)
def test_the_exact_norms_of_random_gradients_are_those_of_the_figure(envs, masked, kept):
    exact = expected_norms(envs, 0.6, 3000)
    np.testing.assert_allclose(exact, [3000 / envs, masked, kept], rtol=5e-3)


@pytest.mark.parametrize("envs", [10, 100])
def test_random_gradients_vanish_as_proposition_2_says(envs):
    grads = jr.normal(jr.key(envs), (20, envs, 3000))  # 20 draws

    def norms(grads):
        out, state = and_mask(0.6).update(grads, None)
        return jnp.sum(jnp.mean(grads, axis=0) ** 2), jnp.sum(out**2), state.kept

    drawn = np.stack(jax.jit(jax.vmap(norms))(grads))
    for draws, exact in zip(drawn, expected_norms(envs, 0.6, 3000), strict=True):
        error = max(draws.std(ddof=1) / len(draws) ** 0.5, 1e-6)
        assert abs(draws.mean() - exact) <= 5 * error
    assert bool(drawn[1].max() == 0) is (envs == 100)


def test_every_masked_step_descends_as_proposition_1_says():
    """L falls by at least (eta/2) ||masked gradient||^2 with eta = 1 / smoothness."""
    draws = np.random.default_rng(0)
    roots, minima = draws.normal(size=(5, 8, 8)), draws.normal(size=(5, 8))
    hessians = roots @ roots.transpose(0, 2, 1)
    rate = 1 / np.linalg.eigvalsh(hessians.mean(axis=0)).max()
    hessians, minima = jnp.asarray(hessians, jnp.float32), jnp.asarray(minima, jnp.float32)

    def loss(weights, hessian, low):
        return 0.5 * (weights - low) @ hessian @ (weights - low)

    def descend(rule):
        def step(weights, _):
            value_and_grad = jax.vmap(jax.value_and_grad(loss), in_axes=(None, 0, 0))
            losses, grads = value_and_grad(weights, hessians, minima)
            masked, _ = rule.update(grads, None)
            return weights - rate * masked, (jnp.mean(losses), jnp.sum(masked**2))

        return jax.lax.scan(step, jnp.full(8, 3.0), length=30)[1]

    losses, norms = jax.vmap(descend)(AndMask(jnp.array([0.0, 0.5, 1.0]), jnp.zeros(3)))
    for loss_of, norm in zip(np.asarray(losses), np.asarray(norms), strict=True):
        assert np.all(loss_of[1:] <= loss_of[:-1] - rate / 2 * norm[:-1] + 1e-4 * loss_of[:-1])
        assert norm[0] > 0
        assert norm.min() <= 2 * loss_of[0] / (rate * len(norm)) * (1 + 1e-4)
