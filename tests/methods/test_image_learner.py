"""Every image its own environment: the gradients of each mode, and the learner around them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from recombine.methods.agreement import (
    AndMask,
    ImageAgreementLearner,
    ImageData,
    ResNetShape,
    stacked_statistics,
)
from recombine.methods.agreement._resnet import WIDTHS
from recombine.training import fit

WIDTH = 1 / 16
BATCH = 8


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Every test here."""


def flip_some(key, labels):
    changed = jnp.arange(len(labels)) % 4 == 0
    return jnp.where(changed, (labels + 1) % 10, labels), changed


def make_learner(mode="frozen", threshold=0.0, **changes):
    generator = np.random.default_rng(0)
    draw = lambda n: jnp.asarray(generator.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8))  # noqa: E731
    settings = {
        "data": ImageData(draw(20), jnp.arange(20) % 10, draw(12), jnp.arange(12) % 10),
        "seen": jnp.arange(12),
        "mask": AndMask(threshold, 1.0) if threshold > 0 else None,
        "learning_rate": 1e-3,
        "l2": 0.0,
        "decay_steps": jnp.array([1000, 2000]),
        "num_steps": 10,
        "network": ResNetShape(width=WIDTH, norm="group" if mode == "group" else "batch"),
        "mode": mode,
        "batch_size": BATCH,
        "relabel": None,
        "mean": (0.5, 0.5, 0.5),
        "std": (0.2, 0.2, 0.2),
    }
    return ImageAgreementLearner(**{**settings, **changes})


init = eqx.filter_jit(lambda learner, key: learner.init(key))
step = eqx.filter_jit(lambda learner, state, key: learner.step(state, key))
evaluate = eqx.filter_jit(lambda learner, state: learner.evaluate(state, jr.key(0)))
gradients = eqx.filter_jit(lambda learner, *args: learner._gradients(*args))


def batch_of(learner, state, number=BATCH):
    images = learner._normalized(learner.data.train_images[:number])
    return state.model, images, state.labels[:number]


@eqx.filter_jit
def one_by_one(model, images, labels, statistics):
    """One gradient per example, with the batch's statistics as constants."""

    def loss(model, image, label):
        logits, _ = model(image[None], statistics)
        return optax.softmax_cross_entropy_with_integer_labels(logits[0], label)

    return jax.vmap(jax.grad(loss), (None, 0, 0))(model, images, labels)


@pytest.mark.parametrize("mode", ["frozen", pytest.param("group", marks=pytest.mark.slow)])
def test_one_pass_gives_the_sums_of_one_gradient_per_example(mode):
    learner = make_learner(mode, threshold=0.5)
    model, images, labels = batch_of(learner, init(learner, jr.key(0)))
    _, statistics, stats = gradients(learner, model, images, labels)
    each = one_by_one(model, images, labels, None if mode == "group" else statistics)
    expected = jax.jit(stacked_statistics)(each)
    assert int(stats.num_envs) == BATCH
    trees = (stats.total, stats.signs, expected.total, expected.signs, each)
    leaves = map(jax.tree.leaves, jax.device_get(trees))
    for total, signs, total_of_each, signs_of_each, grads in zip(*leaves, strict=True):
        scale = np.abs(grads).max()
        np.testing.assert_allclose(total, total_of_each, atol=1e-5 * scale)
        clear = ((np.abs(grads) > 1e-6 * scale) | (grads == 0)).all(axis=0)
        assert clear.mean() > 0.9
        np.testing.assert_array_equal(signs[clear], signs_of_each[clear])


