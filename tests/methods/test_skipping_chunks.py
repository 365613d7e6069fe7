"""A rollout in chunks, or in lanes, has the numbers of the one that looks after every step."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.methods.skipping import Batch, Skips, SquaredError, flip_coins, skip_loss


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """This module compiles much and computes little."""


class Mixer(eqx.Module):
    """Mixes the channels of a pixel and of its left neighbour, and what it is told."""

    weights: jax.Array
    name: str = eqx.field(static=True, default="mixer")

    def __call__(self, x, context):
        left = jnp.roll(x, 1, axis=1)
        return jax.nn.sigmoid(x @ self.weights[0] + left @ self.weights[1] + context[None, None])


MODEL = Mixer(2.0 * jr.normal(jr.key(1), (2, 3, 3)))
FRAMES = jr.randint(jr.key(0), (3, 12, 4, 4, 3), 0, 256).astype(jnp.uint8)
BATCH = Batch(FRAMES, jnp.array([12, 5, 9]), jr.normal(jr.key(3), (3, 3)))
COINS = flip_coins(jr.key(5), 11, 3)


def test_what_is_the_same_for_all_inputs_is_not_written_down_for_each():
    class Rounded(Mixer):
        """Has weights in 16 bits."""

        def __call__(self, x, context):
            mixed = x.astype(jnp.bfloat16) @ self.weights[0].astype(jnp.bfloat16)
            return jax.nn.sigmoid(mixed.astype(jnp.float32) + context[None, None])

    def loss(model):
        return skip_loss(model, BATCH, COINS, skips=Skips(1, 3), truth=0.4)[0]

    program = str(jax.make_jaxpr(eqx.filter_grad(loss))(Rounded(MODEL.weights)))
    assert "bf16[3,3]" in program  # the rounded weights
    assert "bf16[11,3,4,4,3]" in program  # what entered them, for the way back, in all eleven steps
    assert "bf16[11,3,3]" not in program


@eqx.filter_jit
def graded(model, coins=COINS, batch=BATCH, *, skips, chunk=1, lanes=None, targets=None, truth=0.4):
    def loss(model):
        return skip_loss(
            *(model, batch, coins),
            **{"skips": skips, "exploration": 0.3, "truth": truth},
            targets=targets,
            chunk=chunk,
            lanes=lanes,
        )

    (value, rollout), gradient = eqx.filter_value_and_grad(loss, has_aux=True)(model)
    return value, rollout, gradient.weights


def check_same(ours, others, chunk):
    """Compares what came of a rollout in chunks with what came of all steps."""
    (our_loss, our_rollout, our_gradient), (loss, rollout, gradient) = ours, others
    assert our_rollout.matched.tolist() == rollout.matched.tolist()
    assert our_rollout.num_predictions.tolist() == rollout.num_predictions.tolist()
    np.testing.assert_allclose(our_rollout.losses, rollout.losses, rtol=1e-6)
    assert float(our_loss) == pytest.approx(float(loss), rel=1e-6)
    np.testing.assert_allclose(our_gradient, gradient, atol=1e-6)
    assert np.abs(gradient).max() > 1e-3
    if chunk is not None:
        assert int(our_rollout.num_calls) // 3 % chunk == 0
        assert int(our_rollout.num_calls) >= int(rollout.num_calls)


def test_chunks_change_neither_matches_nor_gradients_with_seeds_side_by_side():
    models = Mixer(jnp.stack([MODEL.weights, 0.3 * MODEL.weights]))
    coins = jax.tree.map(lambda coin: jnp.stack([coin, coin[::-1]]), COINS)
    together = eqx.filter_vmap(partial(graded, skips=Skips(1, 3), chunk=3))(models, coins)
    for number in range(2):
        own, ours = jax.tree.map(lambda leaf, n=number: leaf[n], ((models, coins), together))
        check_same(ours, graded(*own, skips=Skips(1, 3)), chunk=3)


def test_a_rollout_that_ends_early_has_the_numbers_of_one_at_full_length():
    early = graded(MODEL, skips=Skips(1, 3))
    whole = graded(MODEL, skips=Skips(1, 3), chunk=11)
    check_same(whole, early, chunk=11)
    assert int(early[1].num_calls) < int(whole[1].num_calls) == 3 * 11


@pytest.mark.parametrize("skips", [Skips(1, 3), Skips(2, 2)])
def test_one_trajectory_after_the_other_has_the_numbers_of_all_at_once(skips):
    alone = graded(MODEL, skips=skips, lanes=1)
    check_same(alone, graded(MODEL, skips=skips), chunk=None)
    # One lane is never idle, so that the model is called no more than it is needed.
    assert int(alone[1].num_calls) == int(jnp.sum(alone[1].num_predictions))


def test_lanes_go_with_chunks_and_seeds_side_by_side():
    batch = Batch(
        jr.randint(jr.key(0), (7, 12, 4, 4, 3), 0, 256).astype(jnp.uint8),
        jnp.array([1, 12, 5, 9, 2, 12, 3]),
        jr.normal(jr.key(3), (7, 3)),
    )
    coins = flip_coins(jr.key(5), 11, 7)
    models = Mixer(jnp.stack([MODEL.weights, 0.3 * MODEL.weights]))

    def lanes(model):
        return graded(model, coins, batch, skips=Skips(1, 3), chunk=2, lanes=3)

    together = eqx.filter_vmap(lanes)(models)
    for number in range(2):
        own, ours = jax.tree.map(lambda leaf, n=number: leaf[n], (models, together))
        alone = graded(own, coins, batch, skips=Skips(1, 3))
        check_same(ours, alone, chunk=None)
        assert int(jnp.sum(alone[1].num_predictions)) <= int(ours[1].num_calls)
        assert int(ours[1].num_calls) < int(alone[1].num_calls)


def test_known_matches_are_followed_in_lanes():
    _, rollout, _ = graded(MODEL, skips=Skips(1, 3))
    known = {"skips": Skips(1, 3), "targets": rollout.matched, "truth": 0.0}
    check_same(graded(MODEL, **known, lanes=2), graded(MODEL, **known), chunk=None)


@pytest.mark.parametrize("truth", [0.0, 0.4, 1.0])
def test_fixed_steps_may_be_cut_where_the_truth_is_fed(truth):
    whole = graded(MODEL, skips=Skips(2, 2), truth=truth)
    pieces = graded(MODEL, skips=Skips(2, 2), truth=truth, lanes=5)
    check_same(pieces, whole, chunk=None)
    # 5, 2 and 4 predictions, of which one or all depend on no other.
    rows = int(pieces[1].num_calls) // 5
    assert rows == {0.0: 5, 1.0: -(-11 // 5)}.get(truth, rows)
    assert rows <= 5


def test_known_matches_may_be_cut_with_chunks_and_seeds_side_by_side():
    _, rollout, _ = graded(MODEL, skips=Skips(1, 3))
    known = {"skips": Skips(1, 3), "targets": rollout.matched}
    models = Mixer(jnp.stack([MODEL.weights, 0.3 * MODEL.weights]))
    coins = jax.tree.map(lambda coin: jnp.stack([coin, coin[::-1]]), COINS)
    pieces = eqx.filter_vmap(partial(graded, **known, lanes=4, chunk=2))(models, coins)
    for number in range(2):
        own, ours = jax.tree.map(lambda leaf, n=number: leaf[n], ((models, coins), pieces))
        check_same(ours, graded(*own, **known), chunk=None)


def test_what_must_be_chosen_is_not_cut():
    many, few = (graded(MODEL, skips=Skips(1, 3), lanes=lanes) for lanes in (9, 3))
    check_same(many, few, chunk=1)
    assert int(many[1].num_calls) == int(few[1].num_calls)


def test_a_batch_has_lanes():
    with pytest.raises(ValueError, match="`lanes` must be at least 1 trajectory at a time; got 0"):
        skip_loss(MODEL, BATCH, COINS, skips=Skips(1, 3), lanes=0)


@pytest.mark.slow  # much to compile
@pytest.mark.parametrize(("skips", "chunk"), [(Skips(1, 3), 4), (Skips(2, 2), 16)])
def test_chunks_may_have_any_number_of_steps(skips, chunk):
    check_same(graded(MODEL, skips=skips, chunk=chunk), graded(MODEL, skips=skips), chunk)


@pytest.mark.slow  # much to compile
def test_known_matches_are_followed_in_chunks():
    _, rollout, _ = graded(MODEL, skips=Skips(1, 3))
    known = {"skips": Skips(1, 3), "targets": rollout.matched, "truth": 0.0}
    check_same(graded(MODEL, **known, chunk=4), graded(MODEL, **known), 4)


@pytest.mark.slow  # much to compile
def test_padding_may_be_anything_even_nan():
    frames = jnp.where(jnp.arange(12)[None, :, None] < 7, jr.normal(jr.key(2), (1, 12, 3)), jnp.nan)
    model = eqx.nn.Linear(3, 3, key=jr.key(0))

    def loss(model):
        coins = flip_coins(jr.key(0), 11, 1)
        return skip_loss(
            *(model, Batch(frames, jnp.array([7])), coins),
            **{"skips": Skips(1, 3), "frame_loss": SquaredError(), "chunk": 4},
        )[0]

    value, gradient = eqx.filter_jit(eqx.filter_value_and_grad(loss))(model)
    assert np.isfinite(value)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_a_chunk_has_steps():
    with pytest.raises(ValueError, match="`chunk` must be at least 1 step; got 0"):
        skip_loss(MODEL, BATCH, COINS, skips=Skips(1, 3), chunk=0)
