"""The training loss: mean cross-entropy per real target token (Lake 2019, §3, Meta-training)."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from recombine.methods.seq2seq._interface import Episode, Model, Sequences


def token_loss(logits: Float[Array, "items steps symbols"], targets: Sequences) -> Float[Array, ""]:
    """Averages the cross-entropy over all real tokens, EOS included, of all sequences.

    Per token, not per sequence: long answers weigh more.
    """
    is_real = jnp.arange(logits.shape[1])[None] < targets.lengths[:, None]
    wanted = jax.nn.one_hot(targets.tokens, logits.shape[-1], dtype=logits.dtype)
    losses = -jnp.sum(jax.nn.log_softmax(logits) * wanted, axis=-1)
    return jnp.sum(jnp.where(is_real, losses, 0.0)) / jnp.maximum(jnp.sum(is_real), 1)


def episode_loss(
    model: Model, episode: Episode, key: PRNGKeyArray | None, *, support_loss: bool
) -> Float[Array, ""]:
    """Asks an episode's queries and, with `support_loss`, its support items as well.

    Both count in one mean, without weights; the memory contains the support items it is asked.
    """
    asked: Any = episode.queries
    if support_loss:
        asked = jax.tree.map(
            lambda queries, support: jnp.concatenate([queries, support]),
            episode.queries,
            episode.support,
        )
    return token_loss(model.logits(episode.support, asked, key), asked.outputs)
