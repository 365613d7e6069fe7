from functools import partial

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.skipping import (
    Batch,
    BinaryCrossEntropy,
    Coins,
    Skips,
    SquaredError,
    as_floats,
    flip_coins,
    free_run,
    skip_loss,
)
from recombine.methods.skipping._course import Course, Draws
from recombine.methods.skipping._pieces import whole_trajectories
from recombine.methods.skipping._rolling import Loop, roll


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """This module compiles much and computes little."""


TOY = jnp.array([0.0, 1, 2, 3, 4, 5, 6, 9])[None, :, None]


def add_three(x):
    return x + 3.0


@partial(jax.jit, static_argnames="skips")
def toy_loss(slope, frames, length, truth, skips):
    coins = flip_coins(jr.key(0), frames.shape[1] - 1, 1)
    batch = Batch(frames, jnp.array([length]))
    return skip_loss(
        lambda x: x + slope, batch, coins, skips=skips, truth=truth, frame_loss=SquaredError()
    )


def roll_toy(skips, truth, frames=TOY, length=8):
    loss, rollout = toy_loss(3.0, frames, length, truth, skips)
    count = int(rollout.num_predictions[0])
    return (
        rollout.matched[:count, 0].tolist(),
        rollout.losses[:count, 0].tolist(),
        float(loss),
        rollout,
    )


@pytest.mark.parametrize(
    ("skips", "truth", "matched", "losses"),
    [
        (Skips(1, 3), 0.0, [3, 6, 7], [0, 0, 0]),
        (Skips(1, 2), 0.0, [2, 4, 6, 7], [1, 4, 9, 9]),
        (Skips(1, 2), 1.0, [2, 4, 6, 7], [1, 1, 1, 0]),
        (Skips(2, 2), 1.0, [2, 4, 6], [1, 1, 1]),
        (Skips(3, 3), 1.0, [3, 6], [0, 0]),
    ],
)
def test_worked_examples(skips, truth, matched, losses):
    ours, our_losses, loss, _ = roll_toy(skips, truth)
    assert ours == matched
    np.testing.assert_allclose(our_losses, losses, atol=1e-6)
    assert loss == pytest.approx(np.mean(losses), abs=1e-6)


def test_a_horizon_of_one_predicts_every_frame():
    matched, _, _, rollout = roll_toy(Skips(1, 1), 1.0)
    assert matched == [1, 2, 3, 4, 5, 6, 7]
    assert int(rollout.num_predictions[0]) == 7


def test_ties_go_to_the_earliest_frame():
    frames = jnp.array([0.0, 3, 3, 3, 6])[None, :, None]
    assert roll_toy(Skips(1, 3), 0.0, frames, 5)[0][0] == 1


def test_a_single_frame_needs_no_prediction_and_two_need_one():
    matched, _, loss, _ = roll_toy(Skips(1, 3), 0.0, length=1)
    assert matched == []
    assert loss == 0.0
    assert roll_toy(Skips(1, 3), 0.0, length=2)[0] == [1]


def random_images(key, items, time, size=4):
    return jr.randint(key, (items, time, size, size, 3), 0, 256).astype(jnp.uint8)


def tiny_model(weights):
    """Mixes the channels of a pixel and of its left neighbour."""
    return lambda x: jax.nn.sigmoid(x @ weights[0] + jnp.roll(x, 1, axis=1) @ weights[1])


WEIGHTS = 2.0 * jr.normal(jr.key(1), (2, 3, 3))
LENGTHS = (9, 5, 7)
SETTINGS = {"skips": Skips(1, 3), "exploration": 0.4, "truth": 0.5}


def walk_by_hand(model, frames, length, coins, skips, exploration, truth, targets=None):
    """Follows Algorithm 1 for one trajectory, one line after the other."""
    loss = BinaryCrossEntropy()
    at, step, x, losses, matched = 0, 0, as_floats(frames[0]), [], []
    while at < length - 1:
        prediction = model(x)
        furthest = min(at + skips.longest, length - 1)
        candidates = list(range(at + 1, furthest + 1))
        if targets is not None:
            at = targets[step]
        elif float(coins.explore[step]) < exploration:
            at = candidates[int(float(coins.offset[step]) * len(candidates))]
        else:
            costs = [float(loss(prediction, as_floats(frames[t]))) for t in candidates]
            at = candidates[int(np.argmin(costs))]
        losses.append(loss(prediction, as_floats(frames[at])))
        matched.append(at)
        x = as_floats(frames[at]) if float(coins.truth[step]) < truth else prediction
        step += 1
    return losses, matched


