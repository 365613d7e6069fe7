"""The inner loop against one that is written out, against finite differences, and its memory."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from recombine.methods.adaptation import (
    Adapted,
    DivergedError,
    adapt,
    differentiable_adamw,
    raise_if_diverged,
    segment_length,
)


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are many here, and small."""


@pytest.fixture
def _float64():
    with jax.enable_x64(True):
        yield


SGD = optax.chain(optax.add_decayed_weights(1e-2), optax.sgd(0.1, momentum=0.75))
ADAMW = differentiable_adamw(0.1)
STEPS = 7  # more than are worth a segment, and no multiple of one


def curved(params, batch, outer):
    """A loss in which parameters, batch and outer parameters all meet, nowhere quadratic."""
    hidden = jnp.tanh(params["w"] * batch + outer)
    return jnp.mean(jnp.square(hidden - params["b"])) + 0.1 * jnp.sum(jnp.cos(params["w"]))


def example(dtype=None):
    keys = jr.split(jr.key(0), 3)
    start = {"w": jr.normal(keys[0], (3,), dtype), "b": jnp.asarray(0.3, dtype)}
    return start, jr.normal(keys[1], (3,), dtype), jr.normal(keys[2], (STEPS, 3), dtype)


def written_out(loss, params, optimizer, batches):
    state, losses = optimizer.init(params), []
    for batch in batches:
        value, grads = jax.value_and_grad(loss)(params, batch)
        updates, state = optimizer.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        losses.append(value)
    return params, state, jnp.stack(losses)


def outcome(params):
    return jnp.sum(jnp.sin(params["w"])) + params["b"] ** 2


def assert_close(found, expected, rtol=1e-9):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)


@pytest.mark.usefixtures("_float64")
@pytest.mark.parametrize(
    ("optimizer", "keeps"),
    [(SGD, ("everything", "steps", "segments")), (ADAMW, ("segments",))],
    ids=["sgd", "adamw"],
)
def test_the_loop_and_its_derivatives_equal_one_written_out(optimizer, keeps):
    arguments = example()

    def looped(keep):
        def run(start, outer, batches):
            found = adapt(
                lambda p, b: curved(p, b, outer), start, optimizer, batches=batches, keep=keep
            )
            return outcome(found.params), (found.params, found.opt_state, found.losses)

        return jax.value_and_grad(run, argnums=(0, 1, 2), has_aux=True)

    def plain(start, outer, batches):
        found = written_out(lambda p, b: curved(p, b, outer), start, optimizer, batches)
        return outcome(found[0]), found

    expected = jax.value_and_grad(plain, argnums=(0, 1, 2), has_aux=True)(*arguments)
    for keep in keeps:
        assert_close(jax.jit(looped(keep))(*arguments), expected)


@pytest.mark.usefixtures("_float64")
def test_leaves_packed_into_one_vector_change_nothing():
    start, outer, batches = example()

    def run(packed):
        def end(start, outer):
            found = adapt(
                lambda p, b: curved(p, b, outer), start, ADAMW, batches=batches, packed=packed
            )
            return outcome(found.params), (found.params, found.losses, found.finite)

        return jax.jit(jax.value_and_grad(end, argnums=(0, 1), has_aux=True))(start, outer)

    assert_close(run(packed=True), run(packed=False))


@pytest.mark.usefixtures("_float64")
def test_derivatives_agree_with_finite_differences():
    start, outer, batches = example()

    @jax.jit
    def run(start, outer):
        loop = adapt(lambda p, b: curved(p, b, outer), start, ADAMW, batches=batches)
        return outcome(loop.params)

    grads = jax.jit(jax.grad(run, argnums=(0, 1)))(start, outer)
    leaves, tree = jax.tree.flatten((start, outer))
    for seed in range(3):
        keys = jr.split(jr.key(seed), len(leaves))
        way = [jr.normal(k, leaf.shape) for k, leaf in zip(keys, leaves, strict=True)]

        def moved(by, way=way):
            return tree.unflatten([x + by * d for x, d in zip(leaves, way, strict=True)])

        measured = (run(*moved(1e-6)) - run(*moved(-1e-6))) / 2e-6
        predicted = sum(jnp.sum(g * d) for g, d in zip(jax.tree.leaves(grads), way, strict=True))
        np.testing.assert_allclose(measured, predicted, rtol=1e-6)


