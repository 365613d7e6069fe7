"""The theory's supports, latents and teacher."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.tasks.hyperteacher import (
    THEORY_SUPPORTS,
    TeacherStudent,
    continuous_latents,
    is_connected,
    is_covered,
    is_identifying,
    mask_matrix,
    masks_of_size,
    random_masks,
    support_rank,
    theory_masks,
    unit_latents,
)

# Number of masks, rank, connected, and the authors' labels: continuous, discrete (None: not run).
EXPECTED = {
    "onehot": (6, 6, False, False, False),
    "pairs-split": (6, 6, False, False, None),
    "triples-split": (2, 2, False, False, False),
    "triples+pairs-split": (8, 6, False, False, None),
    "onehot+pairs-split": (12, 6, False, None, False),
    "pairs-ring": (6, 5, True, True, False),
    "triples-ring3": (3, 3, True, True, None),
    "triples-ring6": (6, 5, True, True, None),
    "triples-slide6": (6, 4, True, None, False),
    "all6": (1, 1, True, True, False),
    "onehot+pairs-ring": (12, 6, True, None, True),
    "onehot+triples-ring3": (9, 6, True, None, True),
    "onehot+triples-ring6": (12, 6, True, None, True),
    "onehot+all6": (7, 6, True, None, True),
}


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are many here, and small."""


def test_all_supports_are_here():
    assert set(THEORY_SUPPORTS) == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_supports_have_the_rank_and_the_connections_of_the_table(name):
    count, rank, connected, good_continuous, good_discrete = EXPECTED[name]
    masks = theory_masks(name)
    assert len(masks) == count
    assert support_rank(masks) == rank
    assert is_covered(masks)
    assert is_connected(masks) == connected
    if good_continuous is not None:
        assert is_identifying(masks, continuous=True) == good_continuous
    if good_discrete is not None:
        assert is_identifying(masks, continuous=False) == good_discrete


def test_connectivity_is_the_absence_of_a_split_of_modules():
    random = np.random.default_rng(0)
    for _ in range(100):
        masks = random.random((4, 5)) < 0.3
        masks = masks[masks.any(axis=1)]
        if not len(masks):
            continue
        used = np.flatnonzero(masks.any(axis=0))
        splits = False
        for number in range(1, 2 ** len(used) - 1):
            group = np.zeros(5, bool)
            group[used[[number >> i & 1 == 1 for i in range(len(used))]]] = True
            inside = (~masks[:, ~group].any(axis=1)) | (~masks[:, group].any(axis=1))
            splits |= bool(inside.all())
        assert is_connected(masks) == (not splits)


def test_masks_refuse_modules_that_do_not_exist():
    np.testing.assert_array_equal(mask_matrix([(2, 2)], 3), [[False, False, True]])
    with pytest.raises(ValueError, match=r"from 0 to 2.*got \(3,\)"):
        mask_matrix([(3,)], 3)
    with pytest.raises(LookupError, match="called 'ring'; known are onehot"):
        theory_masks("ring")