@pytest.fixture(scope="module")
def images():
    frames = random_images(jr.key(0), 3, 9)
    return Batch(frames, jnp.array(LENGTHS)), flip_coins(jr.key(5), 8, 3)


def image_loss(weights, batch, coins, **settings):
    return skip_loss(tiny_model(weights), batch, coins, **settings)


STATIC = ("skips", "rematerialize", "keep_predictions", "keep_costs")
jitted_loss = jax.jit(image_loss, static_argnames=STATIC)
jitted_gradient = jax.jit(jax.grad(image_loss, has_aux=True), static_argnames=STATIC)


def scanned(batch, coins, weights=WEIGHTS, **changes):
    """Returns loss and rollout; one compiled program serves most tests."""
    return jitted_loss(weights, batch, coins, **{**SETTINGS, **changes})


def gradient(batch, coins, weights=WEIGHTS, **changes):
    return jitted_gradient(weights, batch, coins, **{**SETTINGS, **changes})[0]


def test_the_scan_equals_a_loop_by_hand(images):
    batch, coins = images
    loss, rollout = scanned(batch, coins)
    all_losses, targets = [], []
    for item in range(3):
        own = jax.tree.map(lambda c, i=item: np.asarray(c)[:, i], coins)
        losses, matched = walk_by_hand(
            tiny_model(WEIGHTS), batch.frames[item], LENGTHS[item], own, **SETTINGS
        )
        count = int(rollout.num_predictions[item])
        assert rollout.matched[:count, item].tolist() == matched
        assert rollout.matched[count:, item].tolist() == [-1] * (8 - count)
        all_losses += losses
        targets.append(matched)
    assert float(loss) == pytest.approx(float(jnp.mean(jnp.stack(all_losses))), abs=1e-5)

    def by_hand(weights):
        losses = []
        for item in range(3):
            own = jax.tree.map(lambda c, i=item: np.asarray(c)[:, i], coins)
            frames, length = batch.frames[item], LENGTHS[item]
            losses += walk_by_hand(
                tiny_model(weights), frames, length, own, **SETTINGS, targets=targets[item]
            )[0]
        return jnp.mean(jnp.stack(losses))

    ours = gradient(batch, coins)
    np.testing.assert_allclose(ours, jax.jit(jax.grad(by_hand))(WEIGHTS), atol=1e-5)


def test_memory_can_be_saved_without_changing_anything(images):
    np.testing.assert_allclose(gradient(*images), gradient(*images, rematerialize=True), atol=1e-6)


def test_a_longer_scan_changes_nothing(images):
    batch, coins = images
    more = jnp.zeros((3, 4, 4, 4, 3), jnp.uint8)
    longer = batch._replace(frames=jnp.concatenate([batch.frames, more], axis=1))
    coins = Coins(*(jnp.concatenate([c, jnp.full((4, 3), 0.3)]) for c in coins))
    short_loss, short = scanned(batch, coins)
    long_loss, long = scanned(longer, coins)
    assert float(short_loss) == float(long_loss)
    assert short.matched.tolist() == long.matched[:8].tolist()
    assert int(long.num_calls) == int(short.num_calls) == 3 * int(jnp.max(short.num_predictions))


def test_a_trajectory_does_not_notice_its_batch_or_its_padding(images):
    batch, coins = images
    _, together = scanned(batch, coins)
    beyond = jnp.arange(9)[None] >= batch.lengths[:, None]
    noise = random_images(jr.key(9), 3, 9)
    dirty = jnp.where(beyond[..., None, None, None], noise, batch.frames)
    dirty_loss, unclean = scanned(batch._replace(frames=dirty), coins)
    assert unclean.matched.tolist() == together.matched.tolist()
    alone = []
    for item in range(3):
        part = Batch(batch.frames[item : item + 1], batch.lengths[item : item + 1])
        loss, rollout = scanned(part, jax.tree.map(lambda c, i=item: c[:, i : i + 1], coins))
        assert rollout.matched[:, 0].tolist() == together.matched[:, item].tolist()
        np.testing.assert_allclose(rollout.losses[:, 0], together.losses[:, item], atol=1e-6)
        alone.append((float(loss), int(rollout.num_predictions[0])))
    weighted = np.average([loss for loss, _ in alone], weights=[count for _, count in alone])
    assert float(dirty_loss) == pytest.approx(weighted, abs=1e-6)