def test_exact_and_split_gradients_add_up_to_the_batchs_and_frozen_ones_do_not():
    plain = make_learner("exact")
    state = init(plain, jr.key(0))
    _, _, of_batch = gradients(plain, *batch_of(plain, state))
    stats = {
        mode: gradients(learner, *batch_of(learner, state))[2]
        for mode in ("exact", "split", "frozen")
        for learner in [make_learner(mode, threshold=0.5, at_once=4)]
    }
    stats, of_batch = jax.device_get((stats, of_batch))
    off = {
        mode: max(
            np.abs(total - BATCH * mean).max() / np.abs(BATCH * mean).max()
            for total, mean in zip(*map(jax.tree.leaves, (sums.total, of_batch)), strict=True)
        )
        for mode, sums in stats.items()
    }
    assert off["exact"] < 1e-4
    assert off["split"] < 1e-4
    assert off["frozen"] > 0.05
    # Whom the paths between images count for shows in the signs, but in the last layer.
    signs = {mode: sums.signs for mode, sums in stats.items()}
    np.testing.assert_array_equal(signs["exact"].head, signs["split"].head)
    apart = signs["exact"].blocks["res3b"].kernel != signs["split"].blocks["res3b"].kernel
    assert apart.mean() > 0.01


@pytest.mark.slow
def test_without_a_mask_a_step_is_adam_on_the_batchs_gradient():
    learner = make_learner(l2=1e-2)
    state = init(learner, jr.key(0))
    after, metrics = step(learner, state, jr.key(1))
    chosen = after.order[:BATCH]
    images = learner._normalized(learner.data.train_images[chosen])
    losses, _, grads = gradients(learner, state.model, images, state.labels[chosen])
    optimizer = optax.chain(optax.add_decayed_weights(1e-2), optax.adam(1e-3))
    start = jax.jit(optimizer.init)(state.model)
    updates, _ = jax.jit(optimizer.update)(grads, start, state.model)
    assert float(metrics["loss"]) == pytest.approx(float(losses.mean()), rel=1e-5)
    assert set(metrics) == {"loss"}
    trees = jax.device_get((after.model, state.model, updates, grads))
    for new, old, update, grad in zip(*map(jax.tree.leaves, trees), strict=True):
        clear = np.abs(grad) > 1e-5  # Adam's first step is a sign
        np.testing.assert_allclose((new - old)[clear], update[clear], rtol=2e-2)


def test_a_masked_step_moves_only_what_the_examples_agree_on():
    learner = make_learner(threshold=0.9)
    state = init(learner, jr.key(0))
    after, metrics = step(learner, state, jr.key(1))
    chosen = after.order[:BATCH]
    images = learner._normalized(learner.data.train_images[chosen])
    _, _, stats = gradients(learner, state.model, images, state.labels[chosen])
    trees = jax.device_get((after.model, state.model, stats.signs))
    for new, old, signs in zip(*map(jax.tree.leaves, trees), strict=True):
        moved = new != old
        agreed = np.abs(signs) >= 8  # 0.9 of 8 is 7.2, and sums of eight signs go in steps
        assert np.mean(moved == agreed) > 0.99
    kept = {name: float(value) for name, value in metrics.items() if name.startswith("kept/")}
    assert set(kept) == {f"kept/{name}" for name in (*WIDTHS, "head")}
    assert all(0.0 <= share < 1.0 for share in kept.values())


def test_an_epoch_visits_every_image_once_and_drops_the_rest():
    learner = make_learner()
    state = init(learner, jr.key(0))
    seen = []
    for number in range(4):
        order, chosen = eqx.filter_jit(learner._next_batch)(state, jr.key(number))
        state = state._replace(order=order, step=state.step + 1)
        seen.append(chosen.tolist())
    assert len(set(seen[0] + seen[1])) == 2 * BATCH  # of 20 images
    assert seen[0] != seen[2]


def test_the_learning_rate_falls_where_it_should():
    optimizer = make_learner(decay_steps=jnp.array([1, 2]))._optimizer()
    weight = jnp.ones(1)
    state = optimizer.init(weight)
    moves = []
    for _ in range(3):
        move, state = optimizer.update(weight, state, weight)
        moves.append(float(move[0]))
    np.testing.assert_allclose(moves, [-1e-3, -1e-4, -1e-5], rtol=1e-3)


