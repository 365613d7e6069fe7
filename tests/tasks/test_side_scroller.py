"""The side-scroller: its rules, its expert, and which of its looks can be learned from."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from recombine.tasks import side_scroller
from recombine.tasks.side_scroller import HOP, LEAP, RUN, WAIT, Level, Looks, Runner

pytestmark = pytest.mark.usefixtures("quick_compilation")

LENGTH, GROUND, AT = 128, 5, 20

policy_of = jax.jit(side_scroller.expert_policy)
tick = jax.jit(side_scroller.tick)
render = jax.jit(side_scroller.render)


def level_with(*, pit=0, crate=0, coin=0, ahead=1) -> Level:
    """A plain level with one thing so many columns ahead of column `AT`."""
    ground, crates, coins, frieze = (np.zeros(LENGTH, np.int32) for _ in range(4))
    ground[:] = GROUND
    ground[AT + ahead : AT + ahead + pit] = 0
    crates[AT + ahead] = crate
    coins[AT + ahead] = GROUND + coin if coin else 0
    frieze[AT + ahead] = 1 if pit in (1, 2) or crate == 1 else 2 if pit or crate else 0
    colors = np.random.default_rng(0).uniform(size=(3, 3)).astype(np.float32)
    patterns = np.random.default_rng(1).uniform(size=(3, 6, 3)).astype(np.float32)
    looks = Looks(np.full((16, 16, 3), 0.7, np.float32), *colors, patterns)
    return jax.tree.map(jnp.asarray, Level(ground, crates, coins, frieze, looks))


def runner_at(column=AT, height=GROUND, speed=0) -> Runner:
    return Runner(*(jnp.int32(number) for number in (column, height, speed)))


def run_with(level, actions):
    """Where the runner has been, and whether the run was over."""
    runner, path, is_over = runner_at(), [], False
    for action in actions:
        runner, over = tick(level, runner, jnp.int32(action))
        path.append((int(runner.column) - AT, int(runner.height) - GROUND))
        is_over = is_over or bool(over)
    return path, is_over


# The rules.


def test_a_hop_gets_over_two_columns_and_a_leap_over_four():
    path, is_over = run_with(level_with(pit=2), [HOP, RUN, RUN])
    assert path == [(1, 1), (2, 1), (3, 0)]
    assert not is_over
    path, is_over = run_with(level_with(pit=4), [LEAP, RUN, RUN, RUN, RUN])
    assert path == [(1, 2), (2, 3), (3, 3), (4, 2), (5, 0)]
    assert not is_over


def test_who_runs_into_a_pit_falls_and_who_waits_stays():
    path, is_over = run_with(level_with(pit=3), [RUN] * 6)
    assert is_over
    assert path[-1][1] == -GROUND
    assert run_with(level_with(pit=3), [WAIT] * 3) == ([(0, 0)] * 3, False)


def test_what_is_higher_than_the_feet_stops_the_runner():
    assert run_with(level_with(crate=1), [RUN, RUN])[0] == [(0, 0), (0, 0)]
    assert run_with(level_with(crate=1), [HOP])[0] == [(1, 1)]
    assert run_with(level_with(crate=2), [HOP])[0] == [(0, 1)]
    assert run_with(level_with(crate=2), [LEAP])[0] == [(1, 2)]


# The expert.


@pytest.mark.parametrize(
    ("what", "action"),
    [
        ({}, RUN),
        ({"pit": 1}, HOP),
        ({"pit": 2}, HOP),
        ({"pit": 3}, LEAP),
        ({"pit": 4}, LEAP),
        ({"crate": 1}, HOP),
        ({"crate": 2}, LEAP),
        ({"coin": 1}, HOP),
        ({"coin": 3}, LEAP),
    ],
    ids=str,
)
def test_the_expert_does_what_is_due(what, action):
    policy = np.asarray(policy_of(level_with(**what), runner_at()))
    assert policy.argmax() == action
    assert policy.sum() == pytest.approx(1.0, abs=1e-5)
    assert (policy > 0).all()


def test_the_expert_is_surer_the_nearer_a_pit_is():
    near, far, further, beyond = (
        float(policy_of(level_with(pit=1, ahead=ahead), runner_at())[HOP]) for ahead in (1, 2, 3, 4)
    )
    assert near > 0.9
    assert near > far > further > beyond


def test_in_the_air_the_expert_waits_rather_than_fall_into_a_pit():
    falling = runner_at(height=GROUND + 1, speed=-1)
    assert np.argmax(policy_of(level_with(pit=1), falling)) == WAIT
    assert np.argmax(policy_of(level_with(), falling)) == RUN


# What is seen.


def test_the_picture_shows_runner_ground_pit_and_frieze():
    level = level_with(pit=2, ahead=3)
    picture = np.asarray(render(level, runner_at()))
    colors = jax.tree.map(lambda leaf: np.round(255 * np.asarray(leaf)), level.looks)
    assert (picture[10, :7] == colors.ground).all()  # below the feet, up to the pit
    assert (picture[10, 7:9] == colors.backdrop[0, 0]).all()
    assert (picture[9, 4] == [255, 26, 153]).all()
    assert (picture[:6, 7] == colors.frieze[1]).all()  # a hop is due there
    assert (picture[:6, 6] == colors.frieze[0]).all()


@pytest.fixture(scope="module")
def drawn():
    train = side_scroller.sample_training_states(jr.key(0), num_levels=6, num_states=40)
    test = side_scroller.sample_test_states(jr.key(1), num_states=30)
    return jax.tree.map(np.asarray, (train, test))


def test_every_state_has_a_distribution_of_the_expert(drawn):
    for states in drawn:
        assert states.policies.shape[-1] == len(side_scroller.ACTIONS)
        np.testing.assert_allclose(states.policies.sum(axis=-1), 1.0, atol=1e-5)
    jumps = drawn[0].policies[..., [HOP, LEAP]].sum(axis=-1)
    assert (jumps.max(axis=1) > 0.5).all()  # there is something in the way in every level
    assert (jumps.min(axis=1) < 0.3).all()


def test_looks_are_constant_within_a_level_and_differ_between_levels(drawn):
    corner = drawn[0].images[:, :, 6, 0]  # the backdrop, but for a cell of something else at times
    typical = np.median(corner, axis=1)
    assert ((corner == typical[:, None]).all(axis=-1).mean(axis=1) > 0.5).all()
    assert len(np.unique(typical, axis=0)) == len(typical)


def test_test_states_come_from_unseen_levels_one_each(drawn):
    train, test = (states.images[..., 6, 0, :].reshape(-1, 3) for states in drawn)
    assert len(np.unique(test, axis=0)) > 0.9 * len(test)
    assert not set(map(tuple, train)) & set(map(tuple, test))


def test_the_same_key_draws_the_same_and_another_key_something_else(drawn):
    again, other = (
        side_scroller.sample_training_states(jr.key(seed), num_levels=6, num_states=40)
        for seed in (0, 2)
    )
    assert (np.asarray(again.images) == drawn[0].images).all()
    assert (np.asarray(again.policies) == drawn[0].policies).all()
    assert (np.asarray(other.images) != drawn[0].images).any(axis=(1, 2, 3, 4)).all()


@pytest.mark.slow
def test_levels_stay_when_others_are_added(drawn):
    fewer = side_scroller.sample_training_states(jr.key(0), num_levels=2, num_states=40)
    assert (np.asarray(fewer.images) == drawn[0].images[:2]).all()
    np.testing.assert_allclose(fewer.policies, drawn[0].policies[:2], rtol=1e-6)


def test_levels_are_drawn_one_beside_the_other(drawn):
    shown = side_scroller.draw_states(drawn[0].images[:2, :3], pixels=2)
    assert shown.shape == (2 * 36 - 4, 3 * 36 - 4, 3)
    assert (shown[:32:2, :32:2] == drawn[0].images[0, 0]).all()
    assert (side_scroller.draw_states(drawn[0].images[1, :3], pixels=2) == shown[36:]).all()


def test_what_makes_no_sense_is_refused():
    with pytest.raises(ValueError, match="`num_levels` must be at least 1; got 0"):
        side_scroller.sample_training_states(jr.key(0), num_levels=0)
    with pytest.raises(ValueError, match="`num_states` must be at least 1; got 0"):
        side_scroller.sample_test_states(jr.key(0), num_states=0)
    with pytest.raises(ValueError, match=r"`images` must have axes.*got shape \[16, 16, 3\]"):
        side_scroller.draw_states(np.zeros((16, 16, 3)))
    with pytest.raises(ValueError, match="`pixels`"):
        side_scroller.draw_states(np.zeros((1, 16, 16, 3)), pixels=0)