def test_latents_have_the_published_laws():
    one, two = (jnp.asarray(masks_of_size(6, k)) for k in (1, 2))
    for masks, mean in ((one, 0.404), (two, 0.298)):
        many = jnp.tile(masks, (4000 // len(masks), 1))
        latents = np.asarray(continuous_latents(jr.key(0), many))
        active = latents[np.asarray(many)]
        assert ((active >= 0.5) & (active < 1)).all()
        assert not latents[~np.asarray(many)].any()
        assert 2 * active.mean() - 1 == pytest.approx(mean, abs=0.01)
    np.testing.assert_allclose(jnp.linalg.norm(unit_latents(two), axis=-1), 1.0, rtol=1e-6)
    drawn = np.asarray(random_masks(jr.key(1), (600,), 4, 2))
    assert (drawn.sum(axis=1) == 2).all()
    _, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(counts) == 6
    assert counts.min() > 60


def test_sets_are_drawn_from_their_masks():
    masks = theory_masks("onehot+pairs-ring")
    source = TeacherStudent(masks, continuous=False, num_rows=3, num_query_rows=4)
    assert source.sets[:3] == ("train", "hot_1", "hot_2")
    draw = eqx.filter_jit(lambda name: source.sample_latents(name, jr.key(0), 512))
    trained = {tuple(mask) for mask in masks.tolist()}
    train = np.asarray(draw("train"))
    assert {tuple(row) for row in (train > 0).tolist()} == trained
    np.testing.assert_allclose(np.linalg.norm(train, axis=1), 1.0, rtol=1e-5)
    unseen = np.asarray(draw("unseen"))
    found = {tuple(row) for row in (unseen > 0).tolist()}
    assert not found & trained
    assert len(found) == 63 - 12  # all of them, in 512 draws
    assert (unseen[unseen > 0] >= 0.5).all()  # always continuous
    unit = np.asarray(draw("unseen_unit"))
    np.testing.assert_allclose(np.linalg.norm(unit, axis=1), 1.0, rtol=1e-5)
    assert ((np.asarray(draw("hot_4")) > 0).sum(axis=1) == 4).all()
    with pytest.raises(LookupError, match="no set is called 'hot_7'"):
        source.sample_latents("hot_7", jr.key(0), 1)


def test_a_support_of_everything_leaves_nothing_unseen():
    source = TeacherStudent(np.array([[True, False], [False, True], [True, True]]))
    assert jnp.isnan(source.sample_latents("unseen", jr.key(0), 3)).all()


def test_the_teacher_is_linear_in_its_latent_up_to_the_hidden_layer():
    source = TeacherStudent(theory_masks("all6"), num_rows=3, num_query_rows=4)
    teacher = source.begin(jr.key(0))
    assert teacher.modules.shape == (6, 16, 16)
    z, other = jr.normal(jr.key(1), (2, 6))
    np.testing.assert_allclose(
        teacher.generate(2 * z - other),
        2 * teacher.generate(z) - teacher.generate(other),
        rtol=1e-4,
        atol=1e-5,
    )
    inputs = jr.normal(jr.key(2), (3, 16))
    weight = np.einsum("m,miu->iu", z, teacher.modules)
    expected = np.maximum(np.asarray(inputs) @ weight / 4, 0) @ np.asarray(teacher.readout)
    np.testing.assert_allclose(teacher(z, inputs), expected, rtol=1e-4, atol=1e-5)
    assert float(teacher.modules.std()) == pytest.approx(0.88 / 6**0.5, rel=0.05)
    assert float(teacher.readout.std()) == pytest.approx(0.88 / 4, rel=0.2)


def test_tasks_have_examples_of_their_own():
    source = TeacherStudent(theory_masks("pairs-ring"), num_rows=3, num_query_rows=4)
    teacher = source.begin(jr.key(0))
    tasks = jax.jit(lambda key: source.sample_set(teacher, "hot_2", key, 5))(jr.key(1))
    assert tasks.support.inputs.shape == (5, 3, 16)
    assert tasks.query.targets.shape == (5, 4, 4)
    np.testing.assert_allclose(
        tasks.query.targets[2],
        teacher(tasks.latent[2], tasks.query.inputs[2]),
        rtol=1e-4,
        atol=1e-6,
    )
    assert float(jnp.abs(tasks.query.inputs).max()) <= 3**0.5
    rows = np.concatenate([tasks.support.inputs, tasks.query.inputs], axis=1).reshape(-1, 16)
    assert len(np.unique(rows, axis=0)) == 5 * (3 + 4)  # no row is both shown and asked
    fresh = source.fresh(teacher, tasks.latent[0], jr.key(2))
    assert fresh.inputs.shape == (3, 16)
    training = jax.eval_shape(lambda key: source.sample(teacher, key, 2), jr.key(1))
    assert training.query.inputs.shape == (2, 3, 16)
