"""Which parameters environments agree on, what chance would give, curvature, and the report."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.agreement import and_mask, environment_gradients
from recombine.methods.consistency import (
    agreement_profile,
    chance_of_leads,
    consistency_report,
    decay_base,
    expected_masked_norm,
    hessian_diagonal,
    hessian_matrix,
)


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are many here, and small."""


def linear(params, weights):
    return sum(jnp.sum(p * w) for p, w in zip(params.values(), weights.values(), strict=True))


def test_the_profile_counts_leads_in_every_tensor():
    params = {"a": jnp.zeros(3), "b": jnp.zeros((1, 2))}
    gradients = {
        "a": jnp.array([[1.0, 1.0, 0.0], [2.0, -1.0, 0.0], [3.0, 1.0, 0.0], [4.0, 1.0, 0.0]]),
        "b": jnp.array([[[1.0, 0.0]], [[-1.0, 0.0]], [[1.0, 0.0]], [[-1.0, 5.0]]]),
    }
    profile = agreement_profile(linear, params, gradients)
    assert profile.leads["a"].tolist() == [4, 2, 0]
    assert profile.leads["b"].tolist() == [[0, 1]]
    assert profile.counts["['a']"].tolist() == [1, 0, 1, 0, 1]
    assert profile.levels.tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert profile.shares["['b']"].tolist() == [0.5, 0.5, 0, 0, 0]
    assert profile.mean() == {"['a']": pytest.approx(0.5), "['b']": pytest.approx(0.125)}
    assert profile.idle == {"['a']": pytest.approx(1 / 3), "['b']": 0.0}  # a tie is not idle
    assert profile.kept(0.5) == {"['a']": pytest.approx(2 / 3), "['b']": 0.0}
    assert profile.kept(0.0) == {"['a']": 1.0, "['b']": 1.0}


def test_the_profile_of_a_network_is_what_the_mask_would_keep():
    network = eqx.nn.MLP(4, 1, 8, 1, key=jr.key(0))
    inputs = jr.normal(jr.key(1), (6, 10, 4))

    def loss(model, batch):
        return jnp.mean((jax.vmap(model)(batch) - batch[:, :1]) ** 2)

    profile = agreement_profile(loss, network, inputs)
    varied, fixed = eqx.partition(network, eqx.is_inexact_array)

    def bound(params, batch):
        return loss(eqx.combine(params, fixed), batch)

    of_all = jax.jit(lambda p, b: environment_gradients(bound, p, b))
    _, grads = of_all(varied, inputs)
    for threshold in (0.5, 1.0):
        rule = and_mask(threshold)
        _, state = jax.jit(rule.update)(grads, rule.init(varied))
        np.testing.assert_allclose(
            list(profile.kept(threshold).values()), jax.tree.leaves(state.kept), rtol=1e-6
        )
    text = str(profile)
    assert "layers[0].weight" in text
    assert text.splitlines()[-1].startswith("by chance")
    assert len(text.splitlines()) == 2 + 4


def test_coin_tosses_have_the_chances_of_a_binomial():
    assert chance_of_leads(3).tolist() == [0, 0.75, 0, 0.25]
    for envs in (1, 2, 17):
        assert chance_of_leads(envs).sum() == pytest.approx(1.0)
    gradients = {"w": jr.normal(jr.key(0), (8, 20_000))}
    profile = agreement_profile(linear, {"w": jnp.zeros(20_000)}, gradients)
    np.testing.assert_allclose(profile.shares["['w']"], profile.by_chance, atol=0.015)


def test_bad_gradients_and_bad_input_are_refused():
    with pytest.raises(ValueError, match=r"gradient of \['w'\] is not finite"):
        agreement_profile(linear, {"w": jnp.zeros(1)}, {"w": jnp.array([[1.0], [jnp.nan]])})
    with pytest.raises(ValueError, match="nothing to agree on"):
        agreement_profile(lambda p, x: jnp.sum(x), {"w": jnp.arange(2)}, jnp.ones((2, 1)))
    profile = agreement_profile(linear, {"w": jnp.zeros(1)}, {"w": jnp.ones((2, 1))})
    with pytest.raises(ValueError, match="`threshold`"):
        profile.kept(1.5)


@pytest.mark.parametrize(
    ("envs", "mean", "masked", "kept"),
    [
        (5, 600, 415.99, 0.375),
        (10, 300, 99.956, 0.109375),
        (20, 150, 9.5383, 0.011818),
        (30, 100, 1.10066, 0.0014309),
        (50, 60, 0.017602, 2.39e-5),
        (80, 37.5, 4.22e-5, 5.87e-8),
        (100, 30, 7.96e-7, 1.12e-9),
    ],
)
def test_the_norms_of_random_gradients_of_figure_3_4(envs, mean, masked, kept):
    norms = expected_masked_norm(envs, 0.6, 3000)
    assert norms.mean == pytest.approx(mean)
    assert norms.masked == pytest.approx(masked, rel=2e-3)
    assert norms.kept == pytest.approx(kept, rel=5e-3)
    assert norms.masked <= norms.bound


def test_without_a_mask_the_sum_is_the_plain_mean_and_the_bound_always_holds():
    for envs in range(1, 60):
        everything = expected_masked_norm(envs, 0.0, 7, std=2.0)
        assert everything.masked == pytest.approx(everything.mean)
        assert everything.kept == pytest.approx(1.0)
        for threshold in (0.2, 0.6, 1.0):
            norms = expected_masked_norm(envs, threshold, 7)
            assert norms.masked <= norms.bound
    assert expected_masked_norm(6, 1.0, 1).kept == 2 / 2**6
    assert decay_base(0.0) == 1.0


