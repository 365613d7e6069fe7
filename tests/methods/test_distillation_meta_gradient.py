"""The meta-gradient against finite differences, and against loops that are written out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

from recombine.methods.distillation import (
    Adam,
    BinaryLabels,
    GatedSquaredError,
    Lesson,
    MLPStudentShape,
    MLPTeacherShape,
    Momentum,
    PrivilegedExamples,
    TeacherTraining,
    ask,
    inner_loop,
    meta_gradient,
    sanitize,
    targets_of,
)

STEPS, BATCH, UNITS = 6, 4, 7


def seeded(seed):
    return jr.key(seed, impl="rbg")  # compiles faster than the default


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are many here, and small."""


@pytest.fixture
def _float64():
    with jax.enable_x64(True):
        yield


def examples(key, *shape):
    keys = jr.split(key, 3)
    return PrivilegedExamples(
        jr.normal(keys[0], (*shape, 5)),
        jr.normal(keys[1], (*shape, 3)),
        jr.bernoulli(keys[2], 0.5, shape).astype(jnp.int32),
    )


def problem(*, batch_norm=False, weight_norm=True, activation=jnp.tanh):
    shape = MLPStudentShape(5, 1, hidden=(UNITS,), weight_norm=weight_norm, activation=activation)
    teacher = MLPTeacherShape(3, 2 * UNITS, hidden=(6,), batch_norm=batch_norm)
    return draw(teacher, shape)


@eqx.filter_jit
def draw(teacher, student):
    data = examples(seeded(2), STEPS, BATCH), examples(seeded(3), 9)
    return teacher(seeded(1)), student(seeded(0)), *data


@eqx.filter_jit
def run(parts, inner, lesson, training, opt_state=None):
    optimizer = inner.transformation()
    return meta_gradient(
        *parts, lesson=lesson, training=training, optimizer=optimizer, opt_state=opt_state
    )


def gradient(parts, loop, *, alpha=3.0, teaching_loss=None, opt_state=None, **settings):
    lesson = Lesson(BinaryLabels(), teaching_loss or GatedSquaredError(), alpha)
    return run(
        parts, loop, lesson, TeacherTraining(Adam(), inner_steps=STEPS, **settings), opt_state
    )


def some_steps(parts, steps):
    teacher, student, batches, validation = parts
    return teacher, student, jax.tree.map(lambda x: x[steps], batches), validation


def written_out(parts, inner, alpha=3.0):
    """The same thing as a plain loop, with the teacher asked within every step."""
    teacher, student, batches, validation = parts
    optimizer, gated = inner.transformation(), GatedSquaredError()

    def label_loss(student, batch):
        logits = jax.vmap(student)(batch.inputs)[0][:, 0]
        return jnp.mean(optax.sigmoid_binary_cross_entropy(logits, batch.labels))

    def end(teacher):
        def loss(student, batch):
            hidden = ask(student, batch.inputs).activations[0]
            target, m = jnp.split(targets_of(teacher, batch.privileged), 2, axis=1)
            gate = jax.nn.sigmoid(m / gated.scale + gated.shift)
            teaching = jnp.mean(gate * jnp.square(hidden - target))
            return label_loss(student, batch) + alpha * teaching

        theta, state = student, optimizer.init(eqx.filter(student, eqx.is_inexact_array))
        for step in range(len(batches.labels)):
            batch = jax.tree.map(lambda x, s=step: x[s], batches)
            grads = eqx.filter_grad(loss)(theta, batch)
            updates, state = optimizer.update(grads, state, theta)
            theta = eqx.apply_updates(theta, updates)
        return label_loss(theta, validation)

    return eqx.filter_jit(eqx.filter_value_and_grad(end))(teacher)


def flat(grads):
    return np.asarray(ravel_pytree(grads)[0])


INNER = {
    "momentum": lambda: Momentum(0.1, momentum=0.75, l2=1e-3),
    "adam": lambda: Adam(0.05, l2=1e-3),
}


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize("name", [pytest.param("momentum", marks=pytest.mark.slow), "adam"])
def test_every_component_agrees_with_central_differences(name):
    parts, inner = problem(), INNER[name]()
    found = gradient(parts, inner)
    learned, rest = eqx.partition(parts[0], eqx.is_inexact_array)
    start, shape_up = ravel_pytree(learned)

    def loss(vector):
        lesson = Lesson(BinaryLabels(), GatedSquaredError(), 3.0)
        teacher = eqx.combine(shape_up(vector), rest)
        training = TeacherTraining(Adam(), inner_steps=STEPS)
        end = inner_loop(
            teacher,
            *parts[1:3],
            lesson=lesson,
            training=training,
            optimizer=inner.transformation(),
        )
        return lesson.label_loss(end.params, parts[3])

    steps = 1e-5 * jnp.eye(len(start))
    points = start[None] + jnp.concatenate([steps, -steps])
    above, below = np.split(np.asarray(jax.jit(jax.vmap(loss))(points)), 2)
    ours = flat(found.grads)
    assert np.max(np.abs(ours)) > 1e-5
    assert np.max(np.abs((above - below) / 2e-5 - ours)) < 1e-6 * np.max(np.abs(ours))


