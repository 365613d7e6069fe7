"""The benchmarks run; what they measure is never a test."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from recombine.methods.skipping import Skips

FOLDER = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch):
    """The modules of the folder, which import each other by name."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "").parent == FOLDER:
            del sys.modules[name]


def test_skipping_is_among_them_and_shares_are_printed(benchmarks):
    import run  # pyright: ignore[reportMissingImports]

    assert "skipping" in run.BENCHMARKS
    assert run._amount({"share": 0.995}, "") == "99.50%"
    assert run._amount({"against_seconds": 0.25}, "against_") == "0.25 s"


def test_the_trials_that_are_timed_can_share_a_program(benchmarks):
    import run  # pyright: ignore[reportMissingImports]
    import tuning_trials  # pyright: ignore[reportMissingImports]

    from recombine.experiments import find_row
    from recombine.training import group_alike

    assert run.BENCHMARKS["tuning"] is tuning_trials.measure
    row = find_row(tuning_trials.ROW)
    configs = tuning_trials.draw_configs(row, row.tiny, 6)
    assert len(set(configs)) == 6
    assert len(group_alike([row.make_learner(config, 8) for config in configs])) == 1


def test_a_whole_row_of_seq2seq_is_timed_on_accelerators_only(benchmarks):
    import run  # pyright: ignore[reportMissingImports]
    import seq2seq_row  # pyright: ignore[reportMissingImports]

    from recombine.results import evidence_folder

    assert run.BENCHMARKS["seq2seq-row"] is seq2seq_row.measure
    if jax.default_backend() == "cpu":
        assert seq2seq_row.measure() == []
    (record,) = seq2seq_row._records(str(evidence_folder() / seq2seq_row.ROW))
    whole, episode = seq2seq_row.describe(60.0, record)
    assert whole["ratio"] == 0.5
    assert episode["seconds"] == record.seconds["run"] / 10_000
    assert episode["ratio"] == episode["seconds"] / 0.018


def test_matches_are_those_of_the_loss(benchmarks):
    import skipping_step  # pyright: ignore[reportMissingImports]

    bright = 255 * jnp.eye(5, dtype=jnp.uint8)  # one pixel, which moves on by one
    frames = jnp.broadcast_to(bright[:, :, None, None], (5, 5, 1, 3))

    def two_on(image: jax.Array) -> jax.Array:
        return jnp.clip(jnp.roll(image, 2, axis=0), 0.02, 0.98)

    assert skipping_step._chosen(two_on, frames, Skips(1, 3)).tolist() == [1, 1, 1, 0]


def test_a_step_can_be_kept_from_ending_early(benchmarks):
    import skipping_step  # pyright: ignore[reportMissingImports]

    from recombine.methods.skipping import _rolling

    with skipping_step._no_early_exit():
        assert bool(jax.jit(lambda x: _rolling.anyone(x))(jnp.array([False])))
    assert not bool(_rolling.anyone(jnp.array([False])))


@pytest.mark.slow
def test_seeds_are_timed_on_one_device_and_on_several(benchmarks):
    import devices  # pyright: ignore[reportMissingImports]

    lines = devices.measure()
    names = [f"fit of 8 seeds, on {n} virtual CPU devices" for n in (2, 4)]
    assert [line["name"] for line in lines] == [*names, "fit of 8 seeds, in turns"]
    for line in lines:
        assert line["ratio"] == line["seconds"] / line["against_seconds"] > 0


@pytest.mark.slow
def test_the_skipping_benchmark_measures_what_it_promises(benchmarks):
    import skipping_step  # pyright: ignore[reportMissingImports]

    lines = skipping_step.measure()
    assert len(lines) == 5
    assert lines[0]["target"] == "at most 1.15"
    for line in lines:
        assert {"name", "against", "ratio", "target"} <= set(line)
        assert line["ratio"] > 0
        assert ("seconds" in line) == ("against_seconds" in line) == ("share" not in line)


def test_the_iteration_that_is_timed_is_that_of_the_control_tasks(benchmarks):
    import distillation  # pyright: ignore[reportMissingImports]
    import run  # pyright: ignore[reportMissingImports]

    assert run.BENCHMARKS["distillation"] is distillation.measure
    learner = distillation.make_learner(on_cpu=False, num_train=100)
    assert (learner.student.hidden, learner.batches.batch_size) == ((128,) * 5, 24)
    assert (learner.teacher_training.inner_steps, learner.student_steps) == (96, 24)
    assert learner.iterations == 1
    assert not learner.watches


@pytest.mark.slow
def test_the_distillation_benchmark_measures_what_it_promises(benchmarks):
    import distillation  # pyright: ignore[reportMissingImports]

    lines = distillation.measure()
    assert len(lines) == 8
    assert all(line["ratio"] > 0 for line in lines)
    kept = [line for line in lines if "bytes" in line]
    assert [line["bytes"] < line["against_bytes"] for line in kept] == [True] * 6
