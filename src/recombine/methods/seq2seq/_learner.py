"""The learner: one gradient step per episode, exact match as the measure (Lake 2019, §4.1)."""

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from recombine.methods.seq2seq._interface import Architecture, Episode, EpisodeSource
from recombine.methods.seq2seq._loss import episode_loss
from recombine.methods.seq2seq._optimizer import OptimizerConfig, apply_gradients, init_optimizer

Metrics = dict[str, Float[Array, ""]]


class State(NamedTuple):
    """All that changes during a run, and what the run holds out."""

    model: Any
    optimizer: Any  # Adam's averages
    held: PyTree
    step: Int[Array, ""]


class Seq2SeqLearner(eqx.Module):
    """Trains a sequence-to-sequence model on episodes from any source.

    `source` makes episodes and holds the arrays; `architecture` builds the model. With
    `support_loss`, support items are asked as well (Lake 2019, §3).
    """

    compiler_options: ClassVar[tuple[tuple[str, Any], ...]] = (
        ("xla_gpu_enable_triton_gemm", False),
    )
    """XLA would time Triton kernels for dozens of small products, which is most of compilation and
    makes steps a little faster: that pays in very long runs only."""

    source: EpisodeSource
    architecture: Architecture = eqx.field(static=True)
    optimizer: OptimizerConfig = eqx.field(static=True, default=OptimizerConfig())
    support_loss: bool = eqx.field(static=True, default=True)
    chunk_size: int = eqx.field(static=True, default=512)
    num_inspected: int = eqx.field(static=True, default=4)

    def init(self, key: PRNGKeyArray) -> State:
        """Draws parameters, and what the run holds out."""
        model_key, held_key = jr.split(key)
        model = self.architecture.make(key=model_key)
        held = self.source.begin(held_key)
        start = init_optimizer(model)
        return State(model, start, held, jnp.array(0))

    def step(self, state: State, key: PRNGKeyArray) -> tuple[State, Metrics]:
        """Draws an episode and takes one gradient step."""
        episode_key, dropout_key = jr.split(key)
        episode = self.source.sample(state.held, episode_key)
        loss, grads = jax.value_and_grad(episode_loss)(
            state.model, episode, dropout_key, support_loss=self.support_loss
        )
        model, optimizer, metrics = apply_gradients(
            self.optimizer, state.model, state.optimizer, grads, state.step
        )
        state = state._replace(model=model, optimizer=optimizer, step=state.step + 1)
        return state, {"loss": loss, **metrics}

    def evaluate(self, state: State, key: PRNGKeyArray) -> Metrics:
        """Measures the validation episodes: new queries and, where there are any, support items."""
        del key
        episodes = self.source.validation(state.held)
        num_queries = episodes.queries.inputs.lengths.shape[1]
        asked = jax.tree.map(_append, episodes.queries, episodes.support)
        everything = type(episodes)(episodes.support, asked)
        correct = exact_matches(state.model, everything, self.chunk_size)
        metrics = {"validation_accuracy": jnp.mean(correct[:, :num_queries])}
        if correct.shape[1] > num_queries:
            metrics["validation_retrieval"] = jnp.mean(correct[:, num_queries:])
        return metrics

    def final(self, state: State, key: PRNGKeyArray) -> Metrics:
        """Measures every test of the source."""
        return {
            f"{name}_accuracy": accuracy(state.model, episodes, self.chunk_size)
            for name, episodes in self.source.tests(state.held, key).items()
        }

    def inspect(self, state: State, key: PRNGKeyArray) -> dict[str, Array]:
        """Answers a few test queries and returns what was shown, asked, said and attended to."""
        test = self.source.tests(state.held, key)["test"]
        support = jax.tree.map(lambda array: array[0], test.support)
        num_queries = test.queries.inputs.lengths.shape[1]
        count = min(self.num_inspected, num_queries)
        rows = (jnp.arange(count) * num_queries) // count
        queries = jax.tree.map(lambda array: array[0, rows], test.queries)
        width = queries.outputs.tokens.shape[1]
        answers = state.model.predict(support, queries.inputs, width)
        return {
            "support_inputs": support.inputs.tokens,
            "support_input_lengths": support.inputs.lengths,
            "support_outputs": support.outputs.tokens,
            "support_output_lengths": support.outputs.lengths,
            "query_inputs": queries.inputs.tokens,
            "query_input_lengths": queries.inputs.lengths,
            "query_outputs": queries.outputs.tokens,
            "query_output_lengths": queries.outputs.lengths,
            "answers": answers,
            **state.model.attention(support, queries.inputs, answers),
        }


def _append(queries: Array, support: Array) -> Array:
    return jnp.concatenate([queries, support], axis=1)


def accuracy(model: Any, episodes: Episode, chunk_size: int = 512) -> Float[Array, ""]:
    """Returns the share of queries answered exactly, over all stacked episodes."""
    correct = exact_matches(model, episodes, chunk_size)
    asked = episodes.queries.outputs.lengths > 0
    return jnp.sum(correct) / jnp.maximum(jnp.sum(asked), 1)


def exact_matches(
    model: Any, episodes: Episode, chunk_size: int = 512
) -> Bool[Array, "episodes queries"]:
    """Says which queries are answered exactly.

    Few queries are decoded at once; many, `chunk_size` at a time, one chunk after the other.
    """
    num_episodes, num_queries = episodes.queries.inputs.lengths.shape
    if num_episodes * num_queries <= chunk_size:
        return jax.vmap(lambda e: model.matches(e.support, e.queries))(episodes)
    chunk_size = min(chunk_size, num_queries)
    num_chunks = -(-num_queries // chunk_size)
    missing = num_chunks * chunk_size - num_queries

    def divide(array: Array) -> Array:
        widths = ((0, missing), *((0, 0),) * (array.ndim - 1))
        return jnp.pad(array, widths).reshape(num_chunks, chunk_size, *array.shape[1:])

    def one_episode(episode: Any) -> Bool[Array, " queries"]:
        ask = model.matches
        support = episode.support
        if hasattr(model, "remember"):  # encode the support once, not once per chunk
            ask, support = model.matches_from, model.remember(support)
        chunks = jax.tree.map(divide, episode.queries)
        return jax.lax.map(lambda chunk: ask(support, chunk), chunks).reshape(-1)[:num_queries]

    return jax.lax.map(one_episode, episodes)
