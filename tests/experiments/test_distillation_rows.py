"""The rows of learning to distill, their learners, rules and pictures."""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from matplotlib.figure import Figure

from recombine.engines import RunRequest, run_row
from recombine.experiments import match_rows
from recombine.experiments.distillation import _pictures
from recombine.experiments.distillation._config import HiddenXorConfig, LifeConfig
from recombine.experiments.distillation._control_table import TABLE
from recombine.experiments.distillation._figure_values import DISTILLED, NO_TEACHER
from recombine.experiments.distillation._judging import NearTable, Rising, SomewhereAbove
from recombine.experiments.distillation._life_learner import LifeSample, make_life_learner
from recombine.experiments.distillation._sizes_learner import _shuffled, _with_padding
from recombine.experiments.distillation._toy_learners import (
    FewerInputs,
    XorWorlds,
    make_hidden_xor_learner,
)
from recombine.methods.distillation import (
    Adam,
    Batches,
    ConvTeacherShape,
    GridLearner,
    MLPStudentShape,
    Momentum,
    NoisyFrames,
    PermutedFrames,
    RowOrder,
    Validation,
)
from recombine.report import make_lines
from recombine.results import read_records

ROWS = {row.id: row for row in match_rows("ldt")}
ERROR, GAP = "best_test_squared_error", "best_gap_squared_error"
SMALL: dict[str, Any] = {"data": "random", "num_train": 100, "num_selection": 4, "num_test": 4}


def control_learner(name, **changes) -> Any:
    """The learner of a full row, on a few random numbers."""
    row = ROWS[f"ldt/mujoco/{name}"]
    return row.make_learner(dataclasses.replace(row.full.config, **SMALL | changes), row.full.steps)


def test_there_is_a_row_for_every_method_of_every_task():
    toys = {"ldt", "none", "ldt-fixed"}
    assert toys == {name.rsplit("/", 1)[1] for name in ROWS if name.startswith("ldt/toy-a/")}
    for weight in ("0", "0.1", "1", "10"):
        assert ROWS[f"ldt/toy-b/none-{weight}"].full.config.entropy_weight == float(weight)
    for teacher in ("ldt", "none", "fixed-random", "fixed-oracle"):
        assert ROWS[f"ldt/life/{teacher}"].quick is not None
    in_doubt = {"untrained", "noisy-16", "resampled", "resampled-ascending"}
    ablations = in_doubt | {"permuted", *(f"noisy-{n}" for n in (4, 8, 12))}
    for task in TABLE:
        here = {name.rsplit("/", 1)[1] for name in ROWS if f"/{task}/" in name}
        assert {"ldt", "auxiliary", "model-free", "search-model-free", "search-auxiliary"} <= here
        assert ablations & here == (ablations if task in ("hopper", "swimmer") else in_doubt)
        assert ROWS[f"ldt/mujoco/{task}/ldt"].full.num_seeds == 8


@pytest.mark.parametrize(
    ("task", "name", "beta1", "inner_rate", "log_weight", "share"),
    [
        ("swimmer", "ldt", 0.9, 1e-2, 2.5, 0.3),
        ("walker2d", "ldt", 0.9, 1e-2, 3.0, 0.5),
        ("hopper", "ldt", 0.0, 1e-2, 2.5, 0.3),
        ("halfcheetah", "ldt-published", 0.0, 1e-2, 2.5, 0.7),
        ("halfcheetah", "ldt", 0.9, 5e-3, 2.5, 0.5),  # another choice within table C.4
    ],
)
def test_control_rows_have_published_settings(task, name, beta1, inner_rate, log_weight, share):
    """Tables C.5 and C.6."""
    learner = control_learner(f"{task}/{name}")
    training = learner.teacher_training
    assert float(learner.teaching_weight) == pytest.approx(10**log_weight)
    assert learner.batches == Batches(24, Validation(share))
    assert learner.student_steps == 24
    assert jax.tree.leaves(training.optimizer) == jax.tree.leaves(Adam(5e-4, beta1))
    assert jax.tree.leaves(training.inner) == jax.tree.leaves(Momentum(inner_rate, 0.75, 1e-8))
    assert training.inner_steps == 96
    assert jax.tree.leaves(learner.optimizer) == jax.tree.leaves(Adam(1e-3))
    inputs = {"swimmer": 40, "walker2d": 113, "hopper": 59, "halfcheetah": 113}[task]
    frame = {"swimmer": 9, "walker2d": 18, "hopper": 12, "halfcheetah": 18}[task]
    assert learner.student == MLPStudentShape(inputs, 32, hidden=(128,) * 5)
    assert learner.teacher == ConvTeacherShape(16, frame, 2 * 640)
    auxiliary = control_learner(f"{task}/auxiliary")
    assert auxiliary.student.auxiliary == 16 * frame
    assert auxiliary.batches.validation is None
    assert control_learner(f"{task}/model-free").teacher is None


