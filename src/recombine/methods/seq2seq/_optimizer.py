"""The optimizer: Adam with clipping per part and one restart at a lower rate (Lake 2019, §4.1).

The paper clips gradients at norm 50 and lowers the learning rate halfway. Its released code does
both with one optimizer for the encoder side and one for the decoder, so that norms are taken per
part; and it creates new optimizers halfway, so that Adam's averages restart. We do the same.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree


@dataclass(frozen=True)
class OptimizerConfig:
    """The numbers of the optimizer; the defaults are those of Lake (2019), §4.1."""

    learning_rate: float = 1e-3
    drop_at: int | None = 5_000
    """The step from which the learning rate is lower and Adam starts afresh; `None`: never."""
    drop_factor: float = 0.1
    clip_norm: float | None = 50.0

    def __post_init__(self) -> None:
        if self.learning_rate <= 0:
            raise ValueError(f"`learning_rate` must be positive; got {self.learning_rate}")
        if self.clip_norm is not None and self.clip_norm <= 0:
            raise ValueError(f"`clip_norm` must be positive or None; got {self.clip_norm}")


def init_optimizer(model: PyTree) -> Any:
    """Returns Adam's averages before the first step."""
    return _adam().init(model)


def apply_gradients(
    config: OptimizerConfig,
    model: Any,
    state: Any,
    grads: Any,
    step: Int[Array, ""],
) -> tuple[Any, Any, dict[str, Float[Array, ""]]]:
    """Takes the step number `step` (from 0) and reports the norms of both parts.

    `model` has the parts `encoder` and `decoder`.
    """
    encoder, encoder_norm = clip_by_norm(grads.encoder, config.clip_norm)
    decoder, decoder_norm = clip_by_norm(grads.decoder, config.clip_norm)
    grads = eqx.tree_at(lambda g: (g.encoder, g.decoder), grads, (encoder, decoder))
    rate = jnp.asarray(config.learning_rate)
    if config.drop_at is not None:
        rate = jnp.where(step >= config.drop_at, rate * config.drop_factor, rate)
        keeps = step != config.drop_at
        state = jax.tree.map(lambda x: jnp.where(keeps, x, jnp.zeros_like(x)), state)
    updates, state = _adam().update(grads, state)
    model = jax.tree.map(lambda parameter, update: parameter - rate * update, model, updates)
    limit = jnp.inf if config.clip_norm is None else config.clip_norm
    metrics = {
        "encoder_norm": encoder_norm,
        "decoder_norm": decoder_norm,
        "clipped": ((encoder_norm > limit) | (decoder_norm > limit)).astype(rate.dtype),
    }
    return model, state, metrics


def clip_by_norm(grads: PyTree, limit: float | None) -> tuple[PyTree, Float[Array, ""]]:
    """Scales gradients down to a Euclidean norm of at most `limit`; also returns their norm."""
    norm = jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in jax.tree.leaves(grads)))
    if limit is None:
        return grads, norm
    scale = jnp.minimum(1.0, limit / jnp.maximum(norm, 1e-12))
    return jax.tree.map(lambda g: g * scale, grads), norm


def _adam() -> optax.GradientTransformation:
    return optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)