def test_running_statistics_follow_the_batches():
    learner = make_learner(threshold=0.9)
    state = init(learner, jr.key(0))
    after, _ = step(learner, state, jr.key(1))
    images = learner._normalized(learner.data.train_images[after.order[:BATCH]])
    _, batch, _ = gradients(learner, state.model, images, state.labels[after.order[:BATCH]])
    np.testing.assert_allclose(
        after.running["res1a"].mean, 0.1 * batch["res1a"].mean, rtol=1e-4, atol=1e-6
    )


def test_measures_count_right_answers_and_wrong_labels_apart():
    learner = make_learner(relabel=flip_some)
    state = init(learner, jr.key(0))
    rigged = eqx.tree_at(lambda m: m.head, state.model, jnp.zeros_like(state.model.head))
    state = state._replace(model=rigged)  # all logits zero: every answer is class 0
    measured = evaluate(learner, state)
    labels, changed = np.asarray(state.labels[:12]), np.asarray(state.changed[:12])
    assert float(measured["train_accuracy"]) == pytest.approx((labels == 0).mean())
    assert float(measured["test_accuracy"]) == pytest.approx(2 / 12)
    assert float(measured["gap"]) == pytest.approx((labels == 0).mean() - 2 / 12)
    assert float(measured["wrong_label_accuracy"]) == pytest.approx((labels[changed] == 0).mean())
    unchanged = make_learner()
    assert "wrong_label_accuracy" not in eqx.filter_eval_shape(unchanged.evaluate, state, jr.key(0))


def test_images_are_normalised_by_channel():
    learner = make_learner(mean=(0.0, 0.5, 1.0), std=(1.0, 0.5, 2.0))
    pixels = jnp.full((1, 1, 1, 3), 255, jnp.uint8)
    np.testing.assert_allclose(learner._normalized(pixels)[0, 0, 0], [1.0, 1.0, 0.0], atol=1e-6)


def test_one_program_serves_all_thresholds():
    state = init(make_learner(threshold=0.5), jr.key(0))
    kept, programs = [], []
    for threshold in (0.25, 1.0):
        _, metrics = step(make_learner(threshold=threshold), state, jr.key(1))
        kept.append(float(metrics["kept/layer2"]))
        programs.append(step._cached._cache_size())
    assert kept[0] > kept[1]
    assert programs[0] == programs[1]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["split", "exact", "group"])
def test_it_trains_and_logs_what_was_kept(mode):
    learner = make_learner(mode, threshold=0.25, learning_rate=1e-2, num_steps=40)
    fitted = fit(learner, steps=40, eval_every=20, seeds=(0, 1), progress=False, vectorize=True)
    losses = np.asarray(fitted.history.metrics["step/loss"])
    assert np.isfinite(losses[1:]).all()
    assert mode != "split" or (losses[-1] < 2.2).all()
    everything = eqx.tree_at(lambda who: who.seen, learner, jnp.arange(20))
    measured = evaluate(everything, fitted.state_of(1))
    assert fitted.final["train_accuracy"][1] == pytest.approx(float(measured["train_accuracy"]))
    log = learner.inspect(fitted.state_of(0), jr.key(0))["kept_by_layer"]
    assert log.shape == (60, 9)
    assert int((log.sum(axis=1) > 0).sum()) == 40


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mode": "loose"}, "`mode` must be one of .*'split'.* got 'loose'"),
        ({"mode": "group", "network": ResNetShape(width=WIDTH)}, '"group" goes with a network'),
        ({"network": ResNetShape(width=WIDTH, norm="group")}, '"group" goes with a network'),
        ({"batch_size": 21}, "`batch_size` must be between 1 and the 20"),
        ({"batch_size": 0}, "`batch_size` must be between 1 and the 20"),
    ],
)
def test_bad_settings(changes, words):
    with pytest.raises(ValueError, match=words):
        make_learner(**changes)
