"""The alternation of meta-steps and student steps, its baselines, its order, and bad input."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.adaptation import DivergedError
from recombine.methods.distillation import (
    Adam,
    AttentionShape,
    Batches,
    BinaryLabels,
    ConvTeacherShape,
    Copy,
    DistillationLearner,
    Drawn,
    GatedSquaredError,
    Given,
    GridLearner,
    MapStudentShape,
    MLPStudentShape,
    MLPTeacherShape,
    Momentum,
    Noise,
    NoisyFrames,
    PermutedFrames,
    PrivilegedExamples,
    PrivilegedSplit,
    Ready,
    ShuffledRows,
    SquaredError,
    TeacherTraining,
    Validation,
    Watch,
    inner_loop,
)
from recombine.training import fit
from recombine.training._seeds import stack_states

TRAIN, TEST, FRAMES = 30, 10, 3


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are many here, and small."""


def examples(key, count):
    x_key, noise_key = jr.split(key)
    x = jr.normal(x_key, (count, 4))
    frames = x[:, None, :2] * jnp.arange(1.0, FRAMES + 1)[None, :, None]
    frames = frames + 0.1 * jr.normal(noise_key, frames.shape)
    return PrivilegedExamples(x, frames, (x[:, 0] * x[:, 1] > 0).astype(jnp.int32))


def sample(key):
    train_key, test_key = jr.split(key)
    return PrivilegedSplit(examples(train_key, TRAIN), examples(test_key, TEST))


DATA = Given(jax.jit(sample)(jr.key(5)))
UNITS = 8
SPLIT = Batches(4, Validation(0.4))  # 12 for validation, 18 to learn from: 4 batches
LEARNER = DistillationLearner(
    source=DATA,
    student=MLPStudentShape(4, 1, hidden=(UNITS,), weight_norm=False),
    objective=BinaryLabels(),
    optimizer=Adam(1e-2),
    teacher=MLPTeacherShape(2 * FRAMES, 2 * UNITS, hidden=(5,)),
    teaching_loss=GatedSquaredError(),
    teaching_weight=10.0,
    teacher_training=TeacherTraining(Adam(1e-2), Momentum(), inner_steps=5, keep="everything"),
    batches=SPLIT,
    student_steps=2,
)
WITHOUT = replace(LEARNER, teacher=None, teacher_training=None)


@eqx.filter_jit
def draw(learner, key):
    return learner.init(key)


def begin(learner, seed=0):
    """The first state; without a teacher it is that of `LEARNER`, which spares a program."""
    if learner.teacher is None and learner.view is None:
        state = draw(LEARNER, jr.key(seed))
        return state._replace(teacher=None, teacher_optimizer=None)
    return draw(learner, jr.key(seed))


@eqx.filter_jit
def step(learner, state, key):
    return learner.step(state, key)


@eqx.filter_jit
def call(function, *arguments):
    return function(*arguments)


def several(learner, count, state=None):
    state, metrics = begin(learner) if state is None else state, {}
    for number in range(count):
        state, metrics = step(learner, state, jr.key(number))
    return state, metrics


def same(a, b):
    return bool(eqx.tree_equal(a, b))


def test_a_meta_step_leaves_the_student_and_a_student_phase_the_teacher():
    state = begin(LEARNER)
    rows = state.order.train[:16].reshape(4, 4)
    taught, metrics = call(LEARNER.update_teacher, state, rows)
    assert same((taught.student, taught.optimizer), (state.student, state.optimizer))
    assert not same(taught.teacher, state.teacher)
    assert metrics["clipped"] == metrics["replaced"] == 0
    learned, _ = call(LEARNER.update_student, state, rows)
    assert same(
        (learned.teacher, learned.teacher_optimizer), (state.teacher, state.teacher_optimizer)
    )
    assert not same(learned.student, state.student)


