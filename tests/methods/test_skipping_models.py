import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.skipping import (
    Convolution,
    VectorModel,
    VectorModelShape,
    VideoModel,
    VideoModelShape,
)

ARCHITECTURES = ("simple", "dilated", "strided")


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """This module compiles much and computes little."""


@pytest.mark.parametrize(
    ("architecture", "kernels", "parameters"),
    [
        ("simple", 32, 130_787),
        ("simple", 48, 292_179),
        ("dilated", 32, 130_787),
        ("dilated", 48, 292_179),
        ("strided", 32, 106_211),
        ("strided", 48, 236_883),
    ],
)
def test_the_models_are_as_large_as_published(architecture, kernels, parameters):
    shapes = eqx.filter_eval_shape(VideoModelShape(architecture, kernels), jr.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(shapes)) == parameters


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("shape", [(126, 75, 3), (64, 64, 3)])
def test_an_image_comes_back_in_its_size(architecture, shape):
    make = VideoModelShape(architecture, 2)
    result = eqx.filter_eval_shape(lambda key: make(key)(jnp.zeros(shape)), jr.key(0))
    assert (result.shape, result.dtype) == (shape, jnp.float32)


@pytest.mark.parametrize(("architecture", "reach"), [("simple", 11), ("dilated", 14)])
def test_no_pixel_sees_further_than_the_receptive_field(architecture, reach):
    changed = influence(architecture)
    far = np.argwhere(changed) - 16
    assert np.abs(far).max() == reach


@pytest.mark.parametrize("shape", [(9, 7), (4, 6)])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("size", "inputs", "outputs"), [(5, 4, 3), (5, 1, 6), (1, 2, 3)], ids=["rows", "all", "pixel"]
)
def test_a_product_with_shifted_copies_is_a_convolution(shape, stride, size, inputs, outputs):
    images = jr.normal(jr.key(0), (*shape, inputs))
    layer = Convolution(size, inputs, outputs, key=jr.key(1), stride=stride)
    layer = eqx.tree_at(lambda layer: layer.bias, layer, jnp.arange(1.0, outputs + 1))
    expected = jax.lax.conv_general_dilated(
        images[None],
        layer.weight,
        (stride, stride),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    np.testing.assert_allclose(layer(images), expected[0] + layer.bias[None, None], atol=1e-5)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_other_devices_convolve_by_themselves_and_alike(architecture, monkeypatch):
    model = VideoModelShape(architecture, 4, "highest")(jr.key(0))
    image, wanted = jr.uniform(jr.key(1), (2, 9, 7, 3))

    def graded(model):
        return eqx.filter_value_and_grad(lambda model: jnp.sum(wanted * model(image)))(model)

    ours = graded(model)
    assert "conv_general_dilated" not in str(jax.make_jaxpr(model)(image))
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert "conv_general_dilated" in str(jax.make_jaxpr(model)(image))
    for our, other in zip(*map(jax.tree.leaves, (ours, graded(model))), strict=True):
        np.testing.assert_allclose(our, other, atol=1e-5)


@pytest.mark.parametrize("shape", [(9, 7), (4, 6)])
def test_dilated_and_transposed_convolutions_are_what_they_are_called(shape):
    image = jr.normal(jr.key(0), (*shape, 2))
    settings = {"padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC")}
    dilated = Convolution(7, 2, 3, key=jr.key(1), dilation=2)
    expected = jax.lax.conv_general_dilated(
        image[None], dilated.weight, (1, 1), rhs_dilation=(2, 2), **settings
    )
    np.testing.assert_allclose(dilated(image), expected[0], atol=1e-5)
    transposed = Convolution(5, 2, 3, key=jr.key(2), stride=2, is_transposed=True)
    expected = jax.lax.conv_transpose(image[None], transposed.weight, (2, 2), **settings)
    np.testing.assert_allclose(transposed(image), expected[0], atol=1e-5)


def test_the_strided_model_sees_about_as_far():
    far = np.argwhere(influence("strided")) - 16
    assert 10 <= np.abs(far).max() <= 14


def influence(architecture):
    """Says which pixels change when the one in the middle does."""

    @jax.jit
    def predict(key, value):
        model = VideoModel(architecture, 4, key=key, precision="highest")
        # Positive weights let no change hide behind a ReLU.
        model = jax.tree.map(lambda leaf: jnp.abs(leaf) * 0.1, model)
        return model(jnp.full((33, 33, 3), 0.5).at[16, 16].set(value))

    both = predict(jr.key(1), 0.5), predict(jr.key(1), 1.0)
    assert all(bool(jnp.all((b > 0) & (b < 1))) for b in both)
    return np.asarray(jnp.any(both[0] != both[1], axis=-1))


