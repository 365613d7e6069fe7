import signal
import threading

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from tiny_learners import Explode, Halve, NoisyWalk, WithFinal, explodes, noisy_walk

from recombine.training import (
    CheckpointError,
    Checkpoints,
    Interrupted,
    LearnerError,
    NonFiniteError,
    SilentProgress,
    fit,
    inspect_seed,
)


def quiet_fit(learner, **settings):
    return fit(learner, progress=False, **settings)


def test_history_holds_every_evaluation_and_the_last_step_before_it():
    fitted = quiet_fit(Halve(), steps=5, eval_every=2)
    assert fitted.history.steps == [0, 2, 4, 5]
    curves = fitted.history.curves()
    assert curves["value"][:, 0].tolist() == [1.0, 0.25, 0.0625, 0.03125]
    assert np.isnan(curves["step/loss"][0, 0])
    assert curves["step/loss"][1:, 0].tolist() == [0.5, 0.125, 0.0625]
    assert fitted.final["value"].tolist() == [0.03125]


def test_a_seed_does_not_depend_on_the_chunk():
    whole = quiet_fit(noisy_walk(), steps=12, eval_every=12, seeds=[7])
    for eval_every in (1, 5):
        chunked = quiet_fit(noisy_walk(), steps=12, eval_every=eval_every, seeds=[7])
        assert eqx.tree_equal(whole.state, chunked.state)
        assert chunked.final["noisy"] == whole.final["noisy"]


def test_a_seed_does_not_depend_on_the_seeds_beside_it():
    alone = quiet_fit(noisy_walk(), steps=6, eval_every=3, seeds=[4])
    among = quiet_fit(noisy_walk(), steps=6, eval_every=3, seeds=[9, 4, 1])
    assert eqx.tree_equal(alone.state_of(4), among.state_of(4))
    assert not eqx.tree_equal(among.state_of(4), among.state_of(9))


def test_a_seed_does_not_depend_on_checkpoints(tmp_path):
    plain = quiet_fit(noisy_walk(), steps=6, eval_every=2, seeds=[0, 1])
    saved = quiet_fit(
        noisy_walk(),
        steps=6,
        eval_every=2,
        seeds=[0, 1],
        checkpoints=Checkpoints(tmp_path / "c", every_seconds=0),
    )
    assert eqx.tree_equal(plain.state, saved.state)


def test_equals_an_obvious_loop():
    from recombine.training._seeds import seed_keys

    learner, keys = noisy_walk(), seed_keys(3)
    state = learner.init(keys.init)
    for number in range(5):
        state, _ = learner.step(state, jr.fold_in(keys.step, number))
    fitted = quiet_fit(learner, steps=5, eval_every=5, seeds=[3])
    np.testing.assert_allclose(fitted.state_of(3).position, state.position, rtol=1e-5, atol=1e-6)
    expected = learner.evaluate(state, jr.fold_in(keys.evaluate, 5))["noisy"]
    np.testing.assert_allclose(fitted.final["noisy"], expected, rtol=1e-6)


def test_seeds_together_equal_seeds_in_turn_to_rounding():
    seeds = [0, 5, 2]
    turns = quiet_fit(noisy_walk(), steps=7, eval_every=3, seeds=seeds, vectorize=False)
    together = quiet_fit(noisy_walk(), steps=7, eval_every=3, seeds=seeds, vectorize=True)
    for name, curve in turns.history.curves().items():
        np.testing.assert_allclose(together.history.curves()[name], curve, rtol=1e-4, atol=1e-5)


def test_resuming_a_finished_run_changes_nothing(tmp_path):
    settings = {"steps": 4, "eval_every": 2, "seeds": [1], "checkpoints": tmp_path / "c"}
    first = quiet_fit(noisy_walk(), **settings)
    again = quiet_fit(noisy_walk(), **settings)
    assert eqx.tree_equal(first.state, again.state)
    assert first.history.to_json() == again.history.to_json() or np.isnan(
        first.history.curves()["step/loss"][0, 0]
    )