def test_the_inner_loop_begins_where_it_is_told():
    """With the student's own optimizer it is what the student would do next, moments and all."""
    shared = replace(LEARNER, teacher_training=replace(LEARNER.teacher_training, inner=None))
    fresh = begin(LEARNER)
    state = fresh._replace(optimizer=jax.tree.map(lambda x: x + 1, fresh.optimizer))
    rows = state.order.train[:16].reshape(4, 4)

    def look(learner, state):
        return inner_loop(
            state.teacher,
            state.student,
            learner._examples(state, rows),
            lesson=learner.lesson,
            training=learner.teacher_training,
            **learner._inner_optimizer(state),
        ).params

    real, _ = call(LEARNER.update_student, state, rows)
    ahead = call(look, shared, state)
    for ours, theirs in zip(jax.tree.leaves(ahead), jax.tree.leaves(real.student), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    assert not same(call(look, shared, fresh), ahead)
    # One with an optimizer of its own starts afresh, whatever the student's moments are.
    assert same(call(look, LEARNER, fresh), call(look, LEARNER, state))


def test_without_a_teaching_weight_it_is_plain_training_bit_for_bit():
    unheard, metrics = several(replace(LEARNER, teaching_weight=0.0), 2)
    plain, _ = several(WITHOUT, 2)
    assert metrics["meta_gradient_norm"] == 0
    assert same(unheard.student, plain.student)
    assert same(unheard.optimizer, plain.optimizer)


def test_a_step_may_hold_several_iterations():
    state, _ = several(replace(WITHOUT, iterations=2), 1)
    assert int(state.iteration) == 2
    by_hand = begin(WITHOUT)
    for key in jr.split(jr.key(0), 2):
        by_hand, _ = step(WITHOUT, by_hand, key)
    for a, b in zip(jax.tree.leaves(state.student), jax.tree.leaves(by_hand.student), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_a_fixed_teacher_stays_and_teaches_from_all_examples():
    learner = replace(LEARNER, teacher_training=None, batches=Batches(4))
    before = begin(learner)
    assert sorted(before.order.train.tolist()) == list(range(TRAIN))
    after, metrics = several(learner, 1, before)
    assert same(after.teacher, before.teacher)
    assert not same(after.student, before.student)
    assert set(metrics) == {"loss", "label_loss", "teaching_loss"}


@pytest.mark.slow
def test_an_auxiliary_head_is_drawn_towards_the_privileged_data():
    learner = replace(
        LEARNER,
        student=MLPStudentShape(4, 1, hidden=(UNITS,), auxiliary=2 * FRAMES),
        teacher=Ready(Copy()),
        teaching_loss=SquaredError(),
        teacher_training=None,
        batches=Batches(4),
    )
    state, metrics = several(learner, 60)
    train = DATA.data.train
    offered = jax.vmap(state.student)(train.inputs)[1][0]
    error = jnp.mean(jnp.square(offered - train.privileged.reshape(TRAIN, -1)))
    assert error < 0.5 * jnp.mean(jnp.square(train.privileged))
    assert metrics["loss"] > metrics["label_loss"]


def test_an_oracle_is_told_the_order_of_the_frames():
    boards = jr.bernoulli(jr.key(0), 0.4, (6, FRAMES, 5, 5)).astype(jnp.float32)
    data = PrivilegedExamples(boards[:, 0], boards, boards[:, 2, 2, 2].astype(jnp.int32))
    learner = replace(
        LEARNER,
        source=Given(PrivilegedSplit(data, data, hint=jnp.array([2, 0, 1]))),
        student=MapStudentShape(num_layers=3, num_maps=2),
        teacher=AttentionShape(1e3, num_layers=3, num_maps=2, oracle_every=1),
        teaching_loss=SquaredError(),
        teacher_training=None,
        batches=Batches(3),
        tells_teacher=True,
    )
    attention = begin(learner).teacher.attention[:, :, 0]
    np.testing.assert_array_equal(attention, [[0, 0, 1], [1, 0, 0], [0, 1, 0]])


def test_the_split_is_disjoint_fixed_and_its_batches_are_a_prefix():
    order = SPLIT.init(TRAIN, jr.key(0))
    assert sorted([*order.validation.tolist(), *order.train.tolist()]) == list(range(TRAIN))
    assert len(order.validation) == 12
    seen, held = set(), set(order.validation.tolist())
    for number in range(6):
        before = order
        order, inner = SPLIT.next(order, 2, 11, jr.key(number))
        assert inner.shape == (11, 4)
        # The first batches are what the student trains on: new ones until the order is used up.
        two = set(inner[:2].reshape(-1).tolist())
        assert len(two) == 8
        if number % 2 == 1:
            assert same(order.train, before.train)
            assert not seen & two
        seen = two
        assert not held & set(inner.reshape(-1).tolist())
        assert inner[4:8].tolist() == inner[:4].tolist()  # four batches, then again
        assert held == set(order.validation.tolist())
    assert int(order.next_batch) == 4
    order, inner = SPLIT.next(order, 9, 9, jr.key(0))  # more steps than there are batches
    assert inner.shape == (9, 4)


def test_a_split_can_be_drawn_anew():
    resampled = Batches(4, Validation(0.4, resample=True))
    order = resampled.init(TRAIN, jr.key(0))
    held = []
    for number in range(3):
        order, rows = resampled.next(order, 2, 5, jr.key(number))
        held.append(frozenset(order.validation.tolist()))
        assert not held[-1] & set(rows.reshape(-1).tolist())
        assert rows[0].tolist() == order.train[:4].tolist()
    assert len(set(held)) == 3
    ascending = Batches(4, Validation(0.4, resample=True, ascending=True))
    _, rows = ascending.next(order, 2, 4, jr.key(0))
    assert rows.reshape(-1).tolist() == sorted(rows.reshape(-1).tolist())
    assert rows.reshape(-1).tolist() != list(range(16))
    with pytest.raises(ValueError, match="`ascending` belongs to `resample`"):
        Validation(ascending=True)


def test_views_make_privileged_data_worse():
    privileged = {"a": DATA.data.train.privileged, "b": DATA.data.train.privileged[..., 0]}
    permuted = jax.jit(PermutedFrames())(privileged, jr.key(0))
    np.testing.assert_array_equal(permuted["a"][..., 0], permuted["b"])  # frames stay together
    np.testing.assert_allclose(
        np.sort(permuted["b"], axis=1), np.sort(privileged["b"], axis=1), rtol=1e-6
    )
    assert len(np.unique(np.argsort(permuted["b"], axis=1), axis=0)) > 3  # each in its own order
    noisy = jax.jit(NoisyFrames(2))(privileged, jr.key(0))
    np.testing.assert_array_equal(noisy["a"][:, :1], privileged["a"][:, :1])
    assert not np.any(noisy["a"][:, 1:] == privileged["a"][:, 1:])
    assert abs(float(np.std(jax.jit(Noise())(privileged, jr.key(0))["a"])) - 1) < 0.2
    shuffled = jax.jit(ShuffledRows())(privileged, jr.key(0))
    np.testing.assert_array_equal(shuffled["a"][..., 0], shuffled["b"])
    assert not same(shuffled, privileged)
    with pytest.raises(ValueError, match="how many of the 3 frames are replaced; got 4"):
        NoisyFrames(4)(privileged, jr.key(0))
    with pytest.raises(ValueError, match="frames are the second axis"):
        PermutedFrames()(jnp.zeros(3), jr.key(0))
    # A learner draws its view once, and teaches from it.
    state = begin(replace(WITHOUT, view=NoisyFrames(3)))
    assert not np.any(state.privileged == DATA.data.train.privileged)


def test_seeds_side_by_side_equal_one_at_a_time():
    states = [begin(LEARNER, seed) for seed in (0, 1)]
    keys = jr.split(jr.key(3), 2)
    together, _ = eqx.filter_jit(eqx.filter_vmap(LEARNER.step))(stack_states(states), keys)
    for number, (state, key) in enumerate(zip(states, keys, strict=True)):
        alone, _ = step(LEARNER, state, key)
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(a[number], b, rtol=1e-4, atol=1e-5)


def test_a_run_remembers_its_best_moment():
    learner = replace(
        WITHOUT,
        source=Drawn(sample),
        watches=(Watch("test_loss", highest=False), Watch("validation_accuracy", name="chosen")),
    )
    found = fit(learner, steps=4, eval_every=1, seeds=[0, 1], progress=False)
    curves = found.history.curves()
    losses = curves["test_loss"]
    assert not np.allclose(losses[:, 0], losses[:, 1])  # the seeds have their own data
    np.testing.assert_allclose(curves["best_test_loss"], np.minimum.accumulate(losses), rtol=1e-6)
    when = np.argmin(losses, axis=0)
    np.testing.assert_array_equal(curves["best_iteration"][-1], when)
    np.testing.assert_allclose(
        curves["best_gap_loss"][-1],
        np.take_along_axis(losses - curves["train_loss"], when[None], axis=0)[0],
        atol=1e-6,
    )
    assert np.all(np.diff(curves["chosen_validation_accuracy"], axis=0) >= 0)
    assert found.final["student_parameters"].tolist() == [4 * 8 + 8 + 8 + 1] * 2
    assert found.final["teacher_parameters"].tolist() == [0, 0]


def test_what_is_inspected():
    state = begin(LEARNER)
    shown = call(LEARNER.inspect, state, jr.key(0))
    assert shown["predictions"].shape == (TEST, 1)
    assert shown["gates"].shape == (UNITS,)
    assert shown["layer_sizes"].tolist() == [UNITS]
    assert (shown["gates"] > 0).all()


def test_a_grid_of_numbers_is_one_more_axis():
    points = [replace(WITHOUT, optimizer=Adam(rate)) for rate in (1e-2, 1e-3, 1e38)]
    grid = GridLearner.of(points)
    assert len(jax.tree.leaves(grid.varied)) == 1  # the data are there once
    state, metrics = several(grid, 3, draw(grid, jr.key(0)))
    assert float(metrics["diverged"]) == pytest.approx(1 / 3)
    assert state.diverged.tolist() == [False, False, True]
    evaluated = call(grid.evaluate, state, jr.key(0))
    for number in range(2):
        alone, _ = several(points[number], 3)
        for name, value in call(WITHOUT.evaluate, alone, jr.key(0)).items():
            np.testing.assert_allclose(
                evaluated[f"{name}/{number}"], value, rtol=1e-3, atol=1e-5, err_msg=name
            )
    assert all(np.isfinite(value) for value in evaluated.values())  # the third is held
    assert set(grid.final(state, jr.key(0))) >= {"student_parameters/0", "student_parameters/2"}


def test_all_numbers_that_scale_can_vary_in_a_grid():
    other = replace(
        LEARNER,
        optimizer=Adam(1e-3, b1=0.5, l2=1e-4),
        teaching_loss=GatedSquaredError(2.0, 1.0),
        teaching_weight=1.0,
        teacher_training=TeacherTraining(
            Adam(1e-4, b1=0.0), Momentum(0.1, 0.5, 1e-3), clip=1.0, inner_steps=5, keep="everything"
        ),
    )
    grid = GridLearner.of([LEARNER, other])
    assert len(jax.tree.leaves(grid.varied)) == 12
    assert same(grid.point(1), other)
    start = eqx.filter_eval_shape(grid.init, jr.key(0))
    assert start.points.teacher.layers[0].weight.shape == (2, 5, 6)
    with pytest.raises(ValueError, match="may differ in numbers only"):
        GridLearner.of([LEARNER, replace(LEARNER, student_steps=3)])
    with pytest.raises(ValueError, match="at least one learner"):
        GridLearner.of([])


def test_an_inner_loop_that_diverges_is_no_number_and_is_explained():
    wild = replace(
        LEARNER, teacher_training=replace(LEARNER.teacher_training, inner=Momentum(1e25))
    )
    state = begin(wild)
    _, metrics = step(wild, state, jr.key(0))
    assert np.isnan(metrics["meta_loss"])  # at which `fit` stops
    with pytest.raises(DivergedError, match=r"inner loop diverged.*learning rate \(now 1e\+25\)"):
        wild.check_inner_loop(state, jr.key(0))
    LEARNER.check_inner_loop(state, jr.key(0))


def test_a_runaway_inner_loop_can_be_left_out():
    def trained(rate, skips):
        training = replace(LEARNER.teacher_training, inner=Momentum(rate), skips_runaways=skips)
        return step(replace(LEARNER, teacher_training=training), state, jr.key(0))

    state = begin(LEARNER)
    held, metrics = trained(1e25, skips=True)
    assert metrics["runaways"] == 1
    assert all(np.isfinite(value) for value in metrics.values())
    assert eqx.tree_equal(held.teacher, state.teacher)
    assert eqx.tree_equal(held.teacher_optimizer, state.teacher_optimizer)
    assert not eqx.tree_equal(held.student, state.student)
    calm, metrics = trained(1e-2, skips=True)
    assert metrics["runaways"] == 0
    plain, expected = trained(1e-2, skips=False)
    assert eqx.tree_equal(calm.teacher, plain.teacher, rtol=1e-6, atol=1e-7)
    assert metrics["meta_loss"] == pytest.approx(float(expected["meta_loss"]))


def test_a_meta_gradient_that_is_too_long_counts_as_a_runaway():
    def trained(longest):
        training = replace(
            LEARNER.teacher_training,
            inner=Momentum(1e-2),
            skips_runaways=True,
            longest_meta_gradient=longest,
        )
        return step(replace(LEARNER, teacher_training=training), state, jr.key(0))

    state = begin(LEARNER)
    taken, metrics = trained(1e6)
    length = float(metrics["meta_gradient_norm"])
    assert metrics["runaways"] == 0
    assert 0 < length < 1e6
    held, metrics = trained(length / 2)
    assert metrics["runaways"] == 1
    assert eqx.tree_equal(held.teacher, state.teacher)
    assert not eqx.tree_equal(taken.teacher, state.teacher)
    with pytest.raises(ValueError, match="needs `skips_runaways=True`"):
        replace(LEARNER.teacher_training, longest_meta_gradient=1.0)


def with_train(**sides):
    return Given(DATA.data._replace(train=DATA.data.train._replace(**sides)))


def test_data_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"inputs \[30\], privileged \[29\], labels \[30\]"):
        replace(LEARNER, source=with_train(privileged=jnp.zeros((29, FRAMES, 2))))
    with pytest.raises(ValueError, match="needs privileged data"):
        replace(LEARNER, source=with_train(privileged=None))
    with pytest.raises(ValueError, match="have no labels"):
        replace(LEARNER, source=with_train(labels=None))
    with pytest.raises(ValueError, match="hold a single number"):
        replace(LEARNER, source=with_train(labels=jnp.zeros(())))
    with pytest.raises(ValueError, match=r"share of 0\.9 leaves 3 of 30.*batch has 4"):
        replace(LEARNER, batches=Batches(4, Validation(0.9)))
    with pytest.raises(ValueError, match="splits off none of the 30"):
        replace(LEARNER, batches=Batches(4, Validation(0.01)))
    with pytest.raises(ValueError, match="no batch can be made: 30 of 30"):
        replace(WITHOUT, batches=Batches(31))
    with pytest.raises(ValueError, match=r"between 0 and 1; got 1\.0"):
        Validation(1.0)


def test_students_and_teachers_that_do_not_fit_are_refused():
    def refused(message, kind=ValueError, **settings):
        with pytest.raises(kind, match=message):
            eqx.filter_eval_shape(replace(LEARNER, **settings).init, jr.key(0))

    refused("offers no activations", student=MLPStudentShape(4, 1, hidden=(8,), offers=()))
    refused("pair of its prediction", TypeError, student=lambda key: eqx.nn.Linear(4, 1, key=key))
    refused(r"size 16.*got \[7\]", teacher=MLPTeacherShape(2 * FRAMES, 7))
    refused("teacher has no array of floats", teacher=Ready(Copy()))
    refused("student has no array of floats", student=Ready(lambda x: (x, x)))
    refused("no metric called 'test_mse'", LookupError, watches=(Watch("test_mse"),))
    with pytest.raises(ValueError, match="needs a `teacher`"):
        replace(LEARNER, teacher=None)
    with pytest.raises(ValueError, match="needs a `teaching_loss`"):
        replace(LEARNER, teaching_loss=None)
    with pytest.raises(ValueError, match="give `Batches` a `Validation`"):
        replace(LEARNER, batches=Batches(4))
    with pytest.raises(ValueError, match="`student_steps` must be at least 1"):
        replace(LEARNER, student_steps=0)
    with pytest.raises(ValueError, match="its teacher is fixed"):
        replace(LEARNER, teacher_training=None).check_inner_loop(begin(LEARNER), jr.key(0))


def test_a_learner_that_is_built_again_needs_no_new_program():
    def build():
        return replace(
            LEARNER,
            teacher=ConvTeacherShape(FRAMES, 2, 2 * UNITS, maps=(2,), hidden=(3,)),
            watches=(Watch("test_loss"),),
        )

    statics = [eqx.partition(build(), eqx.is_array)[1] for _ in range(2)]
    assert jax.tree.structure(statics[0]) == jax.tree.structure(statics[1])
    assert jax.tree.leaves(statics[0]) == jax.tree.leaves(statics[1])
    assert hash(tuple(jax.tree.leaves(statics[0]))) == hash(tuple(jax.tree.leaves(statics[1])))


def sample_projected_xor(key):
    """Task A of the thesis in 32 dimensions: privileged data tell the projection, up to signs."""
    matrix_key, *keys = jr.split(key, 3)
    matrix = jr.uniform(matrix_key, (32, 2), minval=-1.0, maxval=1.0) / 32**0.5

    def draw_some(key, count):
        x_key, sign_key = jr.split(key)
        x = jr.normal(x_key, (count, 32))
        hidden = x @ matrix
        signs = jr.rademacher(sign_key, (count, 2), jnp.float32)
        privileged = jnp.concatenate([signs, signs * hidden], axis=1)
        return PrivilegedExamples(x, privileged, jnp.sum(hidden > 0, axis=1) % 2)

    return PrivilegedSplit(draw_some(keys[0], 192), draw_some(keys[1], 1000))


@pytest.mark.slow
def test_a_teacher_helps_where_labels_alone_do_not():
    jax.config.update("jax_disable_most_optimizations", False)
    learner = DistillationLearner(
        source=Drawn(sample_projected_xor),
        student=MLPStudentShape(
            32, 1, hidden=(32, 128), offers=(0,), linear=(0,), weight_norm=False
        ),
        objective=BinaryLabels(),
        optimizer=Adam(1e-3, b1=0.5, l2=1e-8),
        teacher=MLPTeacherShape(4, 32),
        teaching_loss=SquaredError(),
        teaching_weight=1e3,
        teacher_training=TeacherTraining(Adam(3e-4, b1=0.5), inner_steps=32),
        batches=Batches(16, Validation(0.5, resample=True)),
        student_steps=6,
        watches=(Watch("test_accuracy"),),
    )
    without = replace(learner, teacher=None, teacher_training=None, batches=Batches(16))
    taught, plain = (
        fit(each, steps=150, eval_every=150, seeds=[0, 1], progress=False).final
        for each in (learner, without)
    )
    assert np.all(taught["best_test_accuracy"] > plain["best_test_accuracy"] + 0.15)
