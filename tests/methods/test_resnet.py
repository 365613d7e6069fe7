"""The network of the CIFAR-10 experiments, against a slow and obvious version."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.agreement import ResNetShape
from recombine.methods.agreement._pooling import max_over_squares
from recombine.methods.agreement._resnet import WIDTHS, Moments, update_statistics

TINY = 1 / 16


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Every test here."""


@partial(jax.jit, static_argnames="frozen")
def run(network, images, statistics=None, *, frozen=False):
    return network(images, statistics, frozen=frozen)


@cache
def make(norm="batch", width=TINY):
    return jax.jit(ResNetShape(width=width, norm=norm))(jr.key(0))


def perturbed(network):
    """Gives the scales and shifts values that would show a mistake."""
    generator = np.random.default_rng(0)
    return jax.tree.map(
        lambda leaf: leaf + 0.1 * generator.standard_normal(leaf.shape, np.float32), network
    )


def slow_network(network, images, moments_of):
    """NumPy, double precision, one offset of the kernel at a time."""

    def conv(x, kernel):
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        out = np.zeros((*x.shape[:3], kernel.shape[-1]))
        for dy in range(3):
            for dx in range(3):
                window = padded[:, dy : dy + x.shape[1], dx : dx + x.shape[2]]
                out += window @ kernel[dy, dx]
        return out

    def cbr(name, x):
        block = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), network.blocks[name])
        x = conv(x, block.kernel)
        mean, variance = moments_of(name, x)
        return np.maximum((x - mean) / np.sqrt(variance + 1e-5) * block.scale + block.shift, 0)

    def pool(x):
        return np.maximum.reduce([x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)])

    x = cbr("prep", np.asarray(images, np.float64))
    x = pool(cbr("layer1", x))
    x = x + cbr("res1b", cbr("res1a", x))
    x = pool(cbr("layer2", x))
    x = pool(cbr("layer3", x))
    x = x + cbr("res3b", cbr("res3a", x))
    return 0.125 * x.max(axis=(1, 2)) @ np.asarray(network.head, np.float64)


def test_the_published_number_of_parameters():
    network = jax.eval_shape(ResNetShape(), jr.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(network)) == 6_573_120
    assert network.blocks["res3b"].kernel.shape == (3, 3, 512, 512)
    assert network.head.shape == (512, 10)


