"""Few-shot tasks of modular teachers: splits, teachers, what is drawn."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.tasks.hyperteacher import (
    NUM_REFERENCE,
    is_connected,
    make_hyperteacher,
    make_split,
    masks_up_to,
    support_rank,
    task_codes,
    task_digits,
)


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Programs are many here, and small."""


EIGHT = {"num_modules": 8, "max_active": 2, "num_layers": 2}


def codes_of(split, num_modules=8, max_active=2, num_layers=2):
    return task_codes(split.train, masks_up_to(num_modules, max_active), num_layers)


@pytest.mark.parametrize(
    ("name", "num_train", "num_held_out", "rank", "connected"),
    [
        ("non-compositional", 1008, 288, 15, True),
        ("connected", 576, 698, 16, True),
        ("disconnected", 104, 698, 14, False),
        ("disconnected-clean", 200, 682, 16, False),
        ("connected-matched", 200, 682, 16, True),
        ("diagonal", 256, 1040, 16, True),
    ],
)
def test_splits_have_the_published_sizes(name, num_train, num_held_out, rank, connected):
    split = make_split(name, **EIGHT)
    assert (len(split.train), len(split.held_out)) == (num_train, num_held_out)
    assert not set(split.train) & set(split.held_out)
    assert len(set(split.train)) == num_train
    codes = codes_of(split)
    assert support_rank(codes) == rank
    assert is_connected(codes) == connected


def test_the_two_published_supports_share_82_tasks_and_what_they_hold_out():
    connected, disconnected = (make_split(name, **EIGHT) for name in ("connected", "disconnected"))
    assert len(set(connected.train) & set(disconnected.train)) == 82
    np.testing.assert_array_equal(connected.held_out, disconnected.held_out)
    sizes = masks_up_to(8, 2).sum(axis=1)[task_digits(connected.held_out, 36, 2)]
    assert int(np.all(sizes == 2, axis=1).sum()) == 506
    span = codes_of(disconnected)
    rank = support_rank(span)
    outside = [
        support_rank(np.concatenate([span, code[None]])) > rank
        for code in task_codes(disconnected.held_out, masks_up_to(8, 2), 2)
    ]
    assert sum(outside) == 478


def test_the_dense_split_trains_on_all_modules_at_once():
    split = make_split("dense", num_modules=4, max_active=4, num_layers=2)
    assert codes_of(split, 4, 4).all()
    assert len(split.train) == 1
    assert len(split.held_out) == 15**2 - 1
    assert not set(split.train) & set(split.held_out)
    order = make_hyperteacher("dense", num_modules=4, max_active=4).order
    assert order.train.tolist() == split.train.tolist()
    assert order.held_out.tolist() == split.held_out.tolist()


def test_random_splits_hold_out_a_share_of_all_tasks():
    for modules, active, total in ((4, 2, 100), (6, 2, 441), (8, 2, 1296), (4, 4, 225)):
        source = make_hyperteacher(num_modules=modules, max_active=active)
        assert source.num_combinations == total
        assert source.order.num_held_out == total // 4
    source = make_hyperteacher(num_modules=4)
    begin = eqx.filter_jit(source.begin)
    worlds = [begin(jr.key(seed)) for seed in range(2)]
    for world in worlds:
        everything = np.concatenate([world.combinations.train, world.combinations.held_out])
        np.testing.assert_array_equal(np.sort(everything), np.arange(100))
        assert source.facts(world) == {
            "num_train": 75,
            "num_held_out": 25,
            "rank": 8,
            "num_modules": 8,
            "connected": True,
        }
    assert set(np.asarray(worlds[0].combinations.held_out)) != set(
        np.asarray(worlds[1].combinations.held_out)
    )