def test_monte_carlo_agrees_with_the_exact_sum():
    draws, envs, dims = 200, 10, 500
    rule = and_mask(0.6)

    def norm(key):
        grads = jr.normal(key, (envs, dims))
        return jnp.sum(rule.update(grads, rule.init(grads[0]))[0] ** 2)

    norms = np.asarray(jax.lax.map(norm, jr.split(jr.key(0), draws)))
    exact = expected_masked_norm(envs, 0.6, dims).masked
    assert abs(norms.mean() - exact) < 5 * norms.std(ddof=1) / draws**0.5


def test_random_gradients_of_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="at least 1; got 0"):
        expected_masked_norm(0, 0.5, 3)
    with pytest.raises(ValueError, match="`threshold`"):
        expected_masked_norm(3, 1.5, 3)


def test_a_masked_step_lowers_the_loss_by_what_proposition_1_says_for_any_mask():
    root = jr.normal(jr.key(0), (12, 12)) / 12**0.5
    hessian = root @ root.T
    rate = 1 / jnp.linalg.eigvalsh(hessian)[-1]

    def loss(w):
        return 0.5 * w @ hessian @ w

    def step(w, key):
        masked = jnp.where(jr.bernoulli(key, 0.5, (12,)), jax.grad(loss)(w), 0.0)
        new = w - rate * masked
        return new, (loss(w), loss(new), jnp.sum(masked**2))

    start = jr.normal(jr.key(1), (12,))
    before, after, norms = jax.lax.scan(step, start, jr.split(jr.key(2), 40))[1]
    assert jnp.all(after <= before - rate / 2 * norms + 1e-6)
    smallest = jax.lax.cummin(norms)
    assert jnp.all(smallest <= 2 * before[0] / (rate * jnp.arange(1, 41)))


def test_hessians_of_a_pytree_whole_and_along_the_axes():
    root = jr.normal(jr.key(0), (5, 5))
    matrix = root @ root.T

    def loss(params):
        flat = jnp.concatenate([params["a"], params["b"].reshape(-1)])
        return 0.5 * flat @ matrix @ flat

    params = {"a": jnp.ones(3), "b": jnp.ones((1, 2)), "name": "kept"}
    whole = eqx.filter_jit(hessian_matrix)(loss, params)
    np.testing.assert_allclose(whole, matrix, rtol=1e-4, atol=1e-5)
    estimate = eqx.filter_jit(hessian_diagonal)(loss, params, key=jr.key(1), samples=3000)
    assert estimate["name"] == "kept"
    flat = jnp.concatenate([estimate["a"], estimate["b"].reshape(-1)])
    error = jnp.sqrt(jnp.sum(matrix**2, axis=1) - jnp.diag(matrix) ** 2) / 3000**0.5
    assert jnp.all(jnp.abs(flat - jnp.diag(matrix)) < 5 * error)
    with pytest.raises(ValueError, match="`samples`"):
        hessian_diagonal(loss, params, key=jr.key(1), samples=0)


def curved(params, curvature):
    return 0.5 * jnp.sum(curvature * params["w"] ** 2)


def test_a_report_can_be_read():
    curvatures = jnp.array([[0.05, 1.0], [1.0, 0.05]])
    report = consistency_report(
        curved,
        {"w": jnp.zeros(2)},
        curvatures,
        0.01,
        key=jr.key(0),
        environments=("home", "abroad"),
    )
    assert report.times_epsilon == pytest.approx(20, rel=0.01)
    assert report.quadratic_score == pytest.approx(0.2)
    assert report.quadratic_bound == pytest.approx(4 * 0.01 * 5.5125**2)
    text = str(report)
    assert text.startswith(f"inconsistency at least {report.score:.4g}: 20 times epsilon (0.01)")
    assert f"where {report.region} notices nothing and {report.judge} does" in text
    assert {report.region, report.judge} == {"home", "abroad"}
    assert f"by curvature alone 0.2, at most {report.quadratic_bound:.4g}" in text
    assert "['w']" in text


def test_a_report_says_why_curvature_tells_nothing():
    saddles = jnp.array([[1.0, -1.0], [1.0, -2.0]])
    report = consistency_report(
        curved, {"w": jnp.zeros(2)}, saddles, 0.01, key=jr.key(0), radius=1.0
    )
    assert report.quadratic_score is None
    assert "negative eigenvalue" in report.curvature_note
    assert "within a distance of 1" in report.to_text()


def test_many_parameters_are_measured_without_a_whole_hessian():
    curvatures = jnp.stack([jnp.ones(200), jnp.ones(200).at[0].set(9.0)])
    report = consistency_report(curved, {"w": jnp.zeros(200)}, curvatures, 0.1, key=jr.key(0))
    assert report.score == pytest.approx(0.9, rel=0.05)
    assert "not computed for 200 parameters" in str(report)


def test_names_must_fit_the_environments():
    with pytest.raises(ValueError, match="each of the 2 environments; got 1 names"):
        consistency_report(
            lambda w, x: jnp.sum(w * x),
            jnp.zeros(1),
            jnp.ones((2, 1)),
            0.1,
            key=jr.key(0),
            environments=("one",),
        )
