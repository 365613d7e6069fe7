import os
import signal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from recombine.estimators import ESTIMATORS, Estimator


class Doubling(eqx.Module):
    """A learner whose state is a number that grows, and whose loss stays finite."""

    factor: float = eqx.field(static=True)

    def init(self, key):
        return jnp.float32(1.0)

    def step(self, state, key):
        return state * self.factor, {"loss": jnp.float32(0.5)}

    def evaluate(self, state, key):
        return {"value": jnp.minimum(state, 1e6)}


class Growing(Estimator):
    """The least that an estimator is."""

    def __init__(self, factor=2.0, random_state=None, verbose=False):
        self.factor = factor
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, steps):
        self.model_ = self._train(Doubling(self.factor), steps=steps, seed=0)
        return self

    def _model_template(self):
        return jnp.float32(0.0)


def test_training_returns_the_state_and_leaves_curves():
    model = Growing().fit(steps=3)
    assert model.model_ == 8.0
    assert isinstance(model.model_, np.ndarray | np.generic)
    assert model.history_["step"].tolist() == [0, 1, 2, 3]
    assert model.history_["value"].tolist() == [1, 2, 4, 8]
    np.testing.assert_array_equal(model.history_["loss"], [np.nan, 0.5, 0.5, 0.5])


def test_curves_of_long_runs_have_few_points():
    assert len(Growing(1.0).fit(steps=1000).history_["step"]) == 51


class Stopped(Doubling):
    """Is asked to stop while it makes its last step."""

    def step(self, state, key):
        jax.debug.callback(lambda: os.kill(os.getpid(), signal.SIGINT))
        return super().step(state, key)


@pytest.mark.parametrize("steps", [1, 3])
def test_ctrl_c_in_the_last_steps_is_not_lost(steps):
    with pytest.raises(KeyboardInterrupt, match="Growing stopped at step 1"):
        Growing()._train(Stopped(1.0), steps=steps, seed=0)


def test_a_state_that_is_not_finite_is_an_error_even_if_the_loss_is():
    with pytest.raises(FloatingPointError, match="the last of 2 steps"):
        Growing(1e30).fit(steps=2)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_estimator_is_listed_under_its_name_and_has_the_shared_settings(name):
    estimator = ESTIMATORS[name]()
    assert type(estimator).__name__ == name
    assert {"random_state", "verbose"} <= set(estimator.get_params())