def test_a_finished_run_can_be_made_longer_but_not_shorter(tmp_path):
    settings = {"eval_every": 2, "seeds": [1], "checkpoints": tmp_path / "c"}
    quiet_fit(noisy_walk(), steps=4, **settings)
    longer = quiet_fit(noisy_walk(), steps=8, **settings)
    whole = quiet_fit(noisy_walk(), steps=8, eval_every=2, seeds=[1])
    assert longer.final["mean"] == whole.final["mean"]
    assert eqx.tree_equal(longer.state, whole.state)
    with pytest.raises(CheckpointError, match="is at step 8, beyond the 4 `steps`"):
        quiet_fit(noisy_walk(), steps=4, **settings)


class StopAt(SilentProgress):
    """Presses Ctrl-C, so many times, when a step is reported."""

    def __init__(self, step: int, times: int = 1):
        self.at = step
        self.times = times

    def report(self, step, metrics):
        if step == self.at:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)


def test_ctrl_c_stops_after_the_chunk_and_the_same_call_resumes(tmp_path):
    settings = {"steps": 8, "eval_every": 2, "seeds": [0, 1]}
    whole = quiet_fit(noisy_walk(), **settings)
    with pytest.raises(Interrupted, match=r"stopped at step 4.*resumes from there") as stopped:
        fit(noisy_walk(), checkpoints=tmp_path / "c", progress=StopAt(4), **settings)
    assert stopped.value.history.steps == [0, 2, 4]
    resumed = quiet_fit(noisy_walk(), checkpoints=tmp_path / "c", **settings)
    assert eqx.tree_equal(whole.state, resumed.state)
    np.testing.assert_array_equal(whole.history.curves()["mean"], resumed.history.curves()["mean"])


def test_ctrl_c_without_checkpoints_says_that_nothing_is_saved():
    with pytest.raises(Interrupted, match="not saved"):
        fit(noisy_walk(), steps=4, eval_every=2, progress=StopAt(2))


def test_a_second_ctrl_c_stops_at_once_and_gives_the_signal_back():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        fit(noisy_walk(), steps=4, eval_every=2, progress=StopAt(2, times=2))
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_after_the_last_step_is_too_late_to_stop_anything():
    fitted = fit(Halve(), steps=4, eval_every=2, progress=StopAt(4))
    assert fitted.final["value"].tolist() == [0.0625]


def test_a_value_that_is_not_finite_names_seed_step_and_checkpoint(tmp_path):
    seeds = [
        next(s for s in range(20) if not explodes(s)),
        next(s for s in range(20) if explodes(s)),
    ]
    with pytest.raises(NonFiniteError) as failure:
        quiet_fit(
            Explode(at=6),
            steps=20,
            eval_every=4,
            seeds=seeds,
            checkpoints=Checkpoints(tmp_path / "c", every_seconds=0),
        )
    error = failure.value
    assert (error.seed, error.step) == (seeds[1], 6)
    assert error.checkpoint == tmp_path / "c" / "4"
    assert error.checkpoint.is_dir()
    assert error.history.steps == [0, 4]
    assert f"seed {seeds[1]}" in str(error)
    assert "step 6" in str(error)
    assert str(error.checkpoint) in str(error)


def test_other_data_of_the_same_shape_do_not_compile_again():
    compiled = []
    quiet_fit(noisy_walk(), steps=3, eval_every=3)
    listen = lambda name, _, **__: compiled.append(name) if "backend_compile" in name else None  # noqa: E731
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        other = quiet_fit(NoisyWalk(jnp.eye(3) * 0.5), steps=3, eval_every=3)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert compiled == []
    assert not eqx.tree_equal(other.state, quiet_fit(noisy_walk(), steps=3, eval_every=3).state)


class WeaklyTyped(Halve):
    def init(self, key):
        return jnp.asarray(1.0)  # as Python numbers are: its type gives way to others


