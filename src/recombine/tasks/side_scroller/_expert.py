"""A scripted expert: a soft choice by what is ahead, the same in every level."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from recombine.tasks.side_scroller._game import HOP, LEAP, RUN, WAIT, Runner
from recombine.tasks.side_scroller._levels import COIN_HEIGHTS, MOST_PIT, Level

URGENCY = (6.0, 3.0, 1.0)  # of what is one, two, three columns ahead
TEMPTATION = 2.5  # of a coin
EAGERNESS = 2.0  # to run
REACH = 2  # columns ahead in which a coin tempts
HOPPED_PIT = 2  # columns that a hop gets over; a wider pit needs a leap


def expert_policy(level: Level, runner: Runner) -> Float[Array, "4"]:
    """Returns the expert's distribution over `ACTIONS`, softer the further away things are.

    He hops over narrow pits and low steps and leaps over others; low coins make him hop and high
    ones leap. In the air he runs on, and waits where running would take him into a pit.

    Example:
        >>> import jax.random as jr
        >>> from recombine.tasks.side_scroller import sample_level, start_runner
        >>> level = sample_level(jr.key(0))
        >>> policy = expert_policy(level, start_runner(level, 0.5))
        >>> round(float(policy.sum()), 4)
        1.0
    """
    on_ground = _on_ground(level, runner)
    return jax.nn.softmax(jnp.where(runner.stands(level), on_ground, _in_the_air(level, runner)))


def _on_ground(level: Level, runner: Runner) -> Float[Array, "4"]:
    seen = len(URGENCY)
    surface = jax.lax.dynamic_slice_in_dim(level.surface, runner.column + 1, seen + MOST_PIT)
    coins = jax.lax.dynamic_slice_in_dim(level.coins, runner.column + 1, REACH)
    is_pit = surface == 0
    before = jnp.concatenate([jnp.zeros(1, bool), is_pit[:-1]])
    wide = jnp.stack([jnp.all(is_pit[k : k + HOPPED_PIT + 1]) for k in range(seen)])
    opens = (is_pit & ~before)[:seen]
    rise = surface[:seen] - runner.height
    needs_hop = (opens & ~wide) | (rise == 1)
    needs_leap = (opens & wide) | (rise >= 2)
    # Only the first thing in the way counts: the next one is for after the jump.
    is_first = jnp.cumsum(needs_hop | needs_leap) == 1
    urgency = jnp.array(URGENCY) * is_first
    low, high = (jnp.any(coins == runner.height + above) for above in COIN_HEIGHTS)
    hop = jnp.max(urgency * needs_hop) + TEMPTATION * low
    leap = jnp.max(urgency * needs_leap) + TEMPTATION * high
    logits = jnp.zeros(4).at[RUN].set(EAGERNESS)
    return logits.at[HOP].add(hop).at[LEAP].add(leap)


def _in_the_air(level: Level, runner: Runner) -> Float[Array, "4"]:
    above_ground = level.ground[runner.column] > 0
    would_fall = above_ground & (level.ground[runner.column + 1] == 0) & (runner.speed < 0)
    logits = jnp.array([0.0, 3.0, -1.0, -1.0])
    return logits.at[WAIT].add(URGENCY[0] * would_fall)
