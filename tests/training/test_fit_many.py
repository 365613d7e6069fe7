"""Learners that differ only in numbers are trained at once, and come out as if alone."""

import os
import signal
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jaxtyping import Array, Float

from recombine.training import (
    Interrupted,
    LearnerError,
    StopRequest,
    fit,
    fit_many,
    group_alike,
)


class Drift(eqx.Module):
    """A noisy walk with a rate, shared data, and a loss that is infinite beyond a border."""

    rate: Float[Array, ""]
    data: Float[Array, " 4"]
    kind: str = eqx.field(static=True, default="plain")
    calls: Any = eqx.field(static=True, default=None)

    def init(self, key: Any) -> Any:
        return jr.normal(key, (4,))

    def step(self, state: Any, key: Any) -> Any:
        state = state + self.rate * (self.data + 0.1 * jr.normal(key, (4,)))
        size = jnp.max(jnp.abs(state))
        return state, {"size": jnp.where(size > 1e3, jnp.inf, size)}

    def evaluate(self, state: Any, key: Any) -> Any:
        return {"mean": jnp.mean(state)}

    def final(self, state: Any, key: Any) -> Any:
        return {"spread": jnp.std(state)}


DATA = jnp.arange(4.0)


def drifts(*rates: float) -> list[Drift]:
    return [Drift(jnp.float32(rate), jnp.arange(4.0)) for rate in rates]


@pytest.mark.parametrize("vectorize", [False, True])
def test_each_learner_ends_as_if_it_had_been_alone(vectorize):
    learners = drifts(0.1, 0.5, 2.0)
    found = fit_many(
        learners, steps=6, eval_every=2, seeds=(3, 5), progress=False, vectorize=vectorize
    )
    for learner, one in zip(learners, found, strict=True):
        alone = fit(learner, steps=6, eval_every=2, seeds=(3, 5), progress=False, vectorize=False)
        assert (one.ended, one.step) == ("last step", 6)
        assert one.fit.history.steps == alone.history.steps
        for name, curve in alone.history.curves().items():
            np.testing.assert_allclose(one.fit.history.curves()[name], curve, rtol=1e-5)
            if not vectorize:
                np.testing.assert_array_equal(one.fit.history.curves()[name], curve)
        assert alone.final.keys() == one.fit.final.keys()
        np.testing.assert_allclose(one.fit.final["spread"], alone.final["spread"], rtol=1e-5)
        np.testing.assert_allclose(one.fit.state_of(5), alone.state_of(5), rtol=1e-5)


@pytest.mark.parametrize("vectorize", [False, True])
def test_one_that_is_not_finite_leaves_the_others_alone(vectorize):
    found = fit_many(
        drifts(0.1, 1e3, 0.2), steps=4, eval_every=2, progress=False, vectorize=vectorize
    )
    assert [one.ended for one in found] == ["last step", "not finite", "last step"]
    assert found[1].step == 1
    assert np.isfinite(found[2].fit.final["mean"]).all()


@pytest.mark.parametrize("vectorize", [False, True])
def test_watching_stops_some_and_all_stopped_ends_the_training(vectorize):
    seen = []

    def watch(number, step, metrics):
        seen.append((number, step))
        assert metrics["mean"].shape == (1,)
        return number == 0 or step >= 4

    found = fit_many(
        drifts(0.1, 0.2), steps=100, eval_every=2, progress=False, vectorize=vectorize, watch=watch
    )
    assert [(one.ended, one.step) for one in found] == [("stopped", 2), ("stopped", 4)]
    assert seen == [(0, 2), (1, 2), (1, 4)]
    assert found[0].fit.history.steps == [0, 2, 4]
    if not vectorize:  # it was spared the second chunk
        assert np.isnan(found[0].fit.history.curves()["mean"][-1]).all()


def test_only_what_differs_gets_an_axis():
    from recombine.training._alike import split_shared

    own, shared = split_shared(drifts(0.1, 0.2))
    assert own.data is None
    assert shared.rate is None
    assert own.rate.shape == (2,)
    assert shared.data.shape == (4,)


def test_learners_are_sorted_by_what_a_program_can_share():
    one, two = drifts(0.1, 0.2)
    other_kind = Drift(jnp.float32(0.1), DATA, "other")
    other_shape = eqx.tree_at(lambda d: d.rate, one, jnp.zeros(2))
    assert group_alike([one, other_kind, two, other_shape]) == [[0, 2], [1], [3]]
    with pytest.raises(LearnerError, match="number 1 differs from the first"):
        fit_many([one, other_kind], steps=1, eval_every=1, progress=False)


def test_nothing_to_train_is_refused():
    with pytest.raises(ValueError, match="nothing to train"):
        fit_many([], steps=1, eval_every=1)


def test_fit_ends_where_it_is_told_to():
    done = fit(
        drifts(0.1)[0],
        steps=10,
        eval_every=2,
        progress=False,
        until=lambda step, metrics: step == 4 and metrics["mean"].shape == (1,),
    )
    assert done.history.steps == [0, 2, 4]
    assert "spread" in done.final


def test_ctrl_c_in_the_last_chunk_is_known_outside():
    def press(number, step, metrics):
        os.kill(os.getpid(), signal.SIGINT)
        return False

    with StopRequest() as outer:
        with pytest.raises(Interrupted):
            fit_many(drifts(0.1), steps=6, eval_every=2, progress=False, watch=press)
        assert outer.asked
