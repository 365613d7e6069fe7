"""One backward pass gives the sums that one gradient per example would give."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.agreement import (
    Tallied,
    _conv_tally,
    and_mask,
    coupled_statistics,
    per_example_conv_tally,
    per_example_statistics,
    split_tallies,
    stacked_statistics,
    tallied_conv,
    tallied_linear,
    tallied_scale_and_shift,
    tally_weights,
)


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Every test here."""


def check_sums(stats, grads):
    """Compares with gradients that have a leading axis of examples."""
    trees = jax.device_get((stats.total, stats.signs, grads))
    for total, signs, each in zip(*map(jax.tree.leaves, trees), strict=True):
        scale = np.abs(each).max()
        np.testing.assert_allclose(total, each.sum(0), atol=1e-5 * scale * len(each))
        clear = ((np.abs(each) > 1e-6 * scale) | (each == 0)).all(axis=0)
        assert clear.mean() > 0.85  # what is near zero may round to either side
        np.testing.assert_array_equal(signs[clear], np.sign(each).sum(0)[clear])


def one_by_one(network, params, x, targets):
    def loss(params, example, target):
        return jnp.sum(network(params, example[None]) * target[None])

    return jax.jit(jax.vmap(jax.grad(loss), (None, 0, 0)))(params, x, targets)


def in_one_pass(network, params, x, targets):
    @jax.jit
    def statistics(params, x):
        def losses(params):
            values = network(params, x) * targets
            return jnp.sum(values.reshape(len(values), -1), axis=-1), None

        return per_example_statistics(losses, params)[2]

    return statistics(params, x)


@pytest.mark.parametrize(
    ("size", "inputs", "outputs"), [((3, 3), 3, 5), ((3, 3), 12, 6), ((5, 1), 9, 4)]
)
def test_a_convolution_counts_the_signs_of_every_examples_gradient(size, inputs, outputs):
    kernel_key, x_key, target_key = jr.split(jr.key(0), 3)
    kernel = jr.normal(kernel_key, (*size, inputs, outputs))
    x = jr.normal(x_key, (7, 6, 5, inputs))
    targets = jr.normal(target_key, (7, 6, 5, outputs))
    stats = in_one_pass(lambda k, x: tallied_conv(x, k), kernel, x, targets)
    check_sums(stats, one_by_one(lambda k, x: tallied_conv(x, k), kernel, x, targets))
    assert int(stats.num_envs) == 7
    assert stats.signs.dtype == jnp.int32


