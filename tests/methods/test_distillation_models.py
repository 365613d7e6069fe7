"""Students, teachers, their layers and losses."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.distillation import (
    AttentionShape,
    AttentionTeacher,
    BatchStatisticsNorm,
    BinaryLabels,
    BucketLabels,
    ClassLabels,
    Convolution,
    ConvTeacherShape,
    Copy,
    Divergence,
    DrawnLabels,
    GatedSquaredError,
    LayeredStudent,
    MapStudentShape,
    MLPStudentShape,
    MLPTeacherShape,
    NumberLabels,
    SquaredError,
    WeightedTargets,
    WeightNormLinear,
    targets_of,
)


def seeded(seed):
    return jr.key(seed, impl="rbg")  # compiles faster than the default


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are many here, and small."""


@eqx.filter_jit
def make(shape, seed=0):
    return shape(seeded(seed))


def count(module):
    leaves = jax.tree.leaves(eqx.filter(module, eqx.is_inexact_array))
    return sum(leaf.size for leaf in leaves)


def test_the_models_of_the_hopper_have_the_published_sizes():
    student = jax.eval_shape(MLPStudentShape(59, 32), seeded(0))
    teacher = jax.eval_shape(ConvTeacherShape(16, 12), seeded(0))
    sizes = [sum(leaf.size for leaf in jax.tree.leaves(module)) for module in (student, teacher)]
    assert sizes == [78_528, 4_266_464]


def test_weight_norm_changes_nothing_at_first_and_survives_zero():
    layer, plain = (kind(6, 4, key=seeded(0)) for kind in (WeightNormLinear, eqx.nn.Linear))
    x = jr.normal(seeded(1), (6,))
    np.testing.assert_allclose(layer(x), plain(x), rtol=1e-5, atol=1e-6)
    longer = eqx.tree_at(lambda each: each.direction, layer, 3.0 * layer.direction)
    np.testing.assert_allclose(longer(x), plain(x), rtol=1e-5, atol=1e-6)
    dead = eqx.tree_at(lambda each: each.direction, layer, jnp.zeros_like(layer.direction))
    value, grads = eqx.filter_value_and_grad(lambda each: jnp.sum(jnp.square(each(x))))(dead)
    assert np.isfinite(value)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(grads))


def test_batch_norm_uses_its_own_batch_and_no_other():
    norm = BatchStatisticsNorm(2)
    x = 3.0 * jr.normal(seeded(0), (4, 5, 7, 2)) + 1.0  # batches, examples, time, units
    found = jax.vmap(lambda batch: targets_of(norm, batch))(x)
    mean = np.mean(x, axis=(1, 2), keepdims=True)
    deviation = np.sqrt(np.var(x, axis=(1, 2), keepdims=True) + 1e-5)
    np.testing.assert_allclose(found, (x - mean) / deviation, rtol=1e-4, atol=1e-5)


def test_convolutions_equal_those_of_jax():
    for axes, names in ((1, ("NWC", "WIO", "NWC")), (2, ("NHWC", "HWIO", "NHWC"))):
        layer = Convolution(3, 4, num_axes=axes, key=seeded(0))
        x = jr.normal(seeded(1), (*(6, 5)[:axes], 3))
        kernel = layer.weight.reshape(*[3] * axes, 3, 4)
        expected = jax.lax.conv_general_dilated(
            x[None], kernel, [1] * axes, "SAME", dimension_numbers=names
        )[0]
        found = layer(x) - layer.bias.reshape([1] * axes + [-1])
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="must be odd"):
        Convolution(1, 1, num_axes=1, kernel=2, key=seeded(0))


def test_a_student_offers_what_it_is_told_to():
    x = jr.normal(seeded(1), (2, 3))
    shape = MLPStudentShape(6, 4, hidden=(5, 7), offers=(0, 2), linear=(0,), weight_norm=False)
    student = make(shape)
    first, second, last = student.layers
    hidden = first(x.reshape(-1))
    logits = last(jax.nn.relu(second(hidden)))  # no activation after the first
    answer = eqx.filter_jit(student)(x)
    np.testing.assert_allclose(answer.prediction, logits, rtol=1e-6)
    np.testing.assert_allclose(answer.activations[0], hidden, rtol=1e-6)
    np.testing.assert_allclose(answer.activations[1], logits, rtol=1e-6)
    # Those of the hidden layers are before the activation.
    assert np.min(answer.activations[0]) < 0


