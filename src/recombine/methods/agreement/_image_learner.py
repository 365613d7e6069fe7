"""Training on images with one environment per example (Neitz, thesis, §3.3.2 and App. B.2.5).

A step takes a batch of 80 images, each its own environment; an epoch visits every training image
once, in a fresh order, and drops the last partial batch. The images stay on the device as bytes.
The regulariser is added after the mask and before Adam: the mask sees the data alone.

Batch normalisation couples the examples: a loss depends on the other images of its batch. How the
gradient is shared out among the examples is the `mode`.

- "exact": an example has the gradient of its own loss, with all paths, also those through other
  images. It takes a backward pass over the batch for every example, as in the authors' code.
- "split": the ordinary gradient of the batch, shared out by where it arrives: at each layer an
  example has what comes through its own activations. One backward pass in all. The parts add up to
  the gradient of the batch, as in "exact"; they differ in whom the paths between images count for.
- "group": a network with group normalisation, where examples do not meet and all is one. One
  backward pass in all.
- "frozen": the batch's statistics are constants of the backward pass. One backward pass in all, but
  the parts do not add up to the gradient of the batch: they hold much that the normalisation will
  undo, and train badly even if nothing is masked.

Without a mask there is one gradient, of the batch's mean loss, with all its paths, whatever the
mode: that is ordinary training.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8

from recombine.methods.agreement._aggregators import AndMask
from recombine.methods.agreement._per_example import coupled_statistics, per_example_statistics
from recombine.methods.agreement._resnet import (
    WIDTHS,
    FastResNet,
    ResNetShape,
    Statistics,
    update_statistics,
)

PerExampleMode = Literal["exact", "split", "frozen", "group"]
"""How the gradients of single examples are taken."""

Relabel = Callable[
    [PRNGKeyArray, Int[Array, " examples"]],
    tuple[Int[Array, " examples"], Bool[Array, " examples"]],
]
"""Draws a seed's training labels: from key and true labels to labels, and which were changed."""

EVALUATED_AT_ONCE = 500
LOG_SLOTS = 60
"""Into how many parts a run's time is cut where the kept share of every layer is logged."""


class ImageData(NamedTuple):
    """Images as bytes, channels last, with their true labels."""

    train_images: UInt8[Array, "examples rows columns 3"]
    train_labels: Int[Array, " examples"]
    test_images: UInt8[Array, "tests rows columns 3"]
    test_labels: Int[Array, " tests"]


class KeptLog(NamedTuple):
    """How much of every layer passed the mask, summed within each part of the run's time."""

    total: Float[Array, "slots layers"]
    steps: Int[Array, " slots"]


class ImageTraining(NamedTuple):
    """The state of one seed."""

    model: FastResNet
    running: Statistics
    optimizer: Any
    labels: Int[Array, " examples"]
    changed: Bool[Array, " examples"]  # where the label is not the true one
    order: Int[Array, " examples"]  # of this epoch
    step: Int[Array, ""]
    kept: KeptLog | None


