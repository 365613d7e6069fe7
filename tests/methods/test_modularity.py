"""Alignment, decoding and losses on cases whose answers are known."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.modularity import (
    chance_alignment,
    chance_corrected,
    decode_latents,
    explained_variance,
    fit_mixing,
    fit_readout,
    generated_alignment,
    latent_r_squared,
    mix_modules,
    module_alignment,
    pairwise_cosine,
    relative_loss,
    ridge,
    to_teacher_coordinates,
)

MODULES, INPUTS, UNITS = 6, 16, 16


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are many here, and small."""


@pytest.fixture
def _float64():
    with jax.enable_x64(True):
        yield


def normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


TEACHER = normal(0, MODULES, INPUTS, UNITS)


def permuted(seed, modules):
    order = np.random.default_rng(seed).permutation(UNITS)
    return modules[:, :, order]


align = jax.jit(module_alignment)
decode = jax.jit(decode_latents, static_argnames="standardize")


def means(alignment):
    return float(alignment.joint.mean()), float(alignment.per_module.mean())


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("num_latents", [6, 12])
def test_a_student_that_is_the_teacher_in_disguise_is_found(num_latents):
    # Units permuted and scaled, random units beside them, latents mixed linearly.
    scale = jnp.abs(normal(1, 1, 1, UNITS)) + 0.1
    extra = normal(2, MODULES, INPUTS, 10)
    units = jnp.concatenate([permuted(3, jnp.asarray(TEACHER, float) * scale), extra], axis=-1)
    mixing = normal(4, num_latents, MODULES)  # from true to inferred latents
    inverse = np.linalg.pinv(mixing)
    useless = normal(6, num_latents, num_latents) @ (np.eye(num_latents) - mixing @ inverse)
    unused = jnp.einsum("kj,kiu->jiu", useless, normal(7, num_latents, INPUTS, UNITS + 10))
    student = jnp.einsum("mj,miu->jiu", inverse, units) + unused
    latents = normal(5, 512, MODULES)
    inferred = latents @ mixing.T
    weights = jnp.einsum("tm,miu->tiu", latents[:4], units)
    generated = jnp.einsum("tj,jiu->tiu", inferred[:4], student)
    np.testing.assert_allclose(weights, generated, atol=1e-9)  # both do the same in all tasks
    readout = fit_readout(latents, inferred)
    found = align(TEACHER, to_teacher_coordinates(student, readout))
    for value in (*means(found), float(found.max_min.mean())):
        assert value == pytest.approx(1.0, abs=1e-5)
    assert int(found.num_dead) == 0


def test_latents_of_uneven_size_mislead_the_readout_but_not_the_mixing():
    left, _, right = np.linalg.svd(normal(4, 12, MODULES), full_matrices=False)
    mixing = left @ np.diag(np.logspace(-3, 0, MODULES)) @ right  # from true to inferred latents
    student = jnp.einsum("mj,miu->jiu", np.linalg.pinv(mixing), jnp.asarray(TEACHER, float))
    latents = normal(5, 512, MODULES)
    inferred = latents @ mixing.T
    regressed = fit_mixing(latents, inferred)
    np.testing.assert_allclose(regressed, mixing, atol=1e-5)
    found = align(TEACHER, mix_modules(student, regressed))
    assert means(found)[0] == pytest.approx(1.0, abs=1e-3)
    misled = align(TEACHER, to_teacher_coordinates(student, fit_readout(latents, inferred)))
    assert means(misled)[0] < 0.95


def test_modules_on_different_units_are_seen_by_the_joint_alignment_only():
    half = MODULES // 2
    halves = jnp.concatenate([TEACHER[:half], permuted(1, TEACHER[half:])])
    joint, per_module = means(align(TEACHER, halves))
    assert per_module == pytest.approx(1.0, abs=1e-5)
    assert 0.45 < joint < 0.7
    independent = jnp.concatenate([permuted(m, TEACHER[m : m + 1]) for m in range(MODULES)])
    joint, per_module = means(align(TEACHER, independent))
    assert per_module == pytest.approx(1.0, abs=1e-5)
    assert joint < 0.45


def test_the_chance_line_rises_with_width():
    # Joint, per module, max-min: means over 60 pairs of random networks.
    expected = {16: (0.180, 0.431, -0.058), 128: (0.262, 0.603, 0.061)}
    names = ("joint_alignment", "per_module_alignment", "max_min_alignment")
    for width, values in expected.items():
        chance = chance_alignment(jr.key(0), TEACHER, width)
        np.testing.assert_allclose([chance[name] for name in names], values, atol=0.02)
    random = align(TEACHER, normal(9, MODULES, INPUTS, 32))
    assert float(random.joint.mean()) < 0.3
    assert float(chance_corrected(0.2, 0.2)) == 0.0
    assert float(chance_corrected(1.0, 0.2)) == 1.0


