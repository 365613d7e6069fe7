"""Reading an outcome off predicted frames: the classifier ψ (Neitz, thesis, §2.2).

A reader sees every frame and adds up evidence for each outcome. The published tasks have readers
that were made by hand; where there is none, one is trained beside the model. It learns to tell the
end of a trajectory, by its outcome, from all that comes before; the two trainings do not interfere.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from recombine.methods.skipping._loss import Rollout
from recombine.methods.skipping._matching import Batch, frames_at

SMOOTHING = 1e-4


class OutcomeReader(Protocol):
    """Tells the outcome from a sequence of frames."""

    @property
    def num_classes(self) -> int:
        """How many outcomes there are."""
        ...

    def look(self, first: Float[Array, " *shape"], context: Any, /) -> Any:
        """Returns what must be remembered of the first, true frame."""
        ...

    def evidence(self, memory: Any, frame: Float[Array, " *shape"], /) -> Float[Array, " classes"]:
        """Returns how much one frame speaks for each outcome, at least 0."""
        ...

    def probabilities(self, evidence: Float[Array, " classes"], /) -> Float[Array, " classes"]:
        """Turns the evidence of all frames into probabilities."""
        ...

    def is_present(self, frame: Float[Array, " *shape"], /) -> Bool[Array, ""]:
        """Says whether that which moves can still be seen."""
        ...


class LearnedReader(eqx.Module):
    """A small network that says of each frame which outcome it shows, or that it shows none yet."""

    weights: list[Float[Array, "inputs outputs"]]
    biases: list[Float[Array, " outputs"]]

    def __init__(self, sizes: tuple[int, ...], *, key: PRNGKeyArray):
        keys = jr.split(key, len(sizes) - 1)
        self.weights = [
            jr.normal(k, (i, o)) * (2.0 / i) ** 0.5
            for k, i, o in zip(keys, sizes[:-1], sizes[1:], strict=True)
        ]
        self.biases = [jnp.zeros(size) for size in sizes[1:]]

    @property
    def num_classes(self) -> int:
        """How many outcomes there are; the last unit stands for none yet."""
        return len(self.biases[-1]) - 1

    def logits(self, frame: Float[Array, " *shape"]) -> Float[Array, " units"]:
        """Returns the log-odds of each outcome and, last, of none yet."""
        x = frame.reshape(-1)
        *hidden, last = zip(self.weights, self.biases, strict=True)
        for weight, bias in hidden:
            x = jax.nn.relu(x @ weight + bias)
        return x @ last[0] + last[1]

    def look(self, first: Float[Array, " *shape"], context: Any = None) -> None:
        """Remembers nothing of the first frame."""
        del first, context

    def evidence(self, memory: None, frame: Float[Array, " *shape"]) -> Float[Array, " classes"]:
        """Returns the probability that the frame shows each outcome."""
        del memory
        return jax.nn.softmax(self.logits(frame))[:-1]

    def probabilities(self, evidence: Float[Array, " classes"]) -> Float[Array, " classes"]:
        """Turns the evidence of all frames into probabilities."""
        return (evidence + SMOOTHING) / (jnp.sum(evidence) + len(evidence) * SMOOTHING)

    def is_present(self, frame: Float[Array, " *shape"]) -> Bool[Array, ""]:
        """Says yes to every frame: what moves is not known."""
        return jnp.all(jnp.isfinite(frame))


@dataclass(frozen=True)
class LearnedReaderShape:
    """The sizes of a `LearnedReader`; calling it makes one."""

    frame_size: int
    num_classes: int
    hidden: tuple[int, ...] = (64,)

    def __post_init__(self) -> None:
        if self.num_classes < 2:
            raise ValueError(f"`num_classes` must be at least 2; got {self.num_classes}")

    def __call__(self, key: PRNGKeyArray) -> LearnedReader:
        """Returns a reader at its random start."""
        return LearnedReader((self.frame_size, *self.hidden, self.num_classes + 1), key=key)


def reader_loss(
    reader: LearnedReader,
    batch: Batch,
    labels: Int[Array, " batch"],
    rollout: Rollout,
    key: PRNGKeyArray,
) -> Float[Array, ""]:
    """Returns how badly a reader tells ends from other frames, true and predicted ones alike.

    A prediction that was matched with the last frame is an end. Ends and other frames weigh the
    same, however many there are of each. Predictions are constants here.

    Args:
        reader: what is trained.
        batch: the true trajectories.
        labels: their outcomes.
        rollout: with predictions.
        key: picks one true frame of each trajectory that is not its end.
    """
    assert rollout.predictions is not None
    predictions = jax.lax.stop_gradient(rollout.predictions)
    last = batch.lengths - 1
    earlier = jnp.floor(jr.uniform(key, last.shape) * last).astype(last.dtype)
    none = jnp.full_like(labels, reader.num_classes)
    is_step, is_end = rollout.matched >= 0, rollout.matched == last[None]

    def losses(frames: Array, targets: Int[Array, " batch"]) -> Float[Array, " batch"]:
        logs = jax.nn.log_softmax(jax.vmap(reader.logits)(frames))
        return -jnp.take_along_axis(logs, targets[:, None], axis=1)[:, 0]

    targets = jnp.where(is_end, labels[None], none[None])
    predicted = jax.vmap(losses)(predictions, targets)
    everyone = jnp.arange(len(last))
    true_ends = losses(frames_at(batch, everyone, last), labels)
    true_others = losses(frames_at(batch, everyone, earlier), none)
    ends = jnp.concatenate([true_ends, jnp.where(is_end, predicted, 0.0).reshape(-1)])
    is_other = is_step & ~is_end
    others = jnp.concatenate([true_others, jnp.where(is_other, predicted, 0.0).reshape(-1)])
    num_ends, num_others = len(last) + jnp.sum(is_end), len(last) + jnp.sum(is_other)
    return jnp.sum(ends) / num_ends + jnp.sum(others) / num_others
