import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.tasks.privileged_toys import (
    NoisyWorld,
    XorWorld,
    divergence_from_truth,
    draw_noisy_world,
    draw_xor_world,
    sample_noisy,
    sample_xor,
    xor_rate,
)


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are many here, and small."""


@pytest.fixture(scope="module")
def xor():
    world = draw_xor_world(jr.key(0), num_inputs=64)
    return world, sample_xor(jr.key(1), world, num_examples=10_000)


@pytest.fixture(scope="module")
def noisy():
    world = draw_noisy_world(jr.key(0))
    return world, sample_noisy(jr.key(1), world, num_examples=20_000)


def test_privileged_signs_and_products_give_the_xor_label(xor):
    _, examples = xor
    signs, products = examples.privileged[:, :2], examples.privileged[:, 2:]
    assert set(np.unique(np.asarray(signs)).tolist()) == {-1.0, 1.0}
    positive = signs * products > 0
    np.testing.assert_array_equal(positive[:, 0] ^ positive[:, 1], examples.labels)


def test_the_hidden_numbers_are_the_projected_input(xor):
    world, examples = xor
    hidden = np.asarray(examples.inputs, np.float64) @ np.asarray(world.projection, np.float64).T
    signs, products = np.split(np.asarray(examples.privileged), 2, axis=1)
    np.testing.assert_allclose(signs * products, hidden, atol=2e-6)
    assert np.all(np.abs(np.asarray(world.projection)) <= 1 / 8)
    assert np.abs(np.asarray(world.projection)).max() > 0.9 / 8
    # The standard deviation of a sum of 64 products with a variance of 1/(3 · 64) each.
    assert abs(hidden.std() - 0.577) < 0.1


def test_xor_labels_are_as_frequent_as_the_angle_says():
    for seed in range(4):
        world = draw_xor_world(jr.key(seed), num_inputs=16)
        labels = sample_xor(jr.key(99), world, num_examples=10_000).labels
        assert abs(float(labels.mean()) - float(xor_rate(world))) < 0.02
    same = XorWorld(jnp.array([[1.0, 2.0], [1.0, 2.0]]))
    assert float(xor_rate(same)) == pytest.approx(0, abs=1e-3)
    assert float(xor_rate(XorWorld(jnp.array([[1.0, 2.0], [-1.0, -2.0]])))) == pytest.approx(1)


def test_the_input_says_nothing_about_the_privileged_data(xor):
    _, examples = xor
    both = np.concatenate([np.asarray(examples.inputs), np.asarray(examples.privileged)], axis=1)
    correlation = np.corrcoef(both.T)[:64, 64:]
    assert np.abs(correlation).max() < 0.045  # 4.5 standard errors of 256 pairs
    assert np.abs(examples.privileged.mean(axis=0)).max() < 0.04
    # Nor do the signs say anything about the label, alone or together.
    signs = np.asarray(examples.privileged[:, :2])
    labels = 2 * np.asarray(examples.labels) - 1
    assert abs(np.mean(labels * signs[:, 0] * signs[:, 1])) < 0.04


def test_train_and_test_of_a_seed_share_the_world_and_no_example():
    def draw(key):
        world_key, train_key, test_key = jr.split(key, 3)
        world = draw_xor_world(world_key, num_inputs=8)
        return tuple(sample_xor(k, world, num_examples=6) for k in (train_key, test_key))

    train, test = jax.vmap(draw)(jr.split(jr.key(0), 3))
    assert train.inputs.shape == (3, 6, 8)
    assert not np.any(np.asarray(train.inputs) == np.asarray(test.inputs))
    alone, _ = draw(jr.split(jr.key(0), 3)[1])
    np.testing.assert_array_equal(train.labels[1], alone.labels)
    np.testing.assert_allclose(train.privileged[1], alone.privileged, atol=1e-6)


def test_noisy_labels_are_drawn_with_the_true_chances(noisy):
    _, examples = noisy
    chances = np.asarray(jax.nn.softmax(examples.logits, axis=-1), np.float64)
    drawn = np.eye(4)[np.asarray(examples.labels)]
    # For every class, ten groups of examples by their chance: χ² with a term for each group.
    terms = []
    for k in range(4):
        for group in np.array_split(np.argsort(chances[:, k]), 10):
            p = chances[group, k]
            terms.append((drawn[group, k].sum() - p.sum()) ** 2 / (p * (1 - p)).sum())
    assert 15 < np.sum(terms) < 75  # 40 terms: 40 ± 9


def test_the_view_shows_the_scaled_logits(noisy):
    world, examples = noisy
    inputs, projection, view = (
        np.asarray(each, np.float64) for each in (examples.inputs, world.projection, world.view)
    )
    logits = 3 * inputs @ projection.T
    np.testing.assert_allclose(examples.logits, logits, atol=1e-5)
    np.testing.assert_allclose(examples.privileged, logits @ view.T, atol=1e-5)
    assert examples.privileged.shape[1] == 32
    assert np.abs(projection).max() <= 1 / np.sqrt(128)
    assert 0.45 < np.abs(view).max() <= 0.5


def test_an_untrained_prediction_scores_what_the_figure_starts_with():
    scores = []
    for seed in range(5):
        world = draw_noisy_world(jr.key(seed))
        logits = sample_noisy(jr.key(100 + seed), world, num_examples=1000).logits
        scores.append(float(divergence_from_truth(logits, jnp.zeros_like(logits))))
    assert min(scores) > 0.45
    assert max(scores) < 0.62


def test_divergence_is_computed_as_by_hand():
    truth, predicted = np.array([[0.25, 0.75]]), np.array([[0.5, 0.5]])
    expected = 0.25 * np.log(0.5) + 0.75 * np.log(1.5)
    found = divergence_from_truth(jnp.log(truth), jnp.log(predicted) + 7.0)  # a shift changes none
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="`num_inputs` must be at least 1; got 0"):
        draw_xor_world(jr.key(0), num_inputs=0)
    with pytest.raises(ValueError, match="`num_classes` must be at least 1"):
        draw_noisy_world(jr.key(0), num_classes=0)
    with pytest.raises(ValueError, match="`num_examples` must be at least 1"):
        sample_xor(jr.key(0), draw_xor_world(jr.key(0)), num_examples=0)
    with pytest.raises(ValueError, match="`num_examples` must be at least 1"):
        sample_noisy(jr.key(0), NoisyWorld(jnp.zeros((4, 8)), jnp.zeros((2, 4))), num_examples=0)