def test_ablations_change_one_thing():
    assert control_learner("hopper/permuted").view == PermutedFrames()
    assert control_learner("hopper/noisy-8").view == NoisyFrames(8)
    resampled = control_learner("hopper/resampled")
    assert resampled.batches.validation == Validation(0.3, resample=True)
    stored = control_learner("hopper/resampled-ascending")
    assert stored.batches.validation == Validation(0.3, resample=True, ascending=True)
    untrained = control_learner("hopper/untrained")
    assert untrained.teacher_training is None
    assert untrained.batches.validation == Validation(0.3)
    main = ROWS["ldt/mujoco/hopper/ldt"].full.config
    for name in ("permuted", "noisy-4", "resampled", "untrained"):
        config = dataclasses.asdict(ROWS[f"ldt/mujoco/hopper/{name}"].full.config)
        changed = {key for key, value in dataclasses.asdict(main).items() if config[key] != value}
        assert len(changed) == 1
    cheetah = control_learner("halfcheetah/noisy-16")  # compared with the published settings
    assert cheetah.batches == control_learner("halfcheetah/ldt-published").batches


def test_searches_have_all_published_settings_side_by_side():
    for baseline, count, grids in (("model-free", 18, 3), ("auxiliary", 18, 1)):
        row = ROWS[f"ldt/mujoco/hopper/search-{baseline}"]
        config = dataclasses.replace(
            row.full.config, base=dataclasses.replace(row.full.config.base, **SMALL)
        )
        learner = row.make_learner(config, 1)
        assert len(set(learner.names)) == count
        assert len(learner.grids) == grids
        for grid in learner.grids:
            assert isinstance(grid, GridLearner)
            # Rates, decays and weights differ; the data are there once.
            assert all(leaf.ndim == 1 for leaf in jax.tree.leaves(grid.varied))


def test_learners_are_equal_when_they_are_made_again():
    """Otherwise they would be compiled again, and a run could not resume."""
    for name in ("ldt/toy-a/ldt", "ldt/toy-b/ldt", "ldt/life/ldt", "ldt/mujoco/hopper/permuted"):
        row = ROWS[name]
        first, second = (row.make_learner(row.tiny.config, 2) for _ in range(2))
        assert jax.tree.structure(first) == jax.tree.structure(second)


# --- cells of several sizes in one program -----------------------------------------------------


@pytest.fixture(scope="module")
def cells() -> Any:
    """Task A with 12 and 20 examples, of which 5 and 8 judge the teacher."""
    config = HiddenXorConfig(
        dimensions=(3, 6),
        sizes=(12, 20),
        validation_share=0.4,
        batch_size=3,
        bottleneck=2,
        hidden=3,
        teacher_hidden=(3,),
        inner_steps=7,
        num_test=5,
        num_selection=5,
    )
    return make_hidden_xor_learner(config, 1)


@pytest.fixture(scope="module")
def data(cells) -> Any:
    """Of the world with 3 of 6 inputs."""

    @jax.jit
    def draw(key):
        split = cells.sample(key, cells.worlds[0])
        return split._replace(train=_with_padding(split.train))

    return draw(jr.key(0))


class Ordered(NamedTuple):
    order: RowOrder


@pytest.mark.parametrize("place", [0, 1])
def test_a_cell_sees_its_own_examples_alone(cells, place):
    sizes = jax.tree.map(lambda leaf: leaf[place], cells.sizes)
    num_rows, num_held = (12, 20)[place], (5, 8)[place]
    held = np.asarray(cells._hold(sizes, 21, jr.key(place)))
    assert len(held) == 8
    assert len(set(held[:num_held].tolist())) == num_held
    assert (held[:num_held] < num_rows).all()
    assert (held[num_held:] == 20).all()  # the row of padding
    wanted = np.setdiff1d(np.arange(num_rows), held)
    train = _shuffled(jr.key(4), jnp.zeros(21, bool).at[wanted].set(True))
    assert set(train[: len(wanted)].tolist()) == set(wanted.tolist())
    num_batches = (num_rows - num_held) // 3
    order = Ordered(RowOrder(jnp.asarray(held), train, jnp.int32(0)))
    rows = np.asarray(cells._rows(order, num_batches, 7))
    assert set(rows.reshape(-1).tolist()) <= set(wanted.tolist())
    assert len(set(rows[:num_batches].reshape(-1).tolist())) == 3 * num_batches
    assert rows[num_batches].tolist() == rows[0].tolist()  # from the beginning again