def test_all_supports_share_one_program():
    count = 0

    @eqx.filter_jit
    def draw(source, key):
        nonlocal count
        count += 1
        world = source.begin(key)
        return {name: source.sample_set(world, name, key, 8).latent for name in source.sets}

    supports = ("random", "non-compositional", "connected", "disconnected", "disconnected-clean")
    for support in supports:
        source = small(support=support, num_modules=6)
        latents = draw(source, jr.key(1))
        world = source.begin(jr.key(1))
        assert set(as_numbers(source, latents["test"])) <= set(world.combinations.train.tolist()), (
            support
        )
        assert set(as_numbers(source, latents["ood"])) <= set(
            world.combinations.held_out.tolist()
        ), support
        fixed = (
            source.num_combinations,
            int(world.combinations.num_train),
            int(world.combinations.num_held_out),
        )
        assert sorted(world.combinations.tasks.tolist()) == list(range(fixed[0]))
        assert fixed[1:] == (
            int(world.combinations.is_trained.sum()),
            int(world.combinations.is_held_out.sum()),
        )
    assert count == 1


def test_nothing_held_out_trains_on_everything():
    source = make_hyperteacher(num_modules=4, held_out=0.0)
    assert (int(source.order.num_train), int(source.order.num_held_out)) == (100, 0)
    assert source.sets == ("valid", "test", "ood_hot_4")


def small(**settings):
    return make_hyperteacher(num_support=6, num_query=5, width=8, **settings)


def as_numbers(source, latents):
    """Which tasks the latents belong to."""
    masks = np.asarray(source.masks)
    digits = [
        [int(np.flatnonzero((masks == (row > 0)).all(axis=1))[0]) for row in latent]
        for latent in np.asarray(latents)
    ]
    return [int(np.dot(digit, [len(masks), 1])) for digit in digits]


def test_sets_are_drawn_from_where_they_say():
    source = small(num_modules=4)
    world = source.begin(jr.key(0))
    assert source.sets == ("valid", "test", "ood", "ood_hot_1", "ood_hot_2", "ood_hot_4")
    train, held_out = (
        set(np.asarray(x).tolist()) for x in (world.combinations.train, world.combinations.held_out)
    )

    @jax.jit
    def draw(key):
        return {name: source.sample_set(world, name, key, 64).latent for name in source.sets}

    latents = draw(jr.key(1))
    assert set(as_numbers(source, latents["valid"])) <= train
    assert set(as_numbers(source, latents["ood"])) <= held_out
    for hotness in (1, 2):
        assert set(as_numbers(source, latents[f"ood_hot_{hotness}"])) <= held_out
        assert (latents[f"ood_hot_{hotness}"].sum(axis=-1) == hotness).all()
    assert (latents["ood_hot_4"].sum(axis=-1) == 4).all()


def test_tasks_are_functions_of_their_key_and_share_no_row():
    source = small(num_modules=4)
    world = source.begin(jr.key(0))
    draw = jax.jit(lambda key: source.sample(world, key, 3))
    found = draw(jr.key(1))
    assert found.support.inputs.shape == (3, 6, 16)
    assert found.query.targets.shape == (3, 5, 8)
    assert eqx.tree_equal(draw(jr.key(1)), found)
    assert not eqx.tree_equal(draw(jr.key(2)), found)
    rows = np.concatenate([found.support.inputs[0], found.query.inputs[0]])
    assert len(np.unique(rows, axis=0)) == 11  # no row is both shown and asked
    expected = source.targets(world, found.latent[2], found.query.inputs[2])
    np.testing.assert_allclose(found.query.targets[2], expected, rtol=1e-3, atol=1e-6)


def test_a_hotness_that_was_not_held_out_gives_no_numbers():
    source = small(num_modules=2, max_active=2, held_out=0.2)  # nine tasks, one of them held out
    world = source.begin(jr.key(0))
    order = world.combinations._replace(tasks=jnp.arange(9)[::-1])  # the last: single modules
    world = world._replace(combinations=order)
    draw = jax.jit(lambda name: source.sample_set(world, name, jr.key(0), 4), static_argnums=0)
    assert jnp.isnan(draw("ood_hot_2").query.targets).all()
    assert jnp.isfinite(draw("ood_hot_1").query.targets).all()


