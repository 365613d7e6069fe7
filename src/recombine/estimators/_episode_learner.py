"""A learner of meta seq2seq on buckets of episodes in memory (Lake 2019, §3 and §4.1).

One gradient step per episode, as in the paper. What differs: episodes are drawn from a fixed
collection rather than generated, and come in several shapes.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recombine.estimators._buckets import EpisodeArrays
from recombine.estimators._symbols import Pairs, Sequences
from recombine.methods.seq2seq import (
    MetaSeq2SeqConfig,
    OptimizerConfig,
    accuracy,
    apply_gradients,
    episode_loss,
    init_optimizer,
)

Metrics = dict[str, Float[Array, ""]]


class EpisodeTraining(NamedTuple):
    """All that changes during training."""

    model: Any
    optimizer: Any
    step: Int[Array, ""]


class EpisodeLearner(eqx.Module):
    """Trains on one episode per step, each equally likely, whichever bucket it is in.

    `measured` holds, by the name of the metric, stacked episodes to be answered at every
    evaluation. In every step the input words of each group of `permuted` trade places at random.
    """

    buckets: tuple[EpisodeArrays, ...]
    measured: dict[str, EpisodeArrays]
    architecture: MetaSeq2SeqConfig = eqx.field(static=True)
    optimizer: OptimizerConfig = eqx.field(static=True)
    permuted: tuple[tuple[int, ...], ...] = eqx.field(static=True, default=())

    def init(self, key: PRNGKeyArray) -> EpisodeTraining:
        """Draws the network."""
        model = self.architecture.make(key=key)
        return EpisodeTraining(model, init_optimizer(model), jnp.array(0))

    def step(self, state: EpisodeTraining, key: PRNGKeyArray) -> tuple[EpisodeTraining, Metrics]:
        """Draws an episode and takes one gradient step."""
        episode_key, permutation_key, dropout_key = jr.split(key, 3)
        sizes = [bucket.support.inputs.lengths.shape[0] for bucket in self.buckets]
        ends = np.cumsum(sizes)
        number = jr.randint(episode_key, (), 0, int(ends[-1]))
        words = permute_words(self.architecture.num_inputs, self.permuted, permutation_key)

        def learn_from(bucket: EpisodeArrays, start: int) -> Any:
            def gradients(model: Any, number: Int[Array, ""]) -> Any:
                episode = jax.tree.map(lambda array: array[number - start], bucket)
                if self.permuted:
                    episode = rename_inputs(episode, words)
                # Where support items are asked, they stand among the queries already.
                return jax.value_and_grad(episode_loss)(
                    model, episode, dropout_key, support_loss=False
                )

            return gradients

        branches = [
            learn_from(bucket, int(end) - size)
            for bucket, end, size in zip(self.buckets, ends, sizes, strict=True)
        ]
        which = jnp.sum(number >= jnp.asarray(ends)).astype(jnp.int32)
        loss, grads = jax.lax.switch(which, branches, state.model, number)
        model, optimizer, _ = apply_gradients(
            self.optimizer, state.model, state.optimizer, grads, state.step
        )
        return EpisodeTraining(model, optimizer, state.step + 1), {"loss": loss}

    def evaluate(self, state: EpisodeTraining, key: PRNGKeyArray) -> Metrics:
        """Returns the share of queries that are answered exactly."""
        del key
        return {name: accuracy(state.model, some) for name, some in self.measured.items()}


def permute_words(
    num_words: int, groups: tuple[tuple[int, ...], ...], key: PRNGKeyArray
) -> Int[Array, " words"]:
    """Returns the new number of every word: those of a group trade places, the others stay."""
    table = jnp.arange(num_words)
    for number, group in enumerate(groups):
        places = jnp.asarray(group)
        table = table.at[places].set(jr.permutation(jr.fold_in(key, number), places))
    return table


def rename_inputs(episode: EpisodeArrays, words: Int[Array, " words"]) -> EpisodeArrays:
    """Replaces every input word by another, in support and queries alike."""

    def renamed(pairs: Pairs) -> Pairs:
        inputs = Sequences(words[pairs.inputs.tokens], pairs.inputs.lengths)
        return Pairs(inputs, pairs.outputs)

    return EpisodeArrays(renamed(episode.support), renamed(episode.queries))