def test_padding_does_not_change_the_validation_loss(cells, data):
    """The loss that judges the teacher is the mean over the validation part, and over it alone."""
    sizes = jax.tree.map(lambda leaf: leaf[0], cells.sizes)
    student = jax.jit(cells.learner.student)(jr.key(1))
    held = cells._hold(sizes, 21, jr.key(2))
    is_held = jnp.zeros(21, bool).at[held].set(True)
    weighted = cells._weighted(data.train, sizes, is_held)
    lesson = cells.learner.lesson
    padded = lesson.label_loss(student, jax.tree.map(lambda leaf: leaf[held], weighted))
    real = held[:5]
    logits = jax.vmap(student)(data.train.inputs[real])[0][:, 0]
    labels = data.train.labels[real]
    plain = jnp.mean(jnp.logaddexp(0.0, jnp.where(labels == 1, -logits, logits)))
    assert float(padded) == pytest.approx(float(plain), rel=1e-5)
    assert np.all(np.asarray(weighted.labels[1])[~np.asarray(is_held)] == 1)


def test_a_world_of_fewer_inputs_is_the_task_of_that_dimension():
    worlds = XorWorlds(16, 400, 4, 4)
    split = jax.jit(worlds)(jr.key(0), jnp.int32(4))
    train = split.train
    assert np.all(train.inputs[:, 4:] == 0)
    signs, hidden = train.privileged[:, :2], train.privileged[:, 2:]
    known = signs * hidden
    np.testing.assert_array_equal(
        train.labels, np.logical_xor(known[:, 0] > 0, known[:, 1] > 0).astype(int)
    )
    # Entries of the projection are uniform up to 1/√4: the spread of h is 1/√3.
    assert 0.25 < float(jnp.std(known)) < 0.95
    student = MLPStudentShape(16, 1, hidden=(40,), weight_norm=False)(jr.key(0))
    first = FewerInputs(16)(student, jnp.int32(4)).layers[0]
    assert 0.45 < float(jnp.max(jnp.abs(first.weight))) <= 0.5
    assert 0.4 < float(jnp.max(jnp.abs(first.bias))) <= 0.5


def test_the_future_is_scrambled_and_an_oracle_may_know_it():
    draw = LifeSample(5, 3, 6, 2, 2)
    split = jax.jit(draw)(jr.key(1))
    order = np.asarray(split.hint)
    assert order.tolist() != [0, 1, 2]
    last = int(np.flatnonzero(order == 2)[0])
    np.testing.assert_array_equal(split.train.privileged[:, last, 2, 2], split.train.labels)
    misled = jax.jit(dataclasses.replace(draw, tells_order=False))(jr.key(1))
    assert misled.hint.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(misled.train.privileged, split.train.privileged)
    in_order = jax.jit(dataclasses.replace(draw, in_order=True))(jr.key(1))
    np.testing.assert_array_equal(in_order.train.privileged[:, 2, 2, 2], in_order.train.labels)


def test_at_most_so_many_examples_judge_the_teacher():
    config = LifeConfig(sizes=(40, 400), board=3, batch_size=4, most_validation=20)
    learner = make_life_learner(config, 1)
    assert learner.sizes.held.tolist() == [12, 20]
    np.testing.assert_array_equal(learner.teaching_weights, [10, 100])
    assert make_life_learner(dataclasses.replace(config, method="none"), 1).most_held == 0


# --- rules -------------------------------------------------------------------------------------


def finals(**values):
    return {name: np.asarray(value, float) for name, value in values.items()}


def around(mean, gap=0.01):
    seeds = mean * (1 + 0.01 * np.linspace(-1, 1, 8))
    return {ERROR: seeds, GAP: np.full(8, gap)}