def test_padding_may_be_anything_even_nan():
    frames = jnp.concatenate([TOY, jnp.full((1, 3, 1), jnp.nan)], axis=1)
    assert roll_toy(Skips(1, 3), 0.0, frames)[:3] == roll_toy(Skips(1, 3), 0.0)[:3]
    grad, _ = jax.grad(toy_loss, has_aux=True)(2.0, frames, 8, 0.0, Skips(1, 3))
    assert np.isfinite(grad)


def test_exploration_is_uniform_over_the_frames_that_there_are():
    items, time, horizon = 4000, 7, 3
    frames = jnp.zeros((items, time, 1))
    batch = Batch(frames, jnp.full(items, time))
    coins = flip_coins(jr.key(2), time - 1, items)
    explore = partial(skip_loss, add_three, skips=Skips(1, horizon), frame_loss=SquaredError())
    _, rollout = jax.jit(explore)(batch, coins, exploration=1.0)
    matched = np.asarray(rollout.matched)
    assert (matched.max(axis=0) == time - 1).all()  # every trajectory comes to its end
    before = np.concatenate([np.zeros((1, items), int), matched[:-1]])
    is_step = matched >= 0
    for start in range(time - 1):
        skips = (matched - before)[is_step & (before == start)]
        choices = min(horizon, time - 1 - start)
        counts = np.bincount(skips, minlength=horizon + 1)
        assert counts[0] == 0
        assert counts[choices + 1 :].sum() == 0
        expected = len(skips) / choices
        chi_square = ((counts[1 : choices + 1] - expected) ** 2 / expected).sum()
        assert chi_square < 14  # 0.1 % of draws with two degrees of freedom


def test_with_truth_the_gradient_is_that_of_single_steps(images):
    batch, coins = images
    fixed = {"skips": Skips(2, 2), "exploration": 0.0}
    ours = gradient(batch, coins, truth=1.0, **fixed)

    def single_steps(weights):
        model, loss = tiny_model(weights), BinaryCrossEntropy()
        losses = [
            loss(model(as_floats(batch.frames[item, t])), as_floats(batch.frames[item, t + 2]))
            for item in range(3)
            for t in range(0, LENGTHS[item] - 2, 2)
        ]
        return jnp.mean(jnp.stack(losses))

    np.testing.assert_allclose(ours, jax.jit(jax.grad(single_steps))(WEIGHTS), atol=1e-5)


@pytest.mark.parametrize("exploration", [0.0, 0.4])
def test_with_truth_the_gradient_of_adaptive_skips_is_that_of_single_steps(images, exploration):
    batch, coins = images
    settings = {"truth": 1.0, "exploration": exploration}
    ours, (_, rollout) = gradient(batch, coins, **settings), scanned(batch, coins, **settings)
    pairs = []
    for item in range(3):
        ends = rollout.matched[: int(rollout.num_predictions[item]), item].tolist()
        pairs += [(item, *pair) for pair in zip([0, *ends], ends, strict=False)]
    assert {end - start for _, start, end in pairs} == {1, 2, 3}

    def single_steps(weights):
        model, loss = tiny_model(weights), BinaryCrossEntropy()
        losses = [
            loss(model(as_floats(batch.frames[item, start])), as_floats(batch.frames[item, end]))
            for item, start, end in pairs
        ]
        return jnp.mean(jnp.stack(losses))

    np.testing.assert_allclose(ours, jax.jit(jax.grad(single_steps))(WEIGHTS), atol=1e-5)


def test_without_truth_gradients_flow_through_predictions(images):
    batch, coins = images
    _, rollout = scanned(batch, coins, truth=0.0)
    fixed = {"targets": rollout.matched, "truth": 0.0, "exploration": 0.0}

    def loss(weights):
        return scanned(batch, coins, weights, **fixed)[0]

    ours = gradient(batch, coins, **fixed)
    np.testing.assert_allclose(ours, gradient(batch, coins, truth=0.0), atol=1e-6)
    with_truth = gradient(batch, coins, **{**fixed, "truth": 1.0})
    assert np.abs(ours - with_truth).max() > 1e-3
    direction = jr.normal(jr.key(7), WEIGHTS.shape)
    reach = 3e-3
    slope = (loss(WEIGHTS + reach * direction) - loss(WEIGHTS - reach * direction)) / (2 * reach)
    assert float(jnp.vdot(ours, direction)) == pytest.approx(float(slope), rel=2e-2, abs=2e-3)


