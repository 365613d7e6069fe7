"""States that the expert visits, with what he would do in them."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from recombine.tasks.side_scroller._expert import expert_policy
from recombine.tasks.side_scroller._game import Runner, start_runner, tick
from recombine.tasks.side_scroller._levels import Level, sample_level
from recombine.tasks.side_scroller._render import render

WARM_UP = 24  # ticks before the first state is kept: the start is not on-policy


class ExpertStates(NamedTuple):
    """States as the student sees them, and the expert's distribution over actions."""

    images: UInt8[Array, "*states 16 16 3"]
    policies: Float[Array, "*states 4"]


def play(level: Level, key: PRNGKeyArray, num_states: int) -> ExpertStates:
    """Lets the expert play, and returns what he has seen and what he would have done.

    He draws his actions, so he fails at times; after a pit and after the end of the level he starts
    again somewhere on the ground.
    """
    chances = jr.uniform(key, (WARM_UP + num_states, 2))

    def step(runner: Runner, chance: Float[Array, "2"]) -> tuple[Runner, tuple[Runner, Array]]:
        policy = expert_policy(level, runner)
        action = jnp.sum(jnp.cumsum(policy)[:-1] < chance[0])
        after, is_over = tick(level, runner, action)
        again = start_runner(level, chance[1])
        after = jax.tree.map(lambda one, other: jnp.where(is_over, one, other), again, after)
        return after, (runner, policy)

    _, (runners, policies) = jax.lax.scan(step, start_runner(level, jnp.float32(0.5)), chances)
    runners = jax.tree.map(lambda leaf: leaf[WARM_UP:], runners)
    return ExpertStates(jax.vmap(partial(render, level))(runners), policies[WARM_UP:])


@partial(jax.jit, static_argnames=("num_levels", "num_states"))
def sample_training_states(
    key: PRNGKeyArray, *, num_levels: int = 64, num_states: int = 1000
) -> ExpertStates:
    """Draws levels and plays each for a while (Neitz, thesis, App. B.2.6: 64 levels, 1,000 states).

    Level `e` is drawn from `fold_in(key, e)`: it stays the same when others are added.

    Example:
        >>> import jax.random as jr
        >>> states = sample_training_states(jr.key(0), num_levels=2, num_states=5)
        >>> states.images.shape, states.policies.shape
        ((2, 5, 16, 16, 3), (2, 5, 4))
    """
    _check(num_levels=num_levels, num_states=num_states)
    return jax.vmap(lambda level: _sample_and_play(jr.fold_in(key, level), num_states))(
        jnp.arange(num_levels)
    )


@partial(jax.jit, static_argnames=("num_states",))
def sample_test_states(key: PRNGKeyArray, *, num_states: int = 2000) -> ExpertStates:
    """Draws states of which each is from a level of its own (Neitz, thesis, App. B.2.6: 2,000).

    The levels are unseen if the key is not that of the training states.
    """
    _check(num_states=num_states)
    states = jax.vmap(lambda level: _sample_and_play(jr.fold_in(key, level), 1))(
        jnp.arange(num_states)
    )
    return ExpertStates(states.images[:, 0], states.policies[:, 0])


def _sample_and_play(key: PRNGKeyArray, num_states: int) -> ExpertStates:
    level_key, play_key = jr.split(key)
    return play(sample_level(level_key), play_key, num_states)


def _check(**sizes: int) -> None:
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"`{name}` must be at least 1; got {size}")
