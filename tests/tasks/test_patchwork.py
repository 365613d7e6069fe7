import jax
import jax.numpy as jnp
import numpy as np
import pytest

from recombine.tasks import patchwork


def losses(params, num_points=patchwork.NUM_POINTS):
    environments = patchwork.make_environments(num_points)
    return jax.vmap(patchwork.loss, in_axes=(None, 0))(params, environments)


@pytest.mark.parametrize(
    ("offset", "fit", "varied"),
    [
        (patchwork.PRINTED_OFFSET, (0.0460934096, 0.0070555335), (0.0460934096, 1.062266649)),
        (patchwork.CENTRED_OFFSET, (0.0031921399, 0.0031930398), (0.0031921399, 1.058404155)),
    ],
)
def test_the_losses_are_the_integrals(offset, fit, varied):
    """Values by quadrature with two million points in double precision."""
    np.testing.assert_allclose(losses(patchwork.solution(offset)), fit, rtol=1e-4)
    np.testing.assert_allclose(losses(patchwork.variation(offset)), varied, rtol=1e-4)


def test_environment_a_does_not_see_the_last_weight_and_b_does():
    for weight, loss_b in ((0.0, 0.4705), (2.0, 0.5036)):
        loss_a, found = losses(patchwork.solution().at[5].set(weight))
        assert float(loss_a) == pytest.approx(0.0460934, rel=1e-5)
        assert float(found) == pytest.approx(loss_b, abs=1e-4)


def test_the_variation_differs_in_the_last_weight_alone():
    changed = np.flatnonzero(np.asarray(patchwork.solution() != patchwork.variation()))
    assert changed.tolist() == [5]


def test_the_target_is_a_staircase_without_jumps():
    inputs = jnp.linspace(0, 1, 1001)
    outputs = patchwork.target(inputs)
    assert float(outputs[0]) == 0
    assert float(outputs[-1]) == 2
    assert float(jnp.max(jnp.diff(outputs))) == pytest.approx(0.01, rel=1e-3)
    assert bool(jnp.all(jnp.diff(outputs) >= 0))


def test_the_environments_are_the_two_halves():
    left, right = patchwork.make_environments(100).inputs
    assert 0 < float(left.min()) < float(left.max()) < 0.5
    assert 0.5 < float(right.min()) < float(right.max()) < 1
    with pytest.raises(ValueError, match="`num_points`"):
        patchwork.make_environments(0)