def test_seeds_side_by_side_share_one_loop_and_keep_their_numbers(images):
    batch, coins = images
    many = jnp.stack([WEIGHTS, 0.5 * WEIGHTS])
    together = jax.jit(jax.vmap(lambda w: jitted_gradient(w, batch, coins, **SETTINGS)))
    grads, rollouts = together(many)
    for number in range(2):
        _, rollout = scanned(batch, coins, many[number])
        assert rollouts.matched[number].tolist() == rollout.matched.tolist()
        np.testing.assert_allclose(grads[number], gradient(batch, coins, many[number]), atol=1e-5)
        assert int(rollouts.num_calls[number]) == int(rollout.num_calls)

    def steps_made(weights):
        draws, pieces = Draws(coins, None), whole_trajectories(batch.lengths, len(coins.truth))
        course = Course(batch, pieces, draws, 0.3, 0.4, SETTINGS["skips"], BinaryCrossEntropy())
        return roll(tiny_model(weights), course, Loop(lanes=3)).num_steps

    # One number for all: they end together, with the one that takes longest.
    together = jax.vmap(steps_made, out_axes=None)(many)
    assert int(together) == max(int(steps_made(weights)) for weights in many)


def test_a_model_may_compute_in_sixteen_bits():
    frames = jnp.array([0.0, 1.0, 2.0, 4.0])[None, :, None]  # all of them are numbers of bfloat16
    batch, coins = Batch(frames, jnp.array([4])), flip_coins(jr.key(0), 3, 1)

    def loss_of(slope, dtype):
        def model(x):
            return (x * slope + 1).astype(dtype)

        run = free_run(model, frames[:, 0], 3)
        settings = {"skips": Skips(1, 2), "truth": 0.0, "frame_loss": SquaredError()}
        loss, rollout = skip_loss(model, batch, coins, **settings)
        return loss, (rollout.matched, run)

    for_both = jax.value_and_grad(loss_of, has_aux=True)
    (ours, our_gradient), (exact, gradient) = (
        for_both(1.0, dtype) for dtype in (jnp.bfloat16, jnp.float32)
    )
    assert ours[1][1].dtype == jnp.float32
    jax.tree.map(np.testing.assert_array_equal, ours, exact)
    assert float(our_gradient) == pytest.approx(float(gradient), rel=0.02)
    assert float(gradient) != 0


def test_what_is_kept(images):
    batch, coins = images
    _, rollout = scanned(batch, coins, keep_predictions=True, keep_costs=True)
    assert rollout.predictions.shape == (8, 3, 4, 4, 3)
    assert rollout.costs.shape == (8, 3, 3)
    chosen = np.asarray(rollout.costs[0]).min(axis=1)
    is_greedy = np.asarray(coins.explore[0]) >= SETTINGS["exploration"]
    assert is_greedy.any()
    np.testing.assert_allclose(rollout.losses[0][is_greedy], chosen[is_greedy], rtol=1e-5)


def test_gradients_reach_predictions_that_are_kept():
    first = jr.uniform(jr.key(2), (1, 4, 4, 3))
    batch = Batch(jnp.repeat(first[:, None], 4, axis=1), jnp.array([4]))
    coins, wanted = flip_coins(jr.key(0), 3, 1), jr.normal(jr.key(3), (3, 1, 4, 4, 3))

    def kept(weights):
        _, rollout = image_loss(weights, batch, coins, skips=Skips(1, 1), keep_predictions=True)
        return jnp.sum(wanted * rollout.predictions)

    def by_hand(weights):
        frames, total = first[0], 0.0
        for one in wanted[:, 0]:
            frames = tiny_model(weights)(frames)
            total += jnp.sum(one * frames)
        return total

    np.testing.assert_allclose(jax.grad(kept)(WEIGHTS), jax.grad(by_hand)(WEIGHTS), rtol=1e-5)


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="`shortest` must be at least 1"):
        Skips(0, 3)
    with pytest.raises(ValueError, match=r"`longest`.*horizon"):
        Skips(1, 0)
    with pytest.raises(ValueError, match=r"horizon of 9.*longest has 5"):
        Skips(1, 9).check(np.array([5, 4]))
    few, enough = (flip_coins(jr.key(0), steps, 1) for steps in (3, 7))
    with pytest.raises(ValueError, match="`coins` must have at least 7 rows"):
        skip_loss(add_three, Batch(TOY, jnp.array([8])), few, skips=Skips(1, 3))
    with pytest.raises(ValueError, match="`lengths` must have one number"):
        skip_loss(add_three, Batch(TOY, jnp.array([8, 8])), enough, skips=Skips(1, 3))