@pytest.mark.usefixtures("_float64")
def test_orders_drop_the_derivatives_they_say():
    # Descent on a quadratic: x' = x - r (h x - y), so that all derivatives are known.
    rate, bend, steps = 0.1, 3.0, 4

    def end(start, pull, order):
        loss = lambda x, _: 0.5 * bend * x**2 - pull * x  # noqa: E731
        return adapt(loss, start, optax.sgd(rate), num_steps=steps, order=order).params

    shrink = 1 - rate * bend
    expected = {
        "second": (shrink**steps, rate * sum(shrink**i for i in range(steps))),
        "first": (1.0, 0.0),
        "partial": (1.0, rate * steps),
    }
    values = set()
    for order, derivatives in expected.items():
        value, grads = jax.value_and_grad(end, argnums=(0, 1))(2.0, 0.7, order)
        np.testing.assert_allclose(grads, derivatives, rtol=1e-12, atol=1e-12)
        values.add(float(value))
    assert len(values) == 1


def test_only_the_chosen_leaves_move():
    params = {"body": jnp.ones(2), "head": jnp.ones(2), "count": jnp.array(3), "name": "net"}

    def loss(params, _):
        return jnp.sum(params["body"] * params["head"]) * params["count"]

    head = {"body": False, "head": True, "count": False, "name": False}
    found = adapt(loss, params, optax.sgd(0.1), num_steps=2, adapts=head).params
    np.testing.assert_allclose(found["head"], 1 - 0.6, rtol=1e-6)
    assert eqx.tree_equal({**found, "head": None}, {**params, "head": None})
    everything = adapt(loss, params, optax.sgd(0.1), num_steps=2).params
    assert not jnp.any(everything["body"] == 1.0)


def test_a_loop_can_be_continued():
    start, outer, batches = example()

    def run(start, batches, state=None):
        return adapt(lambda p, b: curved(p, b, outer), start, SGD, batches=batches, opt_state=state)

    whole = run(start, batches)
    half = run(start, batches[:4])
    rest = run(half.params, batches[4:], half.opt_state)
    assert_close((rest.params, rest.opt_state), (whole.params, whole.opt_state), rtol=1e-5)
    np.testing.assert_allclose(jnp.concatenate([half.losses, rest.losses]), whole.losses, rtol=1e-5)


def test_keys_can_be_batches():
    def loss(x, key):
        return jnp.mean(jnp.square(x - jr.normal(key, (4,))))

    keys = jr.split(jr.key(1), STEPS)
    drawn = jax.vmap(lambda key: jr.normal(key, (4,)))(keys)
    lazily = adapt(loss, jnp.zeros(()), optax.sgd(0.1), batches=keys)
    ready = adapt(
        lambda x, b: jnp.mean(jnp.square(x - b)), jnp.zeros(()), optax.sgd(0.1), batches=drawn
    )
    np.testing.assert_allclose(lazily.params, ready.params, rtol=1e-6)


def test_many_tasks_at_once_equal_one_at_a_time():
    starts = jnp.linspace(-1.0, 1.0, 3)

    def run(start):
        return adapt(lambda x, _: jnp.cos(3 * x), start, ADAMW, num_steps=9)

    together = jax.vmap(run)(starts)
    for number, start in enumerate(starts):
        alone = run(start)
        np.testing.assert_allclose(together.params[number], alone.params, rtol=1e-5)
        np.testing.assert_allclose(together.losses[number], alone.losses, rtol=1e-5)
    assert together.finite.all()


def test_no_steps_leave_the_start():
    found = adapt(lambda x, _: x**2, 2.0, optax.adam(0.1), num_steps=0)
    assert float(found.params) == 2.0
    assert found.losses.shape == (0,)
    assert bool(found.finite)
    raise_if_diverged(found)


def teaching(phi, inputs, weight, *, hoisted):
    """Trajectory distillation in small: 96 steps with momentum on batches of their own."""
    optimizer = optax.chain(optax.add_decayed_weights(1e-8), optax.sgd(1e-2, momentum=0.75))
    targets = jnp.tanh(inputs @ phi)

    def loss(theta, batch):
        x, target = batch if hoisted else (batch, jnp.tanh(batch @ phi))
        hidden = x @ theta
        return jnp.mean(jnp.square(hidden - x)) + weight * jnp.mean(jnp.square(hidden - target))

    batches = (inputs, targets) if hoisted else inputs
    theta = adapt(loss, 0.1 * jnp.eye(3), optimizer, batches=batches).params
    return jnp.mean(jnp.square(theta - jnp.eye(3)))


@pytest.mark.usefixtures("_float64")
def test_a_teacher_learns_through_targets_that_were_computed_beforehand():
    inputs = jr.normal(jr.key(2), (96, 4, 3))
    phi = jr.normal(jr.key(3), (3, 3))
    gradient = jax.jit(jax.grad(teaching), static_argnames="hoisted")
    found = gradient(phi, inputs, 1.0, hoisted=True)
    assert jnp.linalg.norm(found) > 1e-3
    np.testing.assert_allclose(found, gradient(phi, inputs, 1.0, hoisted=False), rtol=1e-9)
    assert not jnp.any(gradient(phi, inputs, 0.0, hoisted=True))