def test_an_auxiliary_head_reads_the_last_hidden_layer():
    x = jr.normal(seeded(1), (6,))
    plain = make(MLPStudentShape(6, 4, hidden=(5, 7)))
    with_head = make(MLPStudentShape(6, 4, hidden=(5, 7), auxiliary=9))
    before, after = (eqx.filter_jit(student)(x) for student in (plain, with_head))
    np.testing.assert_allclose(after.prediction, before.prediction, rtol=1e-6)
    features = jax.nn.relu(before.activations[1])
    (offered,) = after.activations
    np.testing.assert_allclose(offered, with_head.head(features), rtol=1e-6)
    assert offered.shape == (9,)


def test_students_made_wrong_are_refused():
    with pytest.raises(ValueError, match="numbers of layers from 0 to 0; got \\[1\\]"):
        LayeredStudent((lambda x: x,), offers=(1,))
    with pytest.raises(ValueError, match="must be at least 1"):
        MLPStudentShape(0, 1)


def test_a_student_for_maps_offers_maps_and_reads_the_middle():
    student = make(MapStudentShape(num_layers=3, num_maps=4))
    ask = eqx.filter_jit(student)
    board = jr.bernoulli(seeded(1), 0.4, (9, 9)).astype(jnp.int8)
    answer = ask(board)
    assert answer.prediction.shape == (1,)
    assert [maps.shape for maps in answer.activations] == [(9, 9, 4)] * 3
    far, near = board.at[0, 4].set(1 - board[0, 4]), board.at[1, 4].set(1 - board[1, 4])
    assert ask(far).prediction == answer.prediction  # 4 cells away; 3 layers reach 3
    assert ask(near).prediction != answer.prediction
    doubled = make(MapStudentShape(2.0, num_layers=3, num_maps=4))
    np.testing.assert_allclose(doubled.layers[1].weight, 2 * student.layers[1].weight, rtol=1e-6)


def test_attention_sums_to_one_and_one_hot_returns_a_frame():
    teacher = make(AttentionShape(1.0, num_layers=2, num_maps=4))
    np.testing.assert_allclose(teacher.attention.sum(axis=0), 1.0, rtol=1e-6)
    frames = jr.bernoulli(seeded(1), 0.4, (3, 5, 5)).astype(jnp.int8)
    hot = 1e3 * jax.nn.one_hot(jnp.array([[0, 1], [2, 0]]), 3, axis=0)  # layers 2, maps 2
    targets = AttentionTeacher(hot)(frames)
    assert [maps.shape for maps in targets] == [(5, 5, 2)] * 2
    np.testing.assert_array_equal(targets[0][..., 1], frames[1])
    np.testing.assert_array_equal(targets[1][..., 0], frames[2])