@pytest.mark.usefixtures("_float64")
def test_it_equals_a_loop_written_out_with_the_teacher_inside():
    """Hoisted out of the loop, batches keep their own batch statistics."""
    inner = INNER["momentum"]()
    parts = some_steps(problem(batch_norm=True, weight_norm=False), slice(2))
    loss, grads = written_out(parts, inner)
    found = gradient(parts, inner, inner=inner, packed=True)
    np.testing.assert_allclose(found.loss, loss, rtol=1e-12)
    np.testing.assert_allclose(flat(found.grads), flat(grads), rtol=1e-10, atol=1e-14)


@pytest.mark.usefixtures("_float64")
def test_without_a_teaching_weight_it_is_exactly_zero():
    assert not np.any(flat(gradient(problem(), INNER["momentum"](), alpha=0.0).grads))


@pytest.mark.slow
@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize(
    "settings",
    [
        {"keep": "everything"},
        {"keep": "segments"},
        {"hoist": False},
        {"inner": Adam(), "packed": True},
    ],
)
def test_how_it_is_computed_changes_nothing(settings):
    parts, inner = problem(batch_norm=True), INNER["adam"]()
    whole, other = gradient(parts, inner), gradient(parts, inner, **settings)
    np.testing.assert_allclose(flat(other.grads), flat(whole.grads), rtol=1e-10, atol=1e-14)


@pytest.mark.slow
@pytest.mark.usefixtures("_float64")
def test_without_the_inner_hessian_it_is_near_but_another_one():
    parts, inner = problem(), INNER["momentum"]()
    whole, partial = (
        flat(gradient(parts, inner, order=order).grads) for order in ("second", "partial")
    )
    assert 0.5 < np.dot(partial, whole) / np.linalg.norm(partial) / np.linalg.norm(whole) < 0.99999


@pytest.mark.slow
@pytest.mark.usefixtures("_float64")
def test_the_last_steps_alone_are_those_after_steps_that_are_constants():
    parts, inner = problem(), INNER["momentum"]()
    before = gradient(some_steps(parts, slice(4)), inner).inner
    rest = some_steps((parts[0], before.params, *parts[2:]), slice(4, 6))
    expected = gradient(rest, inner, opt_state=before.opt_state)
    found = gradient(parts, inner, last_steps=2)
    np.testing.assert_allclose(flat(found.grads), flat(expected.grads), rtol=1e-10, atol=1e-15)
    assert found.inner.losses.shape == (STEPS,)


@pytest.mark.usefixtures("_float64")
def test_a_dead_unit_leaves_the_gradient_finite():
    teacher, student, *data = problem()
    # Saturated, and its gate closed for good: no loss has a gradient for what feeds unit 0.
    bias = student.layers[0].bias.at[0].set(-100.0)
    student = eqx.tree_at(lambda s: s.layers[0].bias, student, bias)
    closed = teacher.layers[-1].bias.at[UNITS].set(-1e6)
    teacher = eqx.tree_at(lambda t: t.layers[-1].bias, teacher, closed)
    found = flat(gradient((teacher, student, *data), Adam(0.05)).grads)
    assert np.isfinite(found).all()
    assert np.any(found)
    unguarded = gradient((teacher, student, *data), Adam(0.05, eps_root=0.0))
    assert not np.isfinite(flat(unguarded.grads)).all()


def test_sanitizing_zeroes_what_is_no_number_unless_nothing_is():
    grads = {"a": jnp.array([1.0, jnp.nan, jnp.inf, -9.0]), "b": jnp.array([jnp.nan, jnp.nan])}
    found = sanitize(grads, 5.0)
    assert found.grads["a"].tolist() == [1.0, 0.0, 5.0, -5.0]
    assert np.isnan(found.grads["b"]).all()
    assert (int(found.clipped), int(found.replaced)) == (2, 1)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="`inner_steps` must be at least 1; got 0"):
        TeacherTraining(Adam(), inner_steps=0)
    with pytest.raises(ValueError, match="between 1 and the 3 inner steps; got 4"):
        TeacherTraining(Adam(), inner_steps=3, last_steps=4)
    with pytest.raises(ValueError, match="got 'first': where every update is a constant"):
        TeacherTraining(Adam(), order="first")
    with pytest.raises(ValueError, match="`packed` inner loop starts with an optimizer of its own"):
        TeacherTraining(Adam(), packed=True)
    with pytest.raises(ValueError, match="`keep` must be one of everything, steps, segments"):
        TeacherTraining(Adam(), keep="all")