def test_adam_has_a_derivative_where_a_gradient_is_zero():
    def end(start, optimizer):
        return adapt(lambda x, _: jnp.sum(x**2 * alive), start, optimizer, num_steps=3).params.sum()

    start, alive = jnp.ones(2), jnp.array([1.0, 0.0])
    assert jnp.isfinite(jax.grad(end)(start, ADAMW)).all()
    assert not jnp.isfinite(jax.grad(end)(start, optax.adam(0.1))).all()


def memory(num_steps, keep):
    """Bytes that the gradient through so many steps needs beside its arguments and results."""
    inputs = jnp.ones((64, 16))

    def loss(params, _):
        return jnp.mean(jnp.square(jnp.tanh(jnp.tanh(inputs @ params[0]) @ params[1]) - 1.0))

    def after(params):
        found = adapt(loss, params, optax.sgd(1e-2), num_steps=num_steps, keep=keep).params
        return loss(found, None)

    params = (jnp.ones((16, 16)), jnp.ones((16, 2)))
    compiled = jax.jit(jax.grad(after)).lower(params).compile()
    return compiled.memory_analysis().temp_size_in_bytes


def test_memory_grows_far_slower_than_steps():
    sizes = {steps: memory(steps, "segments") for steps in (1, 10, 100, 1_000)}
    assert sizes[1_000] < 4 * sizes[10]
    assert sizes[100] < 2 * sizes[10]
    assert memory(100, "everything") > 10 * sizes[100]
    assert sizes[1_000] < 0.1 * memory(1_000, "steps")


def test_segments_are_near_the_root():
    for steps in range(1, 400):
        length = segment_length(steps)
        count, rest = divmod(steps, length)
        assert count + length <= 3 * steps**0.5 + 1
        assert 0 <= rest < length


def test_divergence_is_told_with_what_to_do():
    found = adapt(lambda x, _: x**2, 1.0, optax.sgd(1e8), num_steps=10)
    assert not found.finite
    with pytest.raises(DivergedError, match=r"step 4 of 10.*learning rate \(now 1e\+08\).*clip"):
        raise_if_diverged(found, learning_rate=1e8)
    growing = adapt(lambda x, _: x**2, 1.0, optax.sgd(2.0), num_steps=5)
    assert growing.finite
    with pytest.raises(DivergedError, match=r"grew from 1 to 6\.56e"):
        raise_if_diverged(growing)
    losses = jnp.array([[1.0, 0.5], [1.0, 100.0]])
    with pytest.raises(DivergedError, match="of task 1 diverged"):
        raise_if_diverged(Adapted(None, None, losses, jnp.array([True, True])))
    falls = adapt(lambda x, _: x**2, 1.0, optax.sgd(0.1), num_steps=5)
    raise_if_diverged(falls)


def test_bad_input_is_refused():
    def run(params=1.0, **settings):
        return adapt(lambda x, _: jnp.sum(x**2), params, optax.sgd(0.1), **settings)

    with pytest.raises(ValueError, match="needs `num_steps`"):
        run()
    with pytest.raises(ValueError, match=r"disagree about the number of steps.*\[2, 3\]"):
        run(batches=(jnp.zeros(2), jnp.zeros(3)))
    with pytest.raises(ValueError, match="`num_steps` is 4, but `batches`"):
        run(batches=jnp.zeros(3), num_steps=4)
    with pytest.raises(ValueError, match="leading axis of steps; got a scalar"):
        run(batches=jnp.zeros(()))
    with pytest.raises(ValueError, match="at least 0; got -1"):
        run(num_steps=-1)
    with pytest.raises(ValueError, match="one of second, first, partial; got 'third'"):
        run(num_steps=1, order="third")
    with pytest.raises(ValueError, match="one of everything, steps, segments; got 'all'"):
        run(num_steps=1, keep="all")
    with pytest.raises(ValueError, match="selects no leaf"):
        run(jnp.arange(3), num_steps=1)
    with pytest.raises(TypeError, match="leaf of type int32"):
        run(jnp.arange(3), num_steps=1, adapts=eqx.is_array)
    with pytest.raises(ValueError, match="an `opt_state` from outside does not fit"):
        run(num_steps=1, packed=True, opt_state=optax.sgd(0.1).init(1.0))
    with pytest.raises(TypeError, match=r"leaves of one type.*bfloat16, float32"):
        run([jnp.zeros(1), jnp.zeros(1, jnp.bfloat16)], num_steps=1, packed=True)