def test_an_oracle_undoes_the_order_of_the_frames():
    stored_as = jnp.array([2, 0, 1])  # stored frame 0 is the true frame 2
    true = jr.bernoulli(seeded(1), 0.4, (3, 5, 5)).astype(jnp.float32)
    oracle = AttentionShape(1e3, num_layers=6, num_maps=4, oracle_every=2)
    targets = oracle(seeded(0), hint=stored_as)(true[stored_as])
    for layer in range(6):
        for single in range(4):
            np.testing.assert_array_equal(targets.values[layer][..., single], true[layer // 2])
        expected = 1.0 if layer % 2 else 0.0
        np.testing.assert_allclose(targets.weights[layer], expected, atol=1e-6)
    with pytest.raises(ValueError, match="must be told the order"):
        oracle(seeded(0))
    with pytest.raises(ValueError, match="9 layers are not 2 x 3 frames"):
        AttentionShape(oracle_every=2)(seeded(0), hint=stored_as)


def test_a_copy_hands_over_all_numbers():
    privileged = {"a": jnp.array([1, 2]), "b": jnp.array([[3.0], [4.0]])}
    assert Copy()(privileged).tolist() == [1, 2, 3, 4]


def test_squared_errors_are_means_over_all_units():
    hidden = (jnp.array([1.0, 2.0, 3.0]), jnp.array([[4.0]]))
    targets = (jnp.array([0.0, 2.0, 1.0]), jnp.array([[1.0]]))
    assert float(SquaredError()(hidden, targets)) == (1 + 0 + 4 + 9) / 4
    together = jnp.array([0.0, 2.0, 1.0, 1.0])
    assert float(SquaredError()(hidden, together)) == 14 / 4
    weighted = WeightedTargets(targets, (jnp.array([2.0]), jnp.array([[0.5]])))
    assert float(SquaredError()(hidden, weighted)) == (2 * 5 + 0.5 * 9) / 4


def test_gates_open_by_what_the_teacher_says():
    hidden, loss = jnp.array([1.0, 2.0]), GatedSquaredError(0.5, -1.0)
    output = jnp.array([0.0, 0.0, 0.5, -100.0])
    assert float(loss(hidden, output)) == pytest.approx(0.5 * 1.0 / 2)
    opened = GatedSquaredError().open(hidden, jnp.zeros(4))
    np.testing.assert_allclose(opened.weights, 1 / (1 + np.e), rtol=1e-6)


def test_the_divergence_takes_the_teacher_first():
    ours, theirs = jnp.log(jnp.array([0.5, 0.5])), jnp.log(jnp.array([0.9, 0.1])) + 3.0
    expected = 0.9 * np.log(0.9 / 0.5) + 0.1 * np.log(0.1 / 0.5)
    assert float(Divergence()((ours,), theirs)) == pytest.approx(expected, rel=1e-5)
    assert float(Divergence()((theirs,), theirs)) == pytest.approx(0.0, abs=1e-6)


def test_targets_of_the_wrong_size_are_refused():
    hidden = (jnp.zeros(3), jnp.zeros(4))
    with pytest.raises(
        ValueError, match=r"expected \[3\], \[4\], or one vector of the size 7; got \[8\]"
    ):
        SquaredError()(hidden, jnp.zeros(8))
    with pytest.raises(ValueError, match=r"got \[4\], \[3\]"):
        SquaredError()(hidden, (jnp.zeros(4), jnp.zeros(3)))
    with pytest.raises(ValueError, match=r"size 14.*each of the 7 units.*got \[7\]"):
        GatedSquaredError()(hidden, jnp.zeros(7))
    with pytest.raises(ValueError, match=r"weights \[2\] for targets \[3\], \[4\]"):
        SquaredError()(hidden, WeightedTargets(hidden, jnp.zeros(2)))
    with pytest.raises(ValueError, match="one array of logits"):
        Divergence()(hidden, hidden)


def test_objectives_by_hand():
    binary = BinaryLabels().measures(jnp.array([2.0]), jnp.array(1))
    assert float(binary["loss"]) == pytest.approx(np.log1p(np.exp(-2.0)), rel=1e-5)
    assert float(binary["accuracy"]) == 1.0
    logits = jnp.log(jnp.array([0.7, 0.2, 0.1]))
    entropy = -sum(p * np.log(p) for p in (0.7, 0.2, 0.1))
    assert float(ClassLabels(2.0).loss(logits, jnp.array(1))) == pytest.approx(
        -np.log(0.2) - 2 * entropy, abs=1e-6
    )
    assert float(ClassLabels(2.0).measures(logits, jnp.array(1))["loss"]) == pytest.approx(
        -np.log(0.2), rel=1e-5
    )
    truth = np.array([0.5, 0.5, 0.0])
    drawn = DrawnLabels().measures(logits, (jnp.array(0), jnp.asarray(truth, jnp.float32)))
    expected = 0.5 * np.log(0.5 / 0.7) + 0.5 * np.log(0.5 / 0.2)
    assert float(drawn["divergence"]) == pytest.approx(expected, rel=1e-5)
    assert float(NumberLabels().loss(jnp.array([3.0]), jnp.array(1))) == 4.0


def test_predicting_all_buckets_alike_scores_what_the_spread_of_buckets_is():
    measures = jax.vmap(BucketLabels().measures, in_axes=(None, 0))(jnp.zeros(32), jnp.arange(32))
    assert float(measures["squared_error"].mean()) == pytest.approx(0.0887, abs=5e-5)


def test_a_teacher_for_sequences_sees_time():
    teacher = make(ConvTeacherShape(6, 2, 5, maps=(3, 4), hidden=(8,)))
    x = jr.normal(seeded(1), (7, 6, 2))
    ask = eqx.filter_jit(targets_of)
    found = ask(teacher, x)
    assert found.shape == (7, 5)
    assert not np.allclose(ask(teacher, x[:, ::-1]), found)
    flat = make(MLPTeacherShape(12, 5, hidden=(8,)))
    assert ask(flat, x).shape == (7, 5)
    assert count(flat) == 12 * 8 + 8 + 8 * 5 + 5
