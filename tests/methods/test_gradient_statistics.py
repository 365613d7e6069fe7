import os
import subprocess
import sys
import textwrap

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from recombine.methods.agreement import (
    AndMask,
    GradientStatistics,
    accumulate_gradients,
    and_mask,
    arithmetic_mean,
    environment_gradients,
    geometric_mean,
    sand_mask,
    stacked_statistics,
    statistics_of,
    xor_mask,
)

pytestmark = pytest.mark.usefixtures("quick_compilation")

ENVS, EXAMPLES = 7, 4

RULES = {
    "mean": arithmetic_mean(),
    "and": and_mask(0.4),
    "and-rescaled": and_mask(0.4, rescale="tensor"),
    "and-global": and_mask(0.4, rescale="global"),
    "and-number": AndMask(0.4, 1.0),
    "geometric": geometric_mean(),
    "geometric-loose": geometric_mean(0.4),
    "xor": xor_mask(0.5),
    "sand": sand_mask(0.2, 0.1),
}


def loss(params, batch):
    inputs, targets = batch
    hidden = jax.nn.relu(inputs @ params["in"] + params["bias"][None])
    return jnp.mean((hidden @ params["out"] - targets) ** 2)


def problem(envs=ENVS, dtype=jnp.float32):
    keys = jr.split(jr.key(0), 4)
    params = {
        "in": jr.normal(keys[0], (3, 16), dtype),
        "bias": jnp.zeros(16, dtype),
        "out": jr.normal(keys[1], (16,), dtype),
    }
    batches = (
        jr.normal(keys[2], (envs, EXAMPLES, 3), dtype),
        jr.normal(keys[3], (envs, EXAMPLES), dtype),
    )
    return params, batches


@pytest.fixture(scope="module")
def stacked():
    params, batches = problem()
    return jax.jit(lambda: environment_gradients(loss, params, batches))()


@jax.jit
def by_every_rule(grads, params):
    return {name: rule.update(grads, rule.init(params), params) for name, rule in RULES.items()}


@pytest.mark.parametrize("chunk", [1, 3, ENVS])
def test_accumulated_gradients_are_the_sums_of_the_stacked_for_every_rule(chunk, stacked):
    """Three does not divide seven: the last chunk is smaller."""
    params, batches = problem()
    flags = {"with_logs": True, "with_squares": True}

    @jax.jit
    def both(grads):
        losses, stats = accumulate_gradients(loss, params, batches, chunk=chunk, **flags)
        rules = by_every_rule(grads, params), by_every_rule(stats, params)
        return losses, stats, stacked_statistics(grads, **flags), *rules

    losses, stats, wanted, of_stack, of_sums = both(stacked[1])
    np.testing.assert_allclose(losses, stacked[0], rtol=1e-6)
    assert int(stats.num_envs) == ENVS
    assert all(jnp.array_equal(one, other) for one, other in leaves_of(stats.signs, wanted.signs))
    for name in ("total", "logs", "squares"):
        for one, other in leaves_of(getattr(stats, name), getattr(wanted, name)):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6, err_msg=name)
    for name in RULES:
        (stack, stack_state), (sums, sums_state) = of_stack[name], of_sums[name]
        soft = name == "sand"  # whose variance is a difference of sums
        for one, other in leaves_of(sums, stack):
            assert soft or jnp.array_equal(one != 0, other != 0), name
            np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-6, err_msg=name)
        for one, other in leaves_of(sums_state.kept, stack_state.kept):
            np.testing.assert_allclose(one, other, atol=1e-3 if soft else 0, err_msg=name)
    assert 0 < float(of_sums["and"][1].kept["in"]) < 1


def leaves_of(one, other):
    return zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)


@pytest.mark.parametrize("chunk", [None, 100])
def test_the_size_of_a_chunk_can_be_left_open_or_be_too_large(chunk):
    batches = jnp.array([1.0, -3.0, 5.0])
    losses, stats = accumulate_gradients(lambda w, x: w * x, 2.0, batches, chunk=chunk)
    assert losses.tolist() == [2.0, -6.0, 10.0]
    assert (float(stats.total), int(stats.signs), stats.num_envs) == (3.0, 1, 3)


def test_a_known_number_of_environments_stays_a_number():
    def check(batches):
        _, stats = accumulate_gradients(lambda w, x: w * x, 1.0, batches, chunk=3)
        assert isinstance(stats.num_envs, int)
        assert (stats + stats).num_envs == 14
        return stats.total

    jax.eval_shape(check, jnp.ones(7))