@pytest.mark.parametrize("task", TABLE)
def test_the_published_table_is_what_the_rules_ask_for(task):
    known, here = TABLE[task], f"ldt/mujoco/{task}"
    published = {
        f"{here}/ldt": around(known.ldt, 0.004),
        f"{here}/auxiliary": around(known.auxiliary, 0.01),
        f"{here}/model-free": around(known.model_free, 0.012),
    }
    for name, values in published.items():
        rule = ROWS[name].full.rule
        assert rule.judge(ERROR, values, published.get).holds is True, name
        assert rule.judge(ERROR, around(2 * known.model_free), published.get).holds is False
    ldt = ROWS[f"{here}/ldt"].full.rule
    assert ldt.judge(ERROR, around(known.ldt, 0.02), published.get).holds is False  # the gap
    assert ldt.judge(ERROR, published[f"{here}/ldt"], {}.get).holds is None
    for baseline in ("model-free", "auxiliary"):
        rule = ROWS[f"{here}/search-{baseline}"].full.rule
        mean = published[f"{here}/{baseline}"][ERROR]
        found = {f"{ERROR}/a": mean[:4], f"{ERROR}/b": 2 * mean[:4]}
        assert rule.judge("lowest_squared_error", found, published.get).holds is True
        found[f"{ERROR}/b"] = published[f"{here}/ldt"][ERROR] * 0.9
        judged = rule.judge("lowest_squared_error", found, published.get)
        assert judged.holds is False
        assert "best of 2 settings, b" in judged.reason


def test_ablations_are_judged_by_the_order_of_the_figure():
    here = "ldt/mujoco/hopper"
    means = {"ldt": 0.0014, "model-free": 0.0027, "untrained": 0.0044, "permuted": 0.00155}
    means |= {"noisy-4": 0.0016, "noisy-8": 0.002, "noisy-12": 0.0024, "noisy-16": 0.003}
    means |= {"resampled": 0.004, "resampled-ascending": 0.003}
    others = {f"{here}/{name}": around(mean) for name, mean in means.items()}
    for name in set(means) - {"ldt", "model-free"}:
        rule = ROWS[f"{here}/{name}"].full.rule
        assert rule.judge(ERROR, others[f"{here}/{name}"], others.get).holds is True, name
        assert rule.judge(ERROR, around(0.0009), others.get).holds is False, name
    falling = Rising((f"{here}/noisy-16", f"{here}/noisy-12", f"{here}/noisy-8"))
    assert falling.judge(ERROR, others[f"{here}/noisy-4"], others.get).holds is False


def test_the_grid_is_judged_by_the_cells_that_could_be_read():
    def grid(table):
        return {
            f"best_accuracy/{dimension}/{size}": np.array([value])
            for size, row in table.items()
            for dimension, value in zip((64, 128, 256, 512), row, strict=True)
        }

    between = {446: (0.97, 0.96, 0.92, 0.55), 891: (0.98, 0.98, 0.97, 0.93)}
    ours, theirs = grid(DISTILLED | between), grid(NO_TEACHER | {446: (0.6,) * 4, 891: (0.6,) * 4})
    others = {"ldt/toy-a/none": theirs, "ldt/toy-a/ldt": ours}.get
    for name, values in (("ldt", ours), ("none", theirs)):
        assert ROWS[f"ldt/toy-a/{name}"].full.rule.judge("accuracy", values, others).holds is True
    worse = ours | {"best_accuracy/64/388": np.array([0.9])}
    assert ROWS["ldt/toy-a/ldt"].full.rule.judge("accuracy", worse, others).holds is False
    rule = ROWS["ldt/toy-a/none"].full.rule
    assert isinstance(rule, NearTable)
    assert len(rule.cells) == 36
    assert rule.judge("accuracy", ours, others).holds is False
    assert rule.judge("accuracy", {}, others).holds is None


def test_task_b_is_judged_by_the_lowest_divergence_of_every_baseline():
    others = {
        f"ldt/toy-b/none-{weight:g}": finals(best_test_divergence=[low])
        for weight, low in ((0, 0.23), (0.1, 0.23), (1, 0.233), (10, 0.465))
    }
    rule = ROWS["ldt/toy-b/ldt"].full.rule
    published = finals(best_test_divergence=[0.063])
    assert rule.judge("best_test_divergence", published, others.get).holds is True
    near = finals(best_test_divergence=[0.118])
    assert rule.judge("best_test_divergence", near, others.get).holds is False
    end = ROWS["ldt/toy-b/none-1"].full.rule
    assert end.judge("test_divergence", finals(test_divergence=[0.3]), others.get).holds is True
    assert end.judge("test_divergence", finals(test_divergence=[0.4]), others.get).holds is False