class ImageAgreementLearner(eqx.Module):
    """A `FastResNet` trained with Adam, with or without the AND-mask over single examples.

    Numbers that only scale are array leaves, so that one compiled program serves all thresholds.
    """

    data: ImageData
    seen: Int[Array, " some"]  # the training images that are measured on between; all at the end
    mask: AndMask | None  # `None` is ordinary training
    learning_rate: Float[Array, ""] = eqx.field(converter=jnp.float32)
    l2: Float[Array, ""] = eqx.field(converter=jnp.float32)
    decay_steps: Int[Array, " decays"]  # where the learning rate falls tenfold
    num_steps: Int[Array, ""] = eqx.field(converter=jnp.int32)  # of the run, for the log
    network: ResNetShape = eqx.field(static=True)
    mode: PerExampleMode = eqx.field(static=True)
    batch_size: int = eqx.field(static=True)
    relabel: Relabel | None = eqx.field(static=True)
    mean: tuple[float, float, float] = eqx.field(static=True)  # subtracted from pixels in [0, 1]
    std: tuple[float, float, float] = eqx.field(static=True)
    at_once: int = eqx.field(static=True, default=1)  # backward passes in mode "exact"
    precision: str | None = eqx.field(static=True, default=None)  # of products; None: the device's

    def __check_init__(self):
        if self.mode not in get_args(PerExampleMode):
            raise ValueError(f"`mode` must be one of {get_args(PerExampleMode)}; got {self.mode!r}")
        if (self.mode == "group") != (self.network.norm == "group"):
            raise ValueError(
                f'`mode` "group" goes with a network of norm "group", and the others with "batch"; '
                f"got {self.mode!r} and {self.network.norm!r}"
            )
        if not 1 <= self.batch_size <= len(self.data.train_labels):
            raise ValueError(
                f"`batch_size` must be between 1 and the {len(self.data.train_labels)} training "
                f"images; got {self.batch_size}"
            )

    def init(self, key: PRNGKeyArray) -> ImageTraining:
        """Draws the network and, where labels are to be corrupted, the labels."""
        label_key, model_key = jr.split(key)
        model = self.network(model_key)
        true = self.data.train_labels
        labels, changed = true, jnp.zeros(true.shape, bool)
        if self.relabel is not None:
            labels, changed = self.relabel(label_key, true)
        layers = len(model.blocks) + 1
        log = KeptLog(jnp.zeros((LOG_SLOTS, layers)), jnp.zeros(LOG_SLOTS, jnp.int32))
        return ImageTraining(
            model=model,
            running=self.network.initial_statistics(),
            optimizer=self._optimizer().init(model),
            labels=labels,
            changed=changed,
            order=jnp.zeros(true.shape, jnp.int32),
            step=jnp.int32(0),
            kept=None if self.mask is None else log,
        )

    def step(
        self, state: ImageTraining, key: PRNGKeyArray
    ) -> tuple[ImageTraining, dict[str, Float[Array, ""]]]:
        """Takes one batch and makes one update."""
        order, chosen = self._next_batch(state, key)
        images = self._normalized(self.data.train_images[chosen])
        with jax.default_matmul_precision(self.precision):
            losses, batch, grads = self._gradients(state.model, images, state.labels[chosen])
        updates, optimizer = self._optimizer().update(grads, state.optimizer, state.model)
        metrics, kept = {"loss": jnp.mean(losses)}, state.kept
        if kept is not None:
            shares = _kept_by_layer(optimizer[0].kept, state.model)
            metrics |= {f"kept/{name}": share for name, share in shares.items()}
            kept = self._log(kept, state.step, jnp.stack(list(shares.values())))
        new = state._replace(
            model=eqx.apply_updates(state.model, updates),
            running=update_statistics(state.running, batch),
            optimizer=optimizer,
            order=order,
            step=state.step + 1,
            kept=kept,
        )
        return new, metrics

    def evaluate(self, state: ImageTraining, key: PRNGKeyArray) -> dict[str, Float[Array, ""]]:
        """Measures on the test set and on some of the training images.

        Training images count as right by the label they are trained with. `wrong_label_accuracy`
        looks only at those whose label was changed: what is learned by heart, not from the rest.
        """
        return self._measure(state, self.seen)

    def final(self, state: ImageTraining, key: PRNGKeyArray) -> dict[str, Float[Array, ""]]:
        """Measures on all training images."""
        return self._measure(state, jnp.arange(len(state.labels)))

    def inspect(self, state: ImageTraining, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns the share of every layer that passed the mask, in the course of the run."""
        if state.kept is None:
            return {}
        return {"kept_by_layer": state.kept.total / jnp.maximum(state.kept.steps, 1)[:, None]}

    def _gradients(
        self, model: FastResNet, images: Array, labels: Int[Array, " examples"]
    ) -> tuple[Float[Array, " examples"], Statistics, Any]:
        def losses(model: FastResNet, *, frozen: bool) -> tuple[Array, Statistics]:
            logits, batch = model(images, frozen=frozen)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels), batch

        if self.mask is None:

            def mean_loss(model: FastResNet) -> Any:
                values, batch = losses(model, frozen=False)
                return jnp.mean(values), (values, batch)

            grads, (values, batch) = jax.grad(mean_loss, has_aux=True)(model)
            return values, batch, grads
        if self.mode == "exact":
            return coupled_statistics(
                lambda model: losses(model, frozen=False), model, at_once=self.at_once
            )
        frozen = self.mode != "split"
        return per_example_statistics(lambda model: losses(model, frozen=frozen), model)

    def _optimizer(self) -> Any:
        def schedule(step: Any) -> Float[Array, ""]:
            return self.learning_rate * 0.1 ** jnp.sum(step >= self.decay_steps)

        rules: list[Any] = [] if self.mask is None else [self.mask]
        return optax.chain(*rules, optax.add_decayed_weights(self.l2), optax.adam(schedule))

    def _normalized(self, images: UInt8[Array, "..."]) -> Float[Array, "..."]:
        scale = 1 / (255 * jnp.asarray(self.std))
        shift = jnp.asarray(self.mean) / jnp.asarray(self.std)
        axes = (1,) * (images.ndim - 1)
        return images * scale.reshape(*axes, 3) - shift.reshape(*axes, 3)

    def _next_batch(
        self, state: ImageTraining, key: PRNGKeyArray
    ) -> tuple[Int[Array, " examples"], Int[Array, " batch"]]:
        examples = len(state.labels)
        position = state.step % (examples // self.batch_size)

        def shuffle(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            return jr.permutation(key, examples).astype(jnp.int32), jnp.bool(False)

        # A loop of one turn or none. Vectorised over seeds, `cond` would shuffle in every step.
        order, _ = jax.lax.while_loop(lambda carry: carry[1], shuffle, (state.order, position == 0))
        return order, jax.lax.dynamic_slice_in_dim(
            order, position * self.batch_size, self.batch_size
        )

    def _log(self, log: KeptLog, step: Int[Array, ""], shares: Float[Array, " layers"]) -> KeptLog:
        slot = jnp.minimum(
            step.astype(jnp.float32) / self.num_steps * LOG_SLOTS, LOG_SLOTS - 1
        ).astype(jnp.int32)
        return KeptLog(log.total.at[slot].add(shares), log.steps.at[slot].add(1))

    def _measure(
        self, state: ImageTraining, seen: Int[Array, " some"]
    ) -> dict[str, Float[Array, ""]]:
        every = jnp.arange(len(self.data.test_labels))
        test = self._is_right(state, self.data.test_images, self.data.test_labels, every)
        train = self._is_right(state, self.data.train_images, state.labels, seen)
        metrics = {"test_accuracy": jnp.mean(test), "train_accuracy": jnp.mean(train)}
        metrics["gap"] = metrics["train_accuracy"] - metrics["test_accuracy"]
        if self.relabel is not None:
            changed = state.changed[seen]
            learned = jnp.sum(train & changed) / jnp.maximum(jnp.sum(changed), 1)
            metrics["wrong_label_accuracy"] = learned
        return metrics

    def _is_right(
        self, state: ImageTraining, images: Array, labels: Array, which: Int[Array, " some"]
    ) -> Bool[Array, " some"]:
        statistics = None if self.network.norm == "group" else state.running

        def one(index: Int[Array, ""]) -> Bool[Array, ""]:
            logits, _ = state.model(self._normalized(images[index])[None], statistics)
            return jnp.argmax(logits[0]) == labels[index]

        return jax.lax.map(one, which, batch_size=min(EVALUATED_AT_ONCE, len(which)))


def _kept_by_layer(kept: Any, model: FastResNet) -> dict[str, Float[Array, ""]]:
    """Returns the share of components that passed the mask in every block, and in the head."""

    def share(fractions: Any, weights: Any) -> Float[Array, ""]:
        sizes = jnp.asarray([leaf.size for leaf in jax.tree.leaves(weights)], jnp.float32)
        return jnp.sum(jnp.stack(jax.tree.leaves(fractions)) * sizes) / jnp.sum(sizes)

    blocks = {name: share(kept.blocks[name], model.blocks[name]) for name in WIDTHS}
    return blocks | {"head": kept.head}
