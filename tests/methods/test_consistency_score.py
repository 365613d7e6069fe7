"""The inconsistency score by ascent, against quadratics, where it is known exactly."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.consistency import (
    inconsistency,
    learning_consistency,
    quadratic_inconsistency,
)


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are many here, and small."""


def quadratic(params, environment):
    hessian, centre, level = environment
    return level + 0.5 * (params - centre) @ hessian @ (params - centre)


def around(hessians, centre=None, level=0.0):
    """Environments with these Hessians and a common minimum; all tests share one program."""
    envs, dims, _ = hessians.shape
    centre = jnp.zeros(dims) if centre is None else centre
    return jnp.asarray(hessians), jnp.stack([centre] * envs), jnp.full(envs, level)


def _double_well(w):
    return 0.2 * (w[0] ** 2 - 1) ** 2  # a hill of height 0.2 between -1 and 1


def _slope(w):
    return 0.1 * (w[0] + 1)


def _blind(w):
    return w[0] ** 2 + 1.0


def _seeing(w):
    return w[0] ** 2 + w[1] ** 2 + 1.0


def _falling(w):
    return 1.0 + jnp.minimum(0.0, -w[0])


def _infinite(w):
    return w[0] / 0.0


def _steep_first(w):
    return 0.5 * jnp.sum(jnp.where(w[0] > 0, jnp.array([1.0, 0.1]), 1.0) * (jnp.abs(w) - 1) ** 2)


def _steep_second(w):
    return 0.5 * jnp.sum(jnp.where(w[0] > 0, jnp.array([0.1, 1.0]), 1.0) * (jnp.abs(w) - 1) ** 2)


KINDS = (
    *(_double_well, _slope, _blind, _seeing, _falling, _infinite),
    *(_steep_first, _steep_second),
)


def loss_of_kind(params, kind):
    """One loss that is any of these, so that the tests share a program."""
    return jax.lax.switch(kind, KINDS, params)


def kinds(*losses):
    return jnp.array([KINDS.index(loss) for loss in losses])


def random_hessians(seed, dims, envs=2, decades=1.0):
    rng = np.random.default_rng(seed)
    hessians = []
    for _ in range(envs):
        axes, _ = np.linalg.qr(rng.normal(size=(dims, dims)))
        hessians.append(axes @ np.diag(10 ** rng.uniform(-decades, decades, dims)) @ axes.T)
    return np.stack(hessians).astype(np.float32)


@pytest.mark.parametrize("dims", [2, 5])
def test_the_ascent_comes_close_to_the_closed_form_and_never_above(dims):
    for seed in range(8):
        hessians = random_hessians(seed, dims, decades=1.5)
        found = inconsistency(
            quadratic, jnp.zeros(dims), 0.1, key=jr.key(seed), batches=around(hessians)
        )
        exact = quadratic_inconsistency(hessians, 0.1)
        assert 0.98 * exact < float(found.score) <= 1.0001 * exact


@pytest.mark.parametrize(("low", "times"), [(0.05, 20), (0.01, 100)])
def test_the_cases_of_the_figures_are_20_and_100_times_epsilon(low, times):
    hessians = jnp.array([jnp.diag(jnp.array([low, 1.0])), jnp.diag(jnp.array([1.0, low]))])
    found = inconsistency(quadratic, jnp.zeros(2), 0.01, key=jr.key(0), batches=around(hessians))
    assert float(found.score) == pytest.approx(times * 0.01, rel=0.01)
    assert {int(found.region), int(found.judge)} == {0, 1}


def test_equal_environments_score_epsilon():
    hessians = np.repeat(random_hessians(1, 2, envs=1), 2, axis=0)
    found = inconsistency(quadratic, jnp.zeros(2), 0.5, key=jr.key(0), batches=around(hessians))
    np.testing.assert_allclose(found.by_pair, 0.5, rtol=0.01)


def test_what_is_found_lies_in_the_region_and_has_the_score():
    at = jnp.arange(5.0)
    batches = around(random_hessians(3, 5), centre=at, level=1.0)
    found = inconsistency(quadratic, at, 0.01, key=jr.key(0), batches=batches)
    own, judged = (
        float(quadratic(found.params, jax.tree.map(lambda leaf, e=e: leaf[int(e)], batches)))
        for e in (found.region, found.judge)
    )
    assert abs(own - 1.0) <= 0.01 * 1.001
    assert abs(judged - 1.0) == pytest.approx(float(found.score), rel=1e-4)
    assert float(found.score) == float(found.by_pair.max())
    np.testing.assert_allclose(found.losses, 1.0)


def test_the_walk_does_not_jump_a_barrier():
    """Beyond the hill the loss is low again, but that is another region."""
    found = inconsistency(
        loss_of_kind,
        jnp.array([-1.0, 0.0]),
        0.05,
        key=jr.key(0),
        batches=kinds(_double_well, _slope),
    )
    edge = -(0.5**0.5)  # where the well has risen by 0.05; the other well would give 0.22
    assert float(found.by_pair[0, 1]) == pytest.approx(0.1 * (edge + 1), rel=0.01)


def test_a_list_of_losses_is_the_same_as_stacked_batches():
    hessians = random_hessians(5, 2)
    losses = [lambda w, h=h: 0.5 * w @ jnp.asarray(h) @ w for h in hessians]
    listed = inconsistency(losses, jnp.zeros(2), 0.1, key=jr.key(0))
    stacked = inconsistency(quadratic, jnp.zeros(2), 0.1, key=jr.key(0), batches=around(hessians))
    np.testing.assert_allclose(listed.by_pair, stacked.by_pair, rtol=1e-4)