def test_only_chunks_and_sums_live():
    """The memory of a compiled program, in copies of the parameters."""
    envs, width = 40, 300

    def wide_loss(weights, batch):
        return jnp.mean((batch @ weights) ** 2)

    weights = jnp.zeros((width, width))
    batches = jnp.zeros((envs, 2, width))

    def copies(function):
        compiled = jax.jit(function).lower(weights, batches).compile()
        memory = compiled.memory_analysis()
        used = memory.temp_size_in_bytes + memory.output_size_in_bytes
        return used / (weights.size * weights.dtype.itemsize)

    few = copies(lambda w, b: accumulate_gradients(wide_loss, w, b, chunk=2)[1])
    all_of_them = copies(lambda w, b: stacked_statistics(environment_gradients(wide_loss, w, b)[1]))
    assert few <= 2 + 2 + 0.5  # a chunk, two sums, and a little
    assert all_of_them >= envs


def test_absent_environments_are_skipped_whatever_they_hold(stacked):
    params, (inputs, targets) = problem()
    present = jnp.array([1, 0, 1, 1, 0, 1, 1])
    there = np.flatnonzero(present)
    broken = (jnp.where((present == 1)[:, None, None], inputs, jnp.nan), targets)
    flags = {"with_logs": True, "with_squares": True}
    wanted = jax.jit(
        lambda grads: stacked_statistics(jax.tree.map(lambda g: g[there], grads), **flags)
    )(stacked[1])
    losses, stats = jax.jit(
        lambda: accumulate_gradients(loss, params, broken, chunk=3, present=present, **flags)
    )()
    assert int(stats.num_envs) == 5
    assert losses[present == 0].tolist() == [0.0, 0.0]
    np.testing.assert_allclose(losses[there], stacked[0][there], rtol=1e-6)
    for one, other in leaves_of(stats, wanted):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)


def test_the_number_present_sets_the_threshold():
    grads = jnp.array([[1.0], [1.0], [1.0], [-1.0], [-1.0]])
    unanimous = and_mask(1.0)
    everyone = stacked_statistics(grads, present=jnp.ones(5))
    assert unanimous.update(everyone, None)[0].tolist() == [0.0]
    some = stacked_statistics(grads, present=jnp.array([True, True, True, False, False]))
    assert unanimous.update(some, None)[0].tolist() == [1.0]
    nobody = stacked_statistics(grads, present=jnp.zeros(5))
    assert unanimous.update(nobody, None)[0].tolist() == [0.0]


def test_a_presence_of_the_wrong_length_is_refused():
    with pytest.raises(ValueError, match=r"`present`.*each of the 5 environments.*\(4,\)"):
        stacked_statistics(jnp.ones((5, 2)), present=jnp.ones(4))
    with pytest.raises(ValueError, match="`present`"):
        accumulate_gradients(lambda w, x: w * x, 1.0, jnp.ones(5), present=jnp.ones(4), chunk=1)


def test_domains_with_unequal_batches_have_equal_weight():
    params, _ = problem()
    gradient = jax.jit(jax.grad(loss))
    draws = np.random.default_rng(0)
    batches = [(draws.normal(size=(n, 3)), draws.normal(size=n)) for n in (2, 9, 2)]
    grads = [gradient(params, batch) for batch in batches]

    @jax.jit
    def both(grads):
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *grads)
        one_by_one = statistics_of((grad for grad in grads), with_logs=True)
        assert one_by_one.num_envs == 3
        return one_by_one, stacked_statistics(stacked, with_logs=True)

    stats, wanted = both(grads)
    for one, other in zip(jax.tree.leaves(stats), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-6)
    with pytest.raises(ValueError, match="`gradients` is empty"):
        statistics_of([])


def test_statistics_add_up_even_when_signs_came_in_eight_bits():
    small = GradientStatistics(100, total=jnp.ones(2), signs=jnp.array([100, -100], jnp.int8))
    both = small + small
    assert both.num_envs == 200
    assert both.signs.tolist() == [200, -200]


def test_eight_bits_are_enough_for_a_mask():
    stats = GradientStatistics(4, total=jnp.ones(3), signs=jnp.array([4, -4, 2], jnp.int8))
    assert and_mask(1.0).update(stats, None)[0].tolist() == [0.25, 0.25, 0.0]


def test_statistics_that_do_not_fit_are_not_added():
    grads = jnp.ones((2, 3))
    with pytest.raises(ValueError, match=r"`logs`, or neither.*`with_logs=True`"):
        _ = stacked_statistics(grads) + stacked_statistics(grads, with_logs=True)