def test_a_state_made_of_python_numbers_does_not_make_the_step_compile_twice():
    from recombine.training._seeds import Compiler, TakeTurns, Together

    for kind in (TakeTurns, Together):
        runner = kind(WeaklyTyped(), (0,), Compiler(lambda now: None))
        before = runner.init()
        after = runner.advance(before, 0, 1, lambda: None).state
        types = [jax.typeof(leaf) for leaf in jax.tree.leaves((before, after))]
        assert types[0] == types[1]
        assert not types[0].weak_type


def test_final_is_measured_once_after_the_last_step():
    fitted = quiet_fit(WithFinal(), steps=2, eval_every=1)
    assert fitted.final["test"].tolist() == [1.25]
    assert "test" not in fitted.history.curves()


def test_inspect_shows_one_seed():
    fitted = quiet_fit(noisy_walk(), steps=2, eval_every=1, seeds=[3, 8])
    shown = inspect_seed(noisy_walk(), fitted, 8)["position"]
    np.testing.assert_array_equal(shown, fitted.state_of(8).position)
    assert inspect_seed(Halve(), quiet_fit(Halve(), steps=1, eval_every=1), 0) == {}


@pytest.mark.parametrize("vectorize", [False, True])
def test_what_will_be_inspected_is_compiled_on_the_way(vectorize):
    traced = []

    class Shown(Halve):
        def inspect(self, state, key):
            traced.append(threading.current_thread() is threading.main_thread())
            return {"position": state + jnp.arange(3)}

    seeds = {"seeds": (4, 5), "vectorize": vectorize}
    fitted = quiet_fit(Shown(), steps=3, eval_every=1, will_inspect=True, **seeds)
    assert inspect_seed(Shown(), fitted, 4)["position"].tolist() == [0.125, 1.125, 2.125]
    assert traced == [False]


def test_an_error_in_inspect_does_not_lose_a_run():
    class Broken(Halve):
        def inspect(self, state, key):
            raise RuntimeError("nothing to see")

    fitted = quiet_fit(Broken(), steps=3, eval_every=1, will_inspect=True)
    assert fitted.final["value"].tolist() == [0.125]
    with pytest.raises(RuntimeError, match="nothing to see"):
        inspect_seed(Broken(), fitted, 0)


def test_compile_and_run_time_are_apart():
    class Fresh(Halve):
        pass

    seconds = quiet_fit(Fresh(), steps=2, eval_every=1).seconds
    assert seconds.compile > 0
    assert seconds.run > 0


class GrowsItsState(Halve):
    def step(self, state, key):
        return jnp.stack([state, state]), {"loss": jnp.float32(0)}


class ReturnsNoMetrics(Halve):
    def step(self, state, key):
        return state


class VectorMetric(Halve):
    def step(self, state, key):
        return state, {"loss": jnp.zeros(3)}


class OtherStructure(Halve):
    def step(self, state, key):
        return (state, state), {"loss": state}


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (GrowsItsState(), r"from float32\[\] to float32\[2\]"),
        (ReturnsNoMetrics(), "must return"),
        (VectorMetric(), "'loss' must be a scalar"),
        (OtherStructure(), "same structure"),
    ],
)
def test_a_learner_that_breaks_its_contract_is_told_how(learner, message):
    with pytest.raises(LearnerError, match=message):
        quiet_fit(learner, steps=1, eval_every=1)


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"steps": 0, "eval_every": 1}, "steps"),
        ({"steps": 1, "eval_every": 0}, "eval_every"),
        ({"steps": 1, "eval_every": 1, "seeds": []}, "seeds"),
        ({"steps": 1, "eval_every": 1, "seeds": [1, 1]}, "seeds"),
        ({"steps": 1, "eval_every": 1, "seeds": [-1]}, "seeds"),
    ],
)
def test_nonsense_is_refused_by_name(settings, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        quiet_fit(Halve(), **settings)
