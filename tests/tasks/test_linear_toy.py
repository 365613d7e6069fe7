import jax.numpy as jnp
import numpy as np
import pytest

from recombine.tasks import linear_toy


def test_every_environment_has_an_input_of_its_own_and_one_for_all():
    inputs, targets = linear_toy.make_examples()
    np.testing.assert_array_equal(inputs[:, :-1], 3 * np.eye(4))
    np.testing.assert_allclose(inputs[:, -1], 0.3)
    assert targets.tolist() == [1, 1, 1, 1]


def test_either_kind_of_weight_solves_it():
    inputs, targets = linear_toy.make_examples()
    for weights in ([1 / 3, 1 / 3, 1 / 3, 1 / 3, 0.0], [0.0, 0.0, 0.0, 0.0, 1 / 0.3]):
        for env in range(4):
            loss = linear_toy.loss(jnp.array(weights), (inputs[env], targets[env]))
            assert float(loss) == pytest.approx(0.0, abs=1e-12)


def test_an_empty_problem_is_refused():
    with pytest.raises(ValueError, match="`num_envs`"):
        linear_toy.make_examples(0)