def test_dead_units_are_counted_and_do_not_break_anything():
    student = TEACHER.at[:, :, :3].set(0.0)
    found = align(TEACHER, student)
    assert int(found.num_dead) == 3
    assert all(jnp.isfinite(value) for value in found.summary().values())
    np.testing.assert_allclose(found.joint[3:], 1.0, rtol=1e-5)


def test_modules_in_other_coordinates_are_refused():
    with pytest.raises(ValueError, match="`to_teacher_coordinates`"):
        module_alignment(TEACHER, normal(1, 12, INPUTS, UNITS))


def test_ridge_is_the_direct_solution():
    inputs, true = normal(1, 200, 6), normal(2, 3, 6)
    targets = inputs @ true.T
    found = ridge(inputs, targets, 0.01)
    exact = np.linalg.solve(
        np.asarray(inputs.T @ inputs, np.float64) + 0.01 * np.eye(6), np.asarray(inputs.T @ targets)
    ).T
    np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(fit_readout(targets, inputs), true, atol=1e-3)
    np.testing.assert_allclose(latent_r_squared(targets, inputs @ found.T), 1.0, atol=1e-6)


def test_ridge_stays_finite_where_there_is_nothing_to_find():
    inputs = jnp.concatenate([normal(1, 20, 2), jnp.zeros((20, 2))], axis=1)
    found = ridge(inputs, jnp.zeros((20, 1)), 1.0)
    assert not jnp.any(found)
    with_one = ridge(inputs, inputs[:, :1], 1e-3)
    np.testing.assert_allclose(with_one[0], jnp.array([1.0, 0.0, 0.0, 0.0]), atol=1e-3)


@pytest.mark.parametrize("standardize", [True, False])
def test_latents_that_are_linear_in_the_features_are_decoded(standardize):
    latents = jnp.asarray(np.random.default_rng(0).integers(0, 2, (400, 2, 3)), jnp.float32)
    mixing = normal(1, 6, 8)
    features = latents.reshape(400, 6) @ mixing + 5.0  # an offset, which an intercept takes up
    found = decode(
        features[:200], latents[:200], features[200:], latents[200:], standardize=standardize
    )
    assert found.r_squared.shape == (2, 3)
    assert float(found.mean) > 0.9  # raw features need more steps than ten for the last digits
    noise = decode(normal(2, 200, 8), latents[:200], normal(3, 200, 8), latents[200:])
    assert float(noise.mean) < 0.1


def test_an_entry_that_never_varies_is_left_out_of_the_mean():
    latents = jnp.stack([normal(0, 50), jnp.full(50, 2.0)], axis=1)
    found = decode(latents, latents, latents, latents, penalty=1e-6)
    assert jnp.isnan(found.r_squared[1])
    assert float(found.mean) == pytest.approx(1.0, abs=1e-4)
    assert float(found.minimum) == pytest.approx(1.0, abs=1e-4)


def test_units_that_change_places_open_a_gap_in_generated_alignment():
    weights = normal(1, 3, INPUTS, 5)
    same = generated_alignment(weights, 2 * weights)
    np.testing.assert_allclose(jnp.stack(same), 1.0, rtol=1e-5)
    moving = jnp.stack([jnp.roll(weights[task], task, axis=-1) for task in range(3)])
    found = generated_alignment(weights, moving)
    assert float(found.task_dependent) == pytest.approx(1.0, abs=1e-5)
    assert float(found.task_independent) < 0.6


def test_pairwise_cosine_equals_the_mean_over_pairs():
    rows = np.asarray(normal(1, 5, 3), np.float64)
    units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = units @ units.T
    expected = cosines[~np.eye(5, dtype=bool)].mean()
    assert float(pairwise_cosine(jnp.asarray(rows, jnp.float32))) == pytest.approx(
        expected, abs=1e-6
    )


def test_predicting_zero_has_a_relative_loss_of_one_half():
    targets = normal(1, 4, 10, 3)
    found = relative_loss(jnp.zeros_like(targets), targets)
    np.testing.assert_allclose(jnp.stack(found), 0.5, rtol=1e-6)
    exact = relative_loss(targets, targets)
    np.testing.assert_allclose(jnp.stack(exact), 0.0)
    # Two rows whose targets differ tenfold: the mean of ratios is not the ratio of means.
    targets, outputs = jnp.array([[1.0], [10.0]]), jnp.array([[0.0], [10.0]])
    found = relative_loss(outputs, targets)
    assert float(found.per_sample) == pytest.approx(0.25)
    assert float(found.population) == pytest.approx(0.5 / 101)


def test_explained_variance_is_per_output():
    targets = jnp.array([[0.0, 100.0], [2.0, 102.0]])
    mean = jnp.broadcast_to(targets.mean(axis=0), targets.shape)
    assert float(explained_variance(mean, targets)) == pytest.approx(0.0)
    assert float(explained_variance(targets, targets)) == 1.0
    assert float(jax.jit(explained_variance)(mean[None], targets[None])) == pytest.approx(0.0)