@pytest.mark.slow
def test_pairs_walked_together_find_the_same():
    batches = around(random_hessians(6, 2))
    one, all_ = (
        inconsistency(
            quadratic, jnp.zeros(2), 0.1, key=jr.key(0), batches=batches, pairs_at_once=number
        )
        for number in (1, 3)
    )
    np.testing.assert_allclose(one.by_pair, all_.by_pair, rtol=1e-3)


def test_a_radius_ends_a_direction_that_is_free():
    """A does not look at the second parameter: without an end to the walk there is no score."""
    batches = kinds(_blind, _seeing)
    found = inconsistency(
        loss_of_kind, jnp.zeros(2), 1e-4, key=jr.key(0), batches=batches, radius=3.0
    )
    assert float(found.score) == pytest.approx(9.0, rel=0.01)
    assert float(jnp.linalg.norm(found.params)) <= 3.0001
    free = inconsistency(loss_of_kind, jnp.zeros(2), 1e-4, key=jr.key(0), batches=batches)
    assert float(free.score) > 1000


def test_losses_may_also_fall():
    """The solution is no minimum of B: the largest difference is downhill."""
    found = inconsistency(
        loss_of_kind, jnp.zeros(2), 0.01, key=jr.key(0), batches=kinds(_blind, _falling)
    )
    assert float(found.by_pair[0, 1]) == pytest.approx(0.1, rel=0.01)
    assert float(found.params[0]) == pytest.approx(0.1, rel=0.01)


def test_a_loss_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="finite in every environment; it is nan in environment 1"):
        inconsistency(
            loss_of_kind, jnp.zeros(2), 0.01, key=jr.key(0), batches=kinds(_blind, _infinite)
        )


@pytest.mark.slow
@pytest.mark.parametrize("curvature", ["diagonal", "none"])
def test_large_models_are_measured_by_less_than_a_whole_hessian(curvature):
    diagonals = jnp.array([[0.05, 1.0], [1.0, 0.05]])
    found = inconsistency(
        quadratic,
        jnp.zeros(2),
        0.01,
        key=jr.key(0),
        batches=around(jax.vmap(jnp.diag)(diagonals)),
        curvature=curvature,
    )
    assert float(found.score) == pytest.approx(0.2, rel=0.03)


@pytest.mark.slow
def test_a_network_of_any_kind_can_be_asked():
    network = eqx.nn.Linear(2, "scalar", key=jr.key(0))
    inputs = jr.normal(jr.key(1), (3, 16, 2))
    batches = (inputs, inputs[..., 0])

    def loss(model, batch):
        return jnp.mean((jax.vmap(model)(batch[0]) - batch[1]) ** 2)

    found = inconsistency(
        loss, network, 0.01, key=jr.key(2), batches=batches, steps=20, restarts=1, radius=0.5
    )
    assert isinstance(found.params, eqx.nn.Linear)
    assert found.by_pair.shape == (3, 3)
    assert float(found.score) >= 0.0099
    region = jax.tree.map(lambda leaf: leaf[int(found.region)], batches)
    assert abs(float(loss(found.params, region) - loss(network, region))) <= 0.01001


def test_learning_consistency_is_minus_the_mean_score():
    """Half of the starts end in a minimum that both share, half where only their mean has one."""
    starts = iter(itertools.cycle([1.0, -1.0]))
    found = learning_consistency(
        train=lambda w: jnp.sign(w),
        init=lambda key: jnp.array([next(starts), 1.0]),
        losses=loss_of_kind,
        epsilon=0.01,
        keys=jr.split(jr.key(0), 4),
        batches=kinds(_steep_first, _steep_second),
    )
    np.testing.assert_allclose(found.scores, [0.1, 0.01, 0.1, 0.01], rtol=0.01)
    assert found.consistency == pytest.approx(-0.055, rel=0.01)
    assert found.standard_error == pytest.approx(np.std(found.scores, ddof=1) / 2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": 0.0}, "`epsilon`.*above 0; got 0.0"),
        ({"epsilon": float("nan")}, "`epsilon`"),
        ({"steps": 0}, "`steps` must be at least 1"),
        ({"restarts": 0}, "`restarts` must be at least 1"),
        ({"radius": -1.0}, "`radius` is a distance"),
        ({"curvature": "some"}, "`curvature` must be"),
        ({"batches": None}, "needs `batches`"),
        ({"batches": (jnp.ones(2), jnp.ones(3))}, r"same number of environments.*\[2, 3\]"),
        ({"batches": jnp.ones((0, 2))}, "no environment"),
        ({"losses": []}, "`losses` is empty"),
        ({"losses": [lambda w: w]}, r"one number.*\(2,\)"),
        ({"params": jnp.arange(2)}, "no floating-point array"),
    ],
)
def test_what_cannot_be_measured_is_refused(change, words):
    given = {
        "losses": lambda w, x: jnp.sum(w) * jnp.sum(jax.tree.leaves(x)[0]),
        "params": jnp.zeros(2),
        "epsilon": 0.1,
        "batches": jnp.ones((2, 2)),
        "key": jr.key(0),
        "steps": 1,
        "restarts": 1,
    } | change
    if isinstance(given["losses"], list):
        given["batches"] = None
    losses, params, epsilon = given.pop("losses"), given.pop("params"), given.pop("epsilon")
    with pytest.raises(ValueError, match=words):
        inconsistency(losses, params, epsilon, **given)


def test_batches_beside_a_list_of_losses_are_refused():
    with pytest.raises(ValueError, match="leave `batches` out"):
        inconsistency([jnp.sum], jnp.zeros(2), 0.1, key=jr.key(0), batches=jnp.ones((1, 2)))
