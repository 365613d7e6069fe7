import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.tasks import spirals

pytestmark = pytest.mark.usefixtures("quick_compilation")


def test_sizes_are_those_of_the_thesis():
    train = spirals.sample_environments(jr.key(0))
    test = spirals.sample_test(jr.key(1))
    assert train.inputs.shape == (32, 1280, 34)
    assert train.labels.shape == (32, 1280)
    assert test.inputs.shape == (2000, 34)


def test_points_lie_on_their_spiral():
    test = spirals.sample_test(jr.key(0), num_examples=5000)
    x, y = np.asarray(test.inputs[:, 0]), np.asarray(test.inputs[:, 1])
    radius = np.hypot(x, y)
    assert radius.min() >= 0.06
    assert radius.max() <= 1.02
    # The angle belongs to a radius at most 0.02 away; per unit of radius it turns by 6 pi.
    angle = np.arctan2(y, x)
    expected = 6 * np.pi * radius + np.pi * np.asarray(test.labels)
    off = np.abs((angle - expected + np.pi) % (2 * np.pi) - np.pi)
    assert off.max() <= 6 * np.pi * 0.02 + 1e-3
    assert off.mean() == pytest.approx(6 * np.pi * 0.01, rel=0.05)


def test_labels_are_fair():
    labels = spirals.sample_environments(jr.key(2)).labels
    assert abs(float(labels.mean()) - 0.5) < 0.01


def test_a_shortcut_is_constant_within_environment_and_class_and_opposite_between():
    train = spirals.sample_environments(jr.key(3), num_envs=5, num_examples=50, num_shortcuts=4)
    for inputs, labels in zip(train.inputs, train.labels, strict=True):
        ones = inputs[labels == 1][:, 2:]
        zeros = inputs[labels == 0][:, 2:]
        assert jnp.all(ones == ones[:1])
        assert jnp.all(zeros == -ones[:1])
    firsts = train.inputs[:, 0, 2:] * jnp.where(train.labels[:, :1] == 1, 1.0, -1.0)
    assert len(np.unique(np.asarray(firsts[:, 0]))) == 5


def test_test_shortcuts_say_nothing_about_the_label():
    test = spirals.sample_test(jr.key(4), num_examples=20000, num_shortcuts=8)
    signs = jnp.where(test.labels == 1, 1.0, -1.0)
    correlation = jnp.mean(test.inputs[:, 2:] * signs[:, None], axis=0) / 0.1
    assert float(jnp.abs(correlation).max()) < 5 / 20000**0.5
    assert len(np.unique(np.asarray(test.inputs[:, 2]))) > 19000


@pytest.mark.parametrize(("name", "std"), [("thesis", 0.1), ("variance", 0.316), ("release", 1.0)])
def test_styles_have_their_scales(name, std):
    style = spirals.STYLES[name]
    test = spirals.sample_test(jr.key(5), num_examples=20000, style=style)
    assert float(test.inputs[:, 2:].std()) == pytest.approx(std, rel=0.02)
    spread = test.inputs[:, :2].std(axis=0)
    np.testing.assert_allclose(spread, 1.0 if style.normalize else 0.42, rtol=0.05)


def test_an_environment_stays_when_others_are_added():
    few = spirals.sample_environments(jr.key(6), num_envs=2, num_examples=8)
    many = spirals.sample_environments(jr.key(6), num_envs=4, num_examples=8)
    np.testing.assert_array_equal(few.inputs, many.inputs[:2])


def test_runs_under_jit_and_vmap():
    draw = lambda key: spirals.sample_test(key, num_examples=4).inputs  # noqa: E731
    keys = jr.split(jr.key(7), 3)
    np.testing.assert_allclose(
        jax.jit(jax.vmap(draw))(keys), jnp.stack([draw(key) for key in keys]), atol=1e-5
    )


def test_the_plane_has_no_shortcut():
    plane = spirals.spiral_plane(resolution=5, num_shortcuts=3)
    assert plane.shape == (5, 5, 5)
    assert not plane[..., 2:].any()


def test_nonsense_is_refused_by_name():
    with pytest.raises(ValueError, match="`num_envs`"):
        spirals.sample_environments(jr.key(0), num_envs=0)
    with pytest.raises(ValueError, match="`num_examples`"):
        spirals.sample_test(jr.key(0), num_examples=0)