def test_a_lead_at_one_size_is_enough():
    rule = SomewhereAbove("a", ("x", "y"), 0.05)
    others = {"a": finals(x=[0.7], y=[0.7])}.get
    assert rule.judge("", finals(x=[0.7], y=[0.8]), others).holds is True
    assert rule.judge("", finals(x=[0.7], y=[0.74]), others).holds is False
    assert rule.judge("", finals(x=[0.7]), others).holds is None


# --- pictures ----------------------------------------------------------------------------------

ARRAYS = {
    "worlds": np.array([64, 128]),
    "sizes": np.array([128, 256]),
    "best_accuracy": np.array([[0.8, 0.9], [0.55, 0.88]]),
    "chosen_accuracy": np.array([[0.8, 0.9], [0.55, 0.88]]),
    "attention": np.full((2, 3, 9, 4), 1 / 3),
    "order": np.array([2, 0, 1]),
    "gates": np.linspace(0, 1, 12),
    "layer_sizes": np.array([4, 8]),
    "best_test_squared_error": np.array([0.1, 0.2]),
    "chosen_test_squared_error": np.array([0.12, 0.2]),
    "boards": np.zeros((4, 7, 7)),
    "hidden": np.random.default_rng(0).normal(size=(20, 2)),
    "labels": np.arange(20) % 2,
}


@pytest.mark.parametrize(
    "name",
    ["TAUGHT_GRID", "HIDDEN", "ATTENTION", "BY_SIZE", "GATES", "SETTINGS", "BOARDS"],
)
def test_pictures_are_drawn_from_what_a_run_leaves(name):
    picture = getattr(_pictures, name)
    figure = Figure(layout="constrained")  # as the report draws
    picture.draw(figure.add_subplot(), {need: ARRAYS[need] for need in picture.needs})
    figure.draw_without_rendering()
    assert any(axes.has_data() for axes in figure.axes)


def test_an_oracles_cells_are_framed():
    axes = Figure().add_subplot()
    _pictures.draw_attention(axes, ARRAYS)
    middles = {
        tuple(np.asarray(line.get_xydata(), float)[:4].mean(axis=0).round(6).tolist())
        for line in axes.lines
    }
    assert middles == {(8.0, 0.0), (2.0, 1.0), (5.0, 2.0)}  # layer, place


def test_tasks_show_themselves():
    for name in ("ldt/toy-a/ldt", "ldt/life/ldt"):
        sample = ROWS[name].sample
        assert sample is not None
        arrays = sample.make(ROWS[name].full.config)
        for picture in sample.pictures:
            assert set(picture.needs) <= set(arrays)


def test_bad_settings_say_what_was_expected():
    with pytest.raises(ValueError, match=r"`judged_sizes` must be among `sizes`; \[7\] are not"):
        HiddenXorConfig(sizes=(8,), judged_sizes=(7,))
    with pytest.raises(ValueError, match="no batch can be made"):
        make_hidden_xor_learner(HiddenXorConfig(sizes=(16,), dimensions=(4,)), 1)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["toy-a", "toy-b", "life"])
def test_quick_runs_show_that_a_learned_teacher_helps(task, tmp_path):
    rows = [row for name, row in ROWS.items() if name.startswith(f"ldt/{task}/") and row.quick]
    for row in rows:
        run_row(RunRequest.of(row, "quick"), tmp_path, progress=False)
    for line in make_lines(rows, read_records(tmp_path)):
        if line.row.id != "ldt/toy-a/ldt-fixed":
            assert line.verdict.word == "effect shown", f"{line.row.id}: {line.verdict.reason}"


def test_searches_of_settings_stay_within_the_tables_of_the_thesis():
    grids = {"model-free": 18, "auxiliary": 18, "ldt": 54}
    for method, count in grids.items():
        row = ROWS[f"ldt/mujoco/hopper/{method}"]
        assert row.search is not None
        assert row.search.by_test
        assert math.prod(len(of.grid()) for of in row.search.space.values()) == count
        for name, of in row.search.space.items():
            assert getattr(row.full.config, name) in of.grid()  # what is run is one of them
    assert ROWS["ldt/mujoco/hopper/untrained"].search is None
    for method in ("none", "fixed-random", "fixed-oracle", "ldt"):
        row = ROWS[f"ldt/life/{method}"]
        assert row.search is not None
        known = {field.name for field in dataclasses.fields(row.full.config)}
        assert set(row.search.space) <= known
        assert ("meta_rate" in row.search.space) == (method == "ldt")