def test_parts_of_a_kernel_give_what_the_whole_gives(monkeypatch):
    x, cotangent = jr.normal(jr.key(0), (4, 6, 6, 10)), jr.normal(jr.key(1), (4, 6, 6, 12))
    whole = per_example_conv_tally(x, cotangent, (3, 3))
    monkeypatch.setattr(_conv_tally, "MAX_BYTES", 4 * 10 * 4 * 3)  # three outputs at a time
    assert _conv_tally._num_parts(4 * 10 * 4, 12) == 4
    parts = per_example_conv_tally(x, cotangent, (3, 3))
    np.testing.assert_allclose(parts.total, whole.total, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(parts.signs, whole.signs)


def test_parts_are_as_few_as_memory_allows(monkeypatch):
    monkeypatch.setattr(_conv_tally, "MAX_BYTES", 100)
    assert _conv_tally._num_parts(10, 8) == 1
    assert _conv_tally._num_parts(10, 12) == 2
    assert _conv_tally._num_parts(1000, 6) == 6  # one output at a time is as small as it gets


def test_the_dense_layer_identity_is_exact():
    x = jax.nn.relu(jr.normal(jr.key(0), (80, 30)))  # half of it exactly zero
    targets = jr.normal(jr.key(1), (80, 10))
    weight = jr.normal(jr.key(2), (30, 10))
    network = lambda w, x: tallied_linear(x, w)  # noqa: E731
    stats = in_one_pass(network, weight, x, targets)
    each = one_by_one(network, weight, x, targets)
    np.testing.assert_array_equal(stats.signs, jnp.sign(each).sum(0))
    np.testing.assert_allclose(stats.total, each.sum(0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(9, 4, 3, 6), (9, 6)])
def test_scale_and_shift(shape):
    params = {"scale": jr.normal(jr.key(0), (6,)), "shift": jr.normal(jr.key(1), (6,))}
    x, targets = jr.normal(jr.key(2), shape), jr.normal(jr.key(3), shape)

    def network(params, x):
        return tallied_scale_and_shift(x, params["scale"], params["shift"])

    stats = in_one_pass(network, params, x, targets)
    check_sums(stats, one_by_one(network, params, x, targets))


def small_network(params, x):
    x = jax.nn.relu(tallied_conv(x, params["first"]))
    x = jax.nn.relu(tallied_scale_and_shift(x, params["scale"], params["shift"]))
    x = jnp.max(tallied_conv(x, params["second"]), axis=(1, 2))
    return tallied_linear(x, params["head"])


def small_params():
    keys = jr.split(jr.key(0), 5)
    shapes = {
        "first": (3, 3, 3, 10),
        "scale": (10,),
        "shift": (10,),
        "second": (3, 3, 10, 6),
        "head": (6, 4),
    }
    return {
        name: jr.normal(key, shape) * 0.5
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def test_a_network_of_tallied_layers():
    params, x = small_params(), jr.normal(jr.key(1), (16, 8, 8, 3))
    targets = jr.normal(jr.key(2), (16, 4))
    stats = in_one_pass(small_network, params, x, targets)
    each = one_by_one(small_network, params, x, targets)
    check_sums(stats, each)
    # The rules cannot tell them apart.
    rule = and_mask(0.5, rescale="tensor")
    joined, state = jax.jit(rule.update)(stats, rule.init(params))
    expected, expected_state = jax.jit(rule.update)(each, rule.init(params))
    for ours, theirs in zip(*map(jax.tree.leaves, (joined, expected)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(*map(jax.tree.leaves, (state, expected_state)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_with_and_without_a_tally_the_outputs_and_the_gradients_are_the_same():
    params, x = small_params(), jr.normal(jr.key(1), (5, 8, 8, 3))

    @jax.jit
    def loss(params):
        return jnp.sum(jnp.sin(small_network(params, x)))

    plain, grads = jax.value_and_grad(loss)(params)
    tallied, both = jax.value_and_grad(loss)(tally_weights(params))
    assert float(plain) == pytest.approx(float(tallied), rel=1e-5)
    for ours, theirs in zip(*map(jax.tree.leaves, (split_tallies(both)[0], grads)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_vectorised_over_seeds_it_is_the_same():
    params, x = small_params(), jr.normal(jr.key(1), (2, 6, 8, 8, 3))
    both = jax.tree.map(lambda leaf: jnp.stack([leaf, -leaf]), params)
    negated = jax.tree.map(jnp.negative, params)
    targets = jr.normal(jr.key(2), (6, 4))
    stats = jax.vmap(lambda p, x: in_one_pass(small_network, p, x, targets))(both, x)
    for seed, its_params in enumerate((params, negated)):
        alone = in_one_pass(small_network, its_params, x[seed], targets)
        for ours, theirs in zip(*map(jax.tree.leaves, (stats.signs, alone.signs)), strict=True):
            assert np.mean(ours[seed] == theirs) > 0.99


def test_an_example_that_is_not_finite_is_seen():
    x = jr.normal(jr.key(0), (3, 4, 4, 9)).at[1].set(jnp.nan)
    total, signs = per_example_conv_tally(x, jnp.ones((3, 4, 4, 2)), (3, 3))
    assert jnp.isnan(total).all()
    assert (jnp.abs(signs) <= 2).all()


def test_zeros_abstain():
    x = jnp.zeros((4, 4, 4, 9)).at[0].set(1.0)
    _, signs = per_example_conv_tally(x, jnp.ones((4, 4, 4, 2)), (3, 3))
    np.testing.assert_array_equal(signs, 1.0)


def test_a_tallied_weight_works_only_in_tallied_layers():
    weight = Tallied(jnp.ones((2, 2)), jnp.zeros((2, 2)))
    with pytest.raises(TypeError):
        jnp.ones((3, 2)) @ weight
    with pytest.raises(TypeError, match="both have a tally"):
        tallied_scale_and_shift(jnp.ones((3, 2)), Tallied(jnp.ones(2), jnp.zeros(2)), jnp.ones(2))


def test_a_kernel_of_even_sides_is_refused():
    with pytest.raises(ValueError, match=r"odd sides.*got \(2, 3\)"):
        tallied_conv(jnp.ones((1, 4, 4, 2)), jnp.ones((2, 3, 2, 2)))


@pytest.mark.parametrize("at_once", [1, 2])
def test_coupled_losses_have_the_gradients_of_all_their_paths(at_once):
    x, weight = jr.normal(jr.key(0), (6, 3)), jr.normal(jr.key(1), (3, 2))

    def losses(weight):
        outputs = x @ weight
        return jnp.sum((outputs - outputs.mean(0, keepdims=True)) ** 2, axis=-1), outputs

    values, outputs, stats = coupled_statistics(losses, weight, at_once=at_once)
    each = stacked_statistics(jax.jacrev(lambda w: losses(w)[0])(weight))
    np.testing.assert_allclose(stats.total, each.total, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(stats.signs, each.signs)
    np.testing.assert_allclose(values, losses(weight)[0], rtol=1e-6)
    assert outputs.shape == (6, 2)
    assert stats.num_envs == 6


def test_backward_passes_at_once_must_divide_the_examples():
    with pytest.raises(ValueError, match=r"`at_once` must divide the 3 examples.*got 2"):
        coupled_statistics(lambda w: (w * jnp.ones(3), None), jnp.float32(1.0), at_once=2)