@pytest.mark.parametrize(
    ("rule", "flag"), [(geometric_mean(), "with_logs"), (sand_mask(), "with_squares")]
)
def test_a_rule_names_the_flag_that_it_misses(rule, flag):
    with pytest.raises(ValueError, match=f"these statistics lack.*`{flag}=True`"):
        rule.update(stacked_statistics(jnp.ones((2, 3))), None)


@pytest.mark.parametrize("bad", [jnp.nan, jnp.inf, -jnp.inf])
def test_what_is_not_finite_shows_in_sums_too(bad):
    grads = jnp.array([[1.0, 1.0], [-1.0, 1.0], [bad, 1.0]])
    stats = stacked_statistics(grads, with_logs=True, with_squares=True)
    for name, (out, _) in by_every_rule(stats, jnp.zeros(2)).items():
        assert np.isfinite(out).tolist() == [False, True], name


def test_half_precision_is_summed_in_single_and_comes_back_half():
    params, batches = problem(dtype=jnp.bfloat16)
    optimizer = optax.chain(and_mask(0.4), optax.adam(0.1))

    def step(params, state):
        _, stats = accumulate_gradients(loss, params, batches, chunk=3)
        updates, state = optimizer.update(stats, state, params)
        return stats, optax.apply_updates(params, updates), state

    start = optimizer.init(params)
    stats, new, state = jax.eval_shape(step, params, start)
    assert {leaf.dtype for leaf in jax.tree.leaves(stats.total)} == {jnp.dtype(jnp.float32)}
    assert {leaf.dtype for leaf in jax.tree.leaves(new)} == {jnp.dtype(jnp.bfloat16)}
    same = jax.tree.map(lambda one, other: one.dtype == other.dtype, start, state)
    assert jax.tree.all(same)


def test_sums_can_be_vectorised_over_seeds_and_modules_are_parameters():
    def module_loss(model, batch):
        return jnp.mean(jax.vmap(model)(batch) ** 2)

    def total(key):
        model = eqx.nn.Linear(3, 1, key=key, use_bias=False)  # its bias is None
        batches = jr.normal(key, (5, 4, 3))
        _, stats = accumulate_gradients(module_loss, model, batches, chunk=2)
        _, grads = environment_gradients(module_loss, model, batches)
        return stats.total.weight, jnp.sum(grads.weight, axis=0)

    accumulated, stacked = jax.jit(jax.vmap(total))(jr.split(jr.key(0), 3))
    np.testing.assert_allclose(accumulated, stacked, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("chunk", [0, -1])
def test_an_empty_chunk_is_refused(chunk):
    with pytest.raises(ValueError, match=r"`chunk`.*at least 1"):
        accumulate_gradients(lambda w, x: w * x, 1.0, jnp.ones(3), chunk=chunk)


@pytest.mark.parametrize(
    "batches", [(jnp.ones((3, 2)), jnp.ones(4)), jnp.ones((0, 2)), jnp.float32(1.0), ()]
)
def test_batches_without_one_axis_of_environments_are_refused(batches):
    with pytest.raises(ValueError, match="`batches` need the same leading axis of environments"):
        accumulate_gradients(lambda w, x: w, 1.0, batches, chunk=1)


def test_devices_sum_what_each_has_of_the_environments():
    program = """
        import functools
        import jax
        import jax.numpy as jnp
        import jax.random as jr
        import numpy as np
        from jax.sharding import Mesh, PartitionSpec as P
        from recombine.methods.agreement import (
            accumulate_gradients, and_mask, environment_gradients, sum_over_devices,
        )

        def loss(weights, batch):
            return jnp.mean((batch @ weights) ** 2)

        weights, batches = jr.normal(jr.key(0), (5, 6)), jr.normal(jr.key(1), (8, 3, 5))
        rule = and_mask(0.5, rescale="tensor")
        mesh = Mesh(np.array(jax.devices()), ("devices",))
        assert mesh.size == 4

        @jax.jit
        @functools.partial(
            jax.shard_map, mesh=mesh, in_specs=(P(), P("devices")), out_specs=P(), check_vma=False
        )
        def spread(weights, batches):
            _, stats = accumulate_gradients(loss, weights, batches, chunk=1)
            stats = sum_over_devices(stats, "devices")
            assert stats.num_envs == 8
            return rule.update(stats, rule.init(weights), weights)[0]

        alone = rule.update(environment_gradients(loss, weights, batches)[1], None)[0]
        together = spread(weights, batches)
        assert 0 < np.count_nonzero(alone) < alone.size
        assert np.array_equal(together != 0, alone != 0)
        np.testing.assert_allclose(together, alone, rtol=1e-5)
        print("the same")
    """
    answer = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={
            **os.environ,
            "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
    )
    assert answer.stdout.strip() == "the same", answer.stderr