def test_logits_are_standardized_and_targets_are_probabilities():
    source = small(num_modules=4)
    world = source.begin(jr.key(3))
    latent = jnp.array([[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    logits = source.standardized_logits(world, latent, world.reference)
    assert logits.shape == (NUM_REFERENCE, 8)
    np.testing.assert_allclose(logits.mean(axis=0), 0.0, atol=1e-4)
    np.testing.assert_allclose(logits.std(axis=0), 1.0, rtol=1e-4)
    targets = source.targets(world, latent, world.reference)
    np.testing.assert_allclose(targets.sum(axis=-1), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(targets.argmax(axis=-1), logits.argmax(axis=-1))
    np.testing.assert_allclose(targets, jax.nn.softmax(logits / 0.1), rtol=1e-5)


def test_generated_weights_are_linear_in_the_latent():
    for layer_local in (False, True):
        source = small(num_modules=4, layer_local=layer_local)
        teacher = source.begin(jr.key(0)).teacher
        z, other = jr.normal(jr.key(1), (2, 2, 4))
        mixed = teacher.generate(2 * z - 3 * other)
        expected = 2 * teacher.generate(z) - 3 * teacher.generate(other)
        np.testing.assert_allclose(mixed, expected, rtol=1e-4, atol=1e-4)
        changed = z.at[0, 1].add(1.0)
        differs = jnp.any(teacher.generate(changed) != teacher.generate(z), axis=(1, 2))
        assert differs.tolist() == [True, not layer_local]


def test_one_hidden_layer_is_generated_itself():
    source = small(num_modules=3, num_hidden=1)
    world = source.begin(jr.key(0))
    assert source.num_layers == 1
    assert world.teacher.first is None
    assert world.teacher.generate(jnp.ones((1, 3))).shape == (1, 16, 8)


def test_labels_are_as_uncertain_as_measured_for_the_published_teacher():
    source = make_hyperteacher(num_modules=8, num_support=1, num_query=256)
    entropies, tops, uniform = [], [], []
    draw = eqx.filter_jit(lambda key: source.sample(source.begin(key), key, 8))
    for seed in range(4):
        targets = np.asarray(draw(jr.key(seed)).query.targets, np.float64) + 1e-30
        entropy = -(targets * np.log(targets)).sum(axis=-1).mean()
        entropies.append(entropy)
        tops.append(targets.max(axis=-1).mean())
        uniform.append(np.log(8) - entropy)
    assert np.mean(entropies) == pytest.approx(0.29, abs=0.04)
    assert np.mean(tops) == pytest.approx(0.885, abs=0.02)
    assert np.mean(uniform) == pytest.approx(1.79, abs=0.04)


def test_continuous_combinations_weigh_active_modules_between_a_half_and_one():
    source = small(num_modules=4, continuous=True)
    draw = jax.jit(lambda key: source.sample(source.begin(key), key, 64).latent)
    latents = np.asarray(draw(jr.key(0)))
    active = latents[latents > 0]
    assert (active >= 0.5).all()
    assert (active < 1).all()
    assert len(np.unique(active)) > 50


def test_bad_settings_are_refused():
    with pytest.raises(LookupError, match="no fixed split is called 'ring'; known are non-comp"):
        make_hyperteacher("ring")
    with pytest.raises(ValueError, match=r"at least 0 and below 1; got 1\.0"):
        make_hyperteacher(held_out=1.0)
    with pytest.raises(ValueError, match="`max_active` must be 2 and `num_modules` even"):
        make_hyperteacher("connected", num_modules=8, max_active=3)
    with pytest.raises(ValueError, match="`max_active` must be from 1 to 4; got 5"):
        make_hyperteacher(max_active=5)
    with pytest.raises(ValueError, match="activates all modules"):
        make_hyperteacher("dense")
    with pytest.raises(ValueError, match="`num_hidden` must be at least 1"):
        make_hyperteacher(num_hidden=0)
    source = make_hyperteacher()
    with pytest.raises(LookupError, match="no set is called 'hard'; known are valid, test"):
        source.sample_set(None, "hard", jr.key(0), 1)
