"""Where examples with known answers meet the measures of consistency and the gradient rules.

A learner here trains nothing that is of use: its step is one start of a descent or of an ascent, or
one update of a toy, and what it measures is compared with what the theory says.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recombine.experiments.agreement._theory_config import (
    LandscapeConfig,
    LinearToyConfig,
    PatchworkConfig,
)
from recombine.methods.agreement import (
    and_mask,
    arithmetic_mean,
    environment_gradients,
    geometric_mean,
)
from recombine.methods.consistency import inconsistency
from recombine.tasks import linear_toy, patchwork, two_minima

NEAR = 1e-4  # a descent that ends this close to a minimum has reached it
SHOWN_STARTS = 5  # along each side of the grid of descents that is drawn
SHOWN_POINTS = 40  # of each of them
RESOLUTION = 61  # of a drawn landscape


class Starts(NamedTuple):
    """What has been counted: of all starts, how many ended where."""

    minima: Float[Array, " 2"]  # the scores of the shared and of the patchwork minimum
    starts: Float[Array, ""]
    by_mean: Float[Array, ""]
    by_a: Float[Array, ""]
    by_b: Float[Array, ""]
    by_mask: Float[Array, ""]
    scores: Float[Array, ""]  # the sum over the ends of plain descents


class LandscapeLearner(eqx.Module):
    """Counts how often descents reach the minimum that only the mean of two landscapes has."""

    descent_steps: int = eqx.field(static=True)
    walk_steps: int = eqx.field(static=True)
    epsilon: Float[Array, ""] = eqx.field(converter=jnp.float32)
    learning_rate: Float[Array, ""] = eqx.field(converter=jnp.float32)

    def init(self, key: PRNGKeyArray) -> Starts:
        """Scores both minima."""
        minima = jnp.array([two_minima.SHARED, two_minima.PATCHWORK])
        scores = jax.lax.map(lambda point: self._score(point, key, restarts=4), minima)
        nothing = jnp.float32(0.0)
        return Starts(scores, nothing, nothing, nothing, nothing, nothing, nothing)

    def step(self, state: Starts, key: PRNGKeyArray) -> tuple[Starts, dict[str, Array]]:
        """Draws a start, goes down from it in four ways, and scores where plain descent ends."""
        start_key, score_key = jr.split(key)
        start = jr.uniform(start_key, (2,), minval=-two_minima.REACH, maxval=two_minima.REACH)
        ends = [self._descend(start, direction) for direction in self._directions()]
        reached = [
            (jnp.linalg.norm(end - jnp.array(two_minima.PATCHWORK)) < NEAR).astype(jnp.float32)
            for end in ends
        ]
        score = self._score(ends[0], score_key, restarts=1)
        by_mean, by_a, by_b, by_mask = reached
        added = Starts(jnp.zeros(2), jnp.float32(1.0), by_mean, by_a, by_b, by_mask, score)
        return jax.tree.map(jnp.add, state, added), {"score": score}

    def evaluate(self, state: Starts, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns the scores of both minima, and how often descents reached the patchwork."""
        starts = jnp.maximum(state.starts, 1.0)
        return {
            "reached_by_mean": state.by_mean / starts,
            "reached_by_a": state.by_a / starts,
            "reached_by_b": state.by_b / starts,
            "reached_by_mask": state.by_mask / starts,
            "learning_consistency": -state.scores / starts,
            "shared_score": state.minima[0],
            "patchwork_score": state.minima[1],
        }

    def inspect(self, state: Starts, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns both landscapes, plain descents from a grid of starts, and the scores."""
        line = jnp.linspace(-two_minima.REACH, two_minima.REACH, RESOLUTION)
        grid = jnp.stack(jnp.meshgrid(line, line), axis=-1).reshape(-1, 2)
        landscapes = [
            jax.vmap(two_minima.loss, in_axes=(0, None))(grid, env)
            for env in range(two_minima.NUM_ENVS)
        ]
        side = jnp.linspace(-0.85, 0.85, SHOWN_STARTS) * two_minima.REACH
        starts = jnp.stack(jnp.meshgrid(side, side), axis=-1).reshape(-1, 2)
        mean, in_a, in_b, _ = self._directions()
        paths = [jax.vmap(lambda s, d=d: self._path(s, d))(starts) for d in (in_a, in_b, mean)]
        return {
            "landscapes": jnp.stack(landscapes).reshape(-1, RESOLUTION, RESOLUTION),
            "paths": jnp.stack(paths),
            "minima": jnp.array([two_minima.SHARED, two_minima.PATCHWORK]),
            "scores": state.minima,
            "epsilon": self.epsilon,
        }

    def _directions(self) -> list[Callable[[Float[Array, "2 2"]], Float[Array, " 2"]]]:
        """What is followed, given both gradients: their mean, A's, B's, the masked mean."""
        mask = and_mask(1.0)
        return [
            lambda grads: jnp.mean(grads, axis=0),
            lambda grads: grads[0],
            lambda grads: grads[1],
            lambda grads: jnp.asarray(mask.update(grads, mask.init(grads[0]))[0]),
        ]

    def _moved(self, point: Float[Array, " 2"], direction: Any) -> Float[Array, " 2"]:
        grads = jax.vmap(jax.grad(two_minima.loss), in_axes=(None, 0))(point, jnp.arange(2))
        return point - self.learning_rate * direction(grads)

    def _descend(self, start: Float[Array, " 2"], direction: Any) -> Float[Array, " 2"]:
        return jax.lax.fori_loop(
            0, self.descent_steps, lambda _, point: self._moved(point, direction), start
        )

    def _path(self, start: Float[Array, " 2"], direction: Any) -> Float[Array, "points 2"]:
        """Returns points along a descent, dense where it starts and sparse where it ends."""

        def step(point: Array, _: None) -> tuple[Array, Array]:
            return self._moved(point, direction), point

        points = jax.lax.scan(step, start, None, length=self.descent_steps)[1]
        shown = jnp.linspace(0, 1, SHOWN_POINTS) ** 2 * (self.descent_steps - 1)
        return points[shown.astype(jnp.int32)]

    def _score(self, point: Array, key: PRNGKeyArray, restarts: int) -> Float[Array, ""]:
        return inconsistency(
            two_minima.loss,
            point,
            self.epsilon,
            key=key,
            batches=jnp.arange(two_minima.NUM_ENVS),
            steps=self.walk_steps,
            restarts=restarts,
        ).score


class Found(NamedTuple):
    """The strongest variation found so far."""

    score: Float[Array, ""]
    params: Float[Array, " 6"]


class PatchworkLearner(eqx.Module):
    """Measures how much the patchwork network can be varied, one start after the other."""

    environments: patchwork.Environments
    walk_steps: int = eqx.field(static=True)
    offset: Float[Array, ""] = eqx.field(converter=jnp.float32)
    epsilon: Float[Array, ""] = eqx.field(converter=jnp.float32)
    radius: Float[Array, ""] = eqx.field(converter=jnp.float32)

    def init(self, key: PRNGKeyArray) -> Found:
        """Starts at the solution."""
        return Found(jnp.float32(0.0), patchwork.solution(self.offset))

    def step(self, state: Found, key: PRNGKeyArray) -> tuple[Found, dict[str, Array]]:
        """Makes one more walk for every pair of environments."""
        found = inconsistency(
            patchwork.loss,
            patchwork.solution(self.offset),
            self.epsilon,
            key=key,
            batches=self.environments,
            steps=self.walk_steps,
            restarts=1,
            radius=self.radius,
        )
        is_better = found.score > state.score
        new = Found(
            jnp.where(is_better, found.score, state.score),
            jnp.where(is_better, found.params, state.params),
        )
        return new, {"score": found.score}

    def evaluate(self, state: Found, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns the losses at the solution and at the printed variation, and the score."""
        solution, variation = self._points()
        loss_a, loss_b = self._losses(solution)
        loss_a_varied, loss_b_varied = self._losses(variation)
        return {
            "loss_a": loss_a,
            "loss_b": loss_b,
            "loss_a_varied": loss_a_varied,
            "loss_b_varied": loss_b_varied,
            "printed_variation": jnp.abs(loss_b_varied - loss_a),
            "score": state.score,
        }

    def inspect(self, state: Found, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns the function, the network with its variation, and losses over its last weight."""
        solution, variation = self._points()
        inputs = jnp.linspace(0.0, 1.0, 241)
        weights = jnp.linspace(-1.0, 3.0, 81)
        varied = jax.vmap(lambda weight: self._losses(solution.at[5].set(weight)))(weights)
        return {
            "inputs": inputs,
            "target": patchwork.target(inputs),
            "outputs": jnp.stack([patchwork.network(p, inputs) for p in (solution, variation)]),
            "losses": jnp.stack([self._losses(solution), self._losses(variation)]),
            "last_weights": weights,
            "losses_over_last_weight": varied,
            "score": state.score,
            "epsilon": self.epsilon,
            "radius": self.radius,
        }

    def _points(self) -> tuple[Float[Array, " 6"], Float[Array, " 6"]]:
        return patchwork.solution(self.offset), patchwork.variation(self.offset)

    def _losses(self, params: Float[Array, " 6"]) -> Float[Array, " 2"]:
        return jax.vmap(patchwork.loss, in_axes=(None, 0))(params, self.environments)


class Weights(NamedTuple):
    """The weights learned from all environments, and those learned from some."""

    of_all: Float[Array, " features"]
    of_some: Float[Array, " features"]
    step: Int[Array, ""]


class LinearToyLearner(eqx.Module):
    """Gradient descent on the linear toy with one of the gradient rules."""

    examples: linear_toy.Examples
    rule: optax.GradientTransformation = eqx.field(static=True)
    num_seen: int = eqx.field(static=True)
    learning_rate: Float[Array, ""] = eqx.field(converter=jnp.float32)
    rate_decay: Float[Array, ""] = eqx.field(converter=jnp.float32)
    weight_decay: Float[Array, ""] = eqx.field(converter=jnp.float32)

    def init(self, key: PRNGKeyArray) -> Weights:
        """Starts at zero, whatever the seed."""
        zeros = jnp.zeros(self.examples.inputs.shape[1])
        return Weights(zeros, zeros, jnp.int32(0))

    def step(self, state: Weights, key: PRNGKeyArray) -> tuple[Weights, dict[str, Array]]:
        """Makes one update with all environments, and one with those that are seen."""
        rate = self.learning_rate * self.rate_decay ** (state.step + 1)
        some = jax.tree.map(lambda array: array[: self.num_seen], self.examples)
        of_all, loss = self._updated(state.of_all, self.examples, rate)
        of_some, _ = self._updated(state.of_some, some, rate)
        return Weights(of_all, of_some, state.step + 1), {"loss": loss}

    def evaluate(self, state: Weights, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns the weights, and the loss in environments that were not seen."""
        unseen = jax.tree.map(lambda array: array[self.num_seen :], self.examples)
        losses = jax.vmap(linear_toy.loss, in_axes=(None, 0))(state.of_some, unseen)
        return {
            "held_out_loss": jnp.mean(losses),
            "own_weight": jnp.max(state.of_all[:-1]),
            "own_spread": jnp.max(state.of_all[:-1]) - jnp.min(state.of_all[:-1]),
            "shared_weight": state.of_all[-1],
            "seen_weight": jnp.max(state.of_some[: self.num_seen]),
            "unseen_weight": jnp.max(jnp.abs(state.of_some[self.num_seen : -1])),
            "shared_weight_of_seen": state.of_some[-1],
        }

    def inspect(self, state: Weights, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns all weights."""
        return {"weights": jnp.stack([state.of_all, state.of_some])}

    def _updated(
        self, weights: Float[Array, " features"], examples: Any, rate: Float[Array, ""]
    ) -> tuple[Float[Array, " features"], Float[Array, ""]]:
        losses, grads = environment_gradients(linear_toy.loss, weights, examples)
        joined = self.rule.update(grads, self.rule.init(weights), weights)[0]
        moved = weights - rate * joined  # pyright: ignore[reportOperatorIssue]
        return moved * (1 - self.weight_decay * rate), jnp.mean(losses)


def make_landscape_learner(config: LandscapeConfig) -> LandscapeLearner:
    """Returns the learner of the landscape row."""
    return LandscapeLearner(
        descent_steps=config.descent_steps,
        walk_steps=config.walk_steps,
        epsilon=config.epsilon,  # pyright: ignore[reportArgumentType]
        learning_rate=config.learning_rate,  # pyright: ignore[reportArgumentType]
    )


def make_patchwork_learner(config: PatchworkConfig) -> PatchworkLearner:
    """Returns the learner of a patchwork row."""
    return PatchworkLearner(
        environments=patchwork.make_environments(config.num_points),
        walk_steps=config.walk_steps,
        offset=config.offset,  # pyright: ignore[reportArgumentType]
        epsilon=config.epsilon,  # pyright: ignore[reportArgumentType]
        radius=config.radius,  # pyright: ignore[reportArgumentType]
    )


def make_linear_toy_learner(config: LinearToyConfig) -> LinearToyLearner:
    """Returns the learner of a linear row."""
    rules = {
        "arithmetic": arithmetic_mean(),
        "and-mask": and_mask(1.0),
        "geometric": geometric_mean(1.0),
    }
    return LinearToyLearner(
        examples=linear_toy.make_examples(),
        rule=rules[config.rule],
        num_seen=config.num_seen,
        learning_rate=config.learning_rate,  # pyright: ignore[reportArgumentType]
        rate_decay=config.rate_decay,  # pyright: ignore[reportArgumentType]
        weight_decay=config.weight_decay,  # pyright: ignore[reportArgumentType]
    )