def test_weights_start_uniform_and_biases_at_zero():
    model = eqx.filter_jit(VideoModelShape("strided", 8))(jr.key(0))
    for layer in model.layers:
        rows, columns, inputs, _ = layer.weight.shape
        bound = (6 / (rows * columns * inputs)) ** 0.5
        assert float(jnp.max(jnp.abs(layer.weight))) <= bound
        assert float(jnp.max(jnp.abs(layer.weight))) > 0.9 * bound
        assert float(jnp.max(jnp.abs(layer.bias))) == 0


@pytest.mark.parametrize(("kernels", "channels"), [(16, 3), (48, 3), (8, 1)])
def test_a_video_model_can_start_as_a_copy(kernels, channels):
    values = jnp.linspace(0.0, 1.0, 16 * 16 * channels).reshape(16, 16, channels)
    image = jr.permutation(jr.key(1), values.reshape(-1)).reshape(values.shape)
    shapes = [
        VideoModelShape("strided", kernels, channels=channels, start=start)
        for start in ("copy", "random")
    ]
    copied, changed = (eqx.filter_jit(shape)(jr.key(0))(image) for shape in shapes)
    assert float(jnp.max(jnp.abs(copied - image))) < 0.15
    assert float(jnp.mean(jnp.abs(copied - image))) < 0.03
    assert float(jnp.mean(jnp.abs(changed - image))) > 0.1


def test_a_copy_can_still_learn_from_its_features():
    model = VideoModelShape("simple", 6, start="copy")(jr.key(0))
    grads = eqx.filter_grad(lambda m: jnp.mean((m(jnp.full((6, 6, 3), 0.4)) - 0.8) ** 2))(model)
    assert all(float(jnp.max(jnp.abs(layer.weight))) > 0 for layer in grads.layers)


@pytest.mark.slow
def test_half_precision_stays_near():
    image = jr.uniform(jr.key(0), (12, 12, 3))
    shapes = [VideoModelShape("dilated", 4, p) for p in ("highest", "bfloat16")]
    results = [jax.jit(lambda x, s=shape: s(jr.key(1))(x))(image) for shape in shapes]
    assert results[1].dtype == jnp.float32
    np.testing.assert_allclose(results[0], results[1], atol=0.05)


def test_a_vector_model_starts_by_copying():
    state = jnp.array([1.0, -2.0, 3.0, 0.5])
    copied = jax.jit(lambda key: VectorModel(4, (8,), key=key)(state))(jr.key(0))
    assert copied.tolist() == state.tolist()


def test_a_vector_model_sees_what_it_is_shown():
    def view(state, context):
        return jnp.concatenate([state, context])

    shape = VectorModelShape(2, (8,), view, 5)
    model = eqx.tree_at(lambda m: m.weights[-1], shape(jr.key(0)), jnp.ones((8, 2)))
    near, far = (model(jnp.ones(2), c * jnp.ones(3)) for c in (0.0, 1.0))
    assert near.tolist() != far.tolist()
    assert shape == VectorModelShape(2, (8,), view, 5)  # made again, it compiles nothing anew


def test_bad_sizes_are_refused():
    with pytest.raises(ValueError, match="`architecture` must be"):
        VideoModelShape("deep")
    with pytest.raises(ValueError, match="`precision` must be"):
        VideoModelShape(precision="half")
    with pytest.raises(ValueError, match="`kernels` must be at least 1"):
        VideoModelShape(kernels=0)
    with pytest.raises(ValueError, match='`start` must be "random" or "copy"; got \'zero\''):
        VideoModelShape(start="zero")
    with pytest.raises(ValueError, match="at least one kernel for each of the 3 channels; got 2"):
        VideoModelShape(kernels=2, start="copy")
    with pytest.raises(ValueError, match="`state_size` and `hidden`"):
        VectorModelShape(0)
    with pytest.raises(ValueError, match="`view` and `view_size` go together"):
        VectorModelShape(2, view_size=3)


def test_images_may_have_other_channels_than_three():
    model = VideoModelShape("simple", 2, channels=1)(jr.key(0))
    assert model(jnp.full((4, 5, 1), 0.5)).shape == (4, 5, 1)
    with pytest.raises(ValueError, match="`channels` must be at least 1; got 0"):
        VideoModelShape(channels=0)


def test_a_transposed_convolution_doubles_an_image():
    with pytest.raises(ValueError, match="5 x 5 weights and a stride of 2; got a size of 7"):
        Convolution(7, 2, 3, key=jr.key(0), stride=2, is_transposed=True)


@pytest.mark.parametrize("is_transposed", [False, True])
def test_a_bias_sees_every_pixel_also_in_16_bits(is_transposed):
    layer = Convolution(
        5, 2, 3, key=jr.key(0), stride=2 if is_transposed else 1, is_transposed=is_transposed
    )

    def total(layer):
        return jnp.sum(layer(jnp.zeros((32, 32, 2)), "bfloat16").astype(jnp.float32))

    assert layer(jnp.zeros((32, 32, 2)), "bfloat16").dtype == jnp.bfloat16
    pixels = 64 * 64 if is_transposed else 32 * 32
    assert eqx.filter_grad(total)(layer).bias.tolist() == [pixels] * 3