def test_a_narrow_network_has_the_same_layers():
    network = jax.eval_shape(ResNetShape(width=0.25), jr.key(0))
    assert {name: block.kernel.shape[2:] for name, block in network.blocks.items()} == {
        name: (3 if inputs is None else inputs // 4, outputs // 4)
        for name, (inputs, outputs) in WIDTHS.items()
    }


def test_weights_start_uniform_within_one_over_the_root_of_the_fan_in():
    network = make()
    for block in network.blocks.values():
        reach = (9 * block.kernel.shape[2]) ** -0.5
        largest = float(jnp.abs(block.kernel).max())
        assert 0.95 * reach < largest <= reach
        assert float(block.kernel.std()) == pytest.approx(reach / 3**0.5, rel=0.2)
        assert jnp.all(block.scale == 1)
        assert jnp.all(block.shift == 0)
    assert 0.95 * 32**-0.5 < float(jnp.abs(network.head).max()) <= 32**-0.5


def test_with_the_batchs_statistics_it_is_the_slow_network():
    network, images = perturbed(make()), jr.normal(jr.key(1), (3, 32, 32, 3))
    seen = {}

    def moments_of(name, x):
        seen[name] = (x.mean((0, 1, 2)), x.var((0, 1, 2)))
        return seen[name]

    expected = slow_network(network, images, moments_of)
    logits, statistics = run(network, images)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)
    for name, (mean, variance) in seen.items():
        np.testing.assert_allclose(statistics[name].mean, mean, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(statistics[name].variance, variance, rtol=1e-4)
    frozen, _ = run(network, images, frozen=True)
    np.testing.assert_array_equal(frozen, logits)


def test_with_given_statistics_it_is_the_slow_network():
    network, images = perturbed(make()), jr.normal(jr.key(1), (3, 32, 32, 3))
    given = {
        name: Moments(jnp.full_like(m.mean, 0.3), jnp.full_like(m.variance, 2.0), m.size)
        for name, m in ResNetShape(width=TINY).initial_statistics().items()
    }
    expected = slow_network(network, images, lambda name, x: (0.3, 2.0))
    np.testing.assert_allclose(run(network, images, given)[0], expected, rtol=1e-4, atol=1e-5)


def test_with_group_normalisation_it_is_the_slow_network_and_examples_do_not_meet():
    network, images = perturbed(make("group", 0.125)), jr.normal(jr.key(1), (3, 32, 32, 3))

    def moments_of(name, x):
        size = 16 if x.shape[-1] % 16 == 0 else x.shape[-1]
        groups = x.reshape(*x.shape[:3], -1, size)
        mean, variance = groups.mean((1, 2, 4)), groups.var((1, 2, 4))
        return tuple(np.repeat(m, size, axis=-1)[:, None, None, :] for m in (mean, variance))

    logits, statistics = run(network, images)
    np.testing.assert_allclose(logits, slow_network(network, images, moments_of), atol=1e-5)
    assert statistics == {}
    np.testing.assert_allclose(run(network, images[:1])[0], logits[:1], atol=1e-5)


def test_batch_statistics_couple_the_examples_unless_they_are_frozen():
    network, images = make(), jr.normal(jr.key(1), (4, 32, 32, 3))

    def first_loss(images, frozen):
        return jnp.sum(run(network, images, frozen=frozen)[0][0] ** 2)

    coupled, frozen = (jax.grad(first_loss)(images, frozen) for frozen in (False, True))
    assert float(jnp.abs(coupled[1:]).max()) > 1e-6
    assert float(jnp.abs(frozen[1:]).max()) == 0.0


@pytest.mark.parametrize("side", [2, 4])
def test_the_maximum_of_squares_and_its_gradient(side):
    x = jr.normal(jr.key(0), (2, 8, 8, 3))
    weights = jr.normal(jr.key(1), (2, 8 // side, 8 // side, 3))

    def plainly(x):
        return x.reshape(2, 8 // side, side, 8 // side, side, 3).max(axis=(2, 4))

    np.testing.assert_array_equal(max_over_squares(x, side), plainly(x))
    ours, theirs = (
        jax.jit(jax.grad(lambda x, f=f: jnp.sum(f(x) * weights)))(x)
        for f in (lambda x: max_over_squares(x, side), plainly)
    )
    np.testing.assert_array_equal(ours, theirs)


def test_of_equal_maxima_the_first_wins_and_what_is_not_a_number_is_seen():
    grads = jax.grad(lambda x: max_over_squares(x, 2).sum())(jnp.ones((1, 2, 2, 1)))
    assert grads[0, :, :, 0].tolist() == [[1.0, 0.0], [0.0, 0.0]]
    for place in ((0, 0), (1, 1)):
        x = jnp.ones((1, 2, 2, 1)).at[0, place[0], place[1], 0].set(jnp.nan)
        assert jnp.isnan(max_over_squares(x, 2)).all()


def test_running_statistics_move_by_a_tenth_and_remember_the_unbiased_variance():
    old = {"prep": Moments(jnp.array([1.0]), jnp.array([2.0]), jnp.float32(0))}
    new = {"prep": Moments(jnp.array([3.0]), jnp.array([4.0]), jnp.float32(5))}
    moved = update_statistics(old, new)["prep"]
    assert float(moved.mean[0]) == pytest.approx(1.2)
    assert float(moved.variance[0]) == pytest.approx(0.9 * 2 + 0.1 * 4 * 5 / 4)
    assert update_statistics({}, {}) == {}
    assert ResNetShape(norm="group").initial_statistics() == {}


def test_the_size_of_statistics_counts_images_and_positions():
    _, statistics = run(make(), jr.normal(jr.key(1), (2, 32, 32, 3)))
    sizes = {name: int(moments.size) for name, moments in statistics.items()}
    assert sizes["prep"] == sizes["layer1"] == 2 * 32 * 32
    assert sizes["res1a"] == sizes["layer2"] == 2 * 16 * 16
    assert (sizes["layer3"], sizes["res3b"]) == (2 * 8 * 8, 2 * 4 * 4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"norm": "layer"}, '`norm` must be "batch"'), ({"width": 0.01}, "whole number of channels")],
)
def test_bad_shapes(changes, words):
    with pytest.raises(ValueError, match=words):
        ResNetShape(**changes)
