"""Training a dynamics model with adaptive or fixed skips (Neitz, thesis, §2.3 and App. A).

A step takes a batch of trajectories, rolls the model along each, and follows the gradient with
Adam. An epoch visits every trajectory once, in a fresh order. The data stay on the device; where a
run has several phases, they are exchanged at given steps, and everything else goes on.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from recombine.methods._numbers import optional_number
from recombine.methods.skipping._aligned_loss import aligned_loss
from recombine.methods.skipping._data import Trajectories
from recombine.methods.skipping._evaluation import evaluation_depth
from recombine.methods.skipping._frames import BINARY_CROSS_ENTROPY, FrameLoss
from recombine.methods.skipping._inspection import inspect_runs
from recombine.methods.skipping._loss import Rollout, skip_loss
from recombine.methods.skipping._matching import Batch
from recombine.methods.skipping._measures import (
    Metrics,
    Some,
    measure_free_runs,
    measure_loss,
    measure_matched_runs,
)
from recombine.methods.skipping._outcome import (
    LearnedReader,
    LearnedReaderShape,
    OutcomeReader,
    reader_loss,
)
from recombine.methods.skipping._schedules import Schedule
from recombine.methods.skipping._skips import Coins, Skips, flip_coins
from recombine.methods.skipping._spikes import shorten_spikes

Matching = Literal["greedy", "global", "soft"]
"""One prediction after the other; all of a trajectory at once; or softly, over all alignments."""


class Phase(eqx.Module):
    """The data of one part of a run."""

    train: Trajectories
    validation: Trajectories
    name: str = eqx.field(static=True, default="only")


class SkipTraining(NamedTuple):
    """The state of one seed."""

    model: Any
    reader: LearnedReader | None  # where one is trained
    optimizer: Any
    order: Int[Array, " items"]  # of this epoch
    counts: Int[Array, "batches batch"]  # of the last epoch: predictions of each trajectory
    advances: Int[Array, "batches batch"]  # and frames
    model_evaluations: Int[Array, ""]
    padded_evaluations: Int[Array, ""]  # with those of trajectories that waited for others
    step: Int[Array, ""]


class SkipLearner(eqx.Module):
    """A dynamics model, how its predictions are matched with frames, and a reader of outcomes.

    `Skips(1, 21)` with exploration is the full method; with `exploration_steps=0` in the schedule
    it is the one without exploration, with `Skips(k, k)` the baseline that predicts every k-th
    frame.
    The reader is given, or trained (`learned_reader`), or there is none.

    Metrics: `accuracy_soft` is the mean probability of the true outcome, as published;
    `accuracy_hard` the share of outcomes that were the likeliest. `depth` is N, the steps of a free
    run. `model_evaluations` counts the model's training calls that were needed,
    `padded_evaluations` those that were made.
    """

    phases: tuple[Phase, ...]
    reader: OutcomeReader | None = None
    schedule: Schedule = eqx.field(default_factory=Schedule)
    temperature: Float[Array, ""] = eqx.field(converter=jnp.float32, default=1e-3)
    step_cost: Float[Array, ""] = eqx.field(converter=jnp.float32, default=0.0)
    switch_steps: Int[Array, " switches"] = eqx.field(
        converter=lambda steps: jnp.asarray(steps, jnp.int32), default=()
    )
    """The steps before which the next phase begins."""
    longest_gradient: Float[Array, ""] | None = eqx.field(converter=optional_number, default=None)
    """Gradients longer than so many times the usual are shortened (`shorten_spikes`); None, as
    published: they are not."""
    model: Callable[[PRNGKeyArray], Any] = eqx.field(static=True, kw_only=True)
    skips: Skips = eqx.field(static=True, default=Skips())
    frame_loss: FrameLoss = eqx.field(static=True, default=BINARY_CROSS_ENTROPY)
    learned_reader: LearnedReaderShape | None = eqx.field(static=True, default=None)
    matching: Matching = eqx.field(static=True, default="greedy")
    aligned_steps: int | None = eqx.field(static=True, default=None)
    """How far the model runs freely before its predictions are aligned; None: to the end."""
    batch_size: int = eqx.field(static=True, default=2)
    shuffle: bool = eqx.field(static=True, default=True)
    rematerialize: bool = eqx.field(static=True, default=False)
    chunk: int = eqx.field(static=True, default=1)
    """How many steps of a rollout are made at a time (`skip_loss`); for accelerators."""
    lanes: int | None = eqx.field(static=True, default=None)
    """How many trajectories of a batch are followed at a time; None: as was measured to be
    fastest, one image after the other on a CPU, all at once elsewhere."""
    num_watched: int = eqx.field(static=True, default=125)
    """So many validation trajectories are measured between; all of them at the end."""
    at_once: int = eqx.field(static=True, default=50)
    """How many trajectories are evaluated together."""
    num_inspected: int = eqx.field(static=True, default=2)
    vectorize_seeds: bool = eqx.field(static=True, default=True)
    """Whether the seeds of a run may share one program on an accelerator."""

    def __check_init__(self) -> None:
        if not self.phases or len(self.switch_steps) != len(self.phases) - 1:
            raise ValueError(
                f"`switch_steps` must have one step for each change of phase; got "
                f"{len(self.phases)} phases and {len(self.switch_steps)} steps"
            )
        shapes = {phase.train.frames.shape for phase in self.phases}
        if len(shapes) > 1:
            raise ValueError(
                f"the training frames of all phases must have one shape; got {sorted(shapes)}. "
                f"`as_trajectories(..., time=...)` pads them"
            )
        (items, time, *_) = next(iter(shapes))
        if not 1 <= self.batch_size <= items:
            raise ValueError(
                f"`batch_size` must be between 1 and the {items} trajectories; got "
                f"{self.batch_size}"
            )
        if self.skips.longest > time - 1:
            raise ValueError(
                f"a horizon of {self.skips.longest} needs trajectories of at least "
                f"{self.skips.longest + 1} frames; the longest has {time}"
            )
        if self.matching not in ("greedy", "global", "soft"):
            raise ValueError(
                f'`matching` must be "greedy", "global" or "soft"; got {self.matching!r}'
            )
        if self.matching != "greedy" and self.skips.shortest != 1:
            raise ValueError(f"global alignment needs a shortest skip of 1; got {self.skips}")
        if self.reader is not None and self.learned_reader is not None:
            raise ValueError("give a `reader` or a `learned_reader` to train, not both")

    @property
    def steps_per_epoch(self) -> int:
        """How many batches visit every trajectory once; an incomplete last batch is dropped."""
        return len(self.phases[0].train.lengths) // self.batch_size

    def init(self, key: PRNGKeyArray) -> SkipTraining:
        """Draws the model and, where one is trained, the reader."""
        model_key, reader_key = jr.split(key)
        model = self.model(model_key)
        reader = None if self.learned_reader is None else self.learned_reader(reader_key)
        blank = jnp.zeros((self.steps_per_epoch, self.batch_size), jnp.int32)
        return SkipTraining(
            model=model,
            reader=reader,
            optimizer=self._optimizer().init(eqx.filter((model, reader), eqx.is_inexact_array)),
            order=jnp.arange(len(self.phases[0].train.lengths)),
            counts=blank,
            advances=blank,
            model_evaluations=jnp.int32(0),
            padded_evaluations=jnp.int32(0),
            step=jnp.int32(0),
        )

    def step(self, state: SkipTraining, key: PRNGKeyArray) -> tuple[SkipTraining, Metrics]:
        """Matches one batch, and makes one update."""
        order_key, coin_key, reader_key = jr.split(key, 3)
        place = state.step % self.steps_per_epoch
        order = state.order
        if self.shuffle:
            shuffled = jr.permutation(order_key, len(order))
            order = jnp.where(place == 0, shuffled, order)
        items = jax.lax.dynamic_slice_in_dim(order, place * self.batch_size, self.batch_size)
        batch, labels = self._batch(items, state.step)
        coins = flip_coins(coin_key, batch.frames.shape[1] - 1, self.batch_size)

        def loss_of(parts: tuple[Any, Any]) -> tuple[Float[Array, ""], tuple[Any, Rollout]]:
            model, reader = parts
            loss, rollout = self._loss(model, batch, coins, state.step)
            total = loss
            if reader is not None:  # its gradient does not reach the model, nor the other way
                total = loss + reader_loss(reader, batch, labels, rollout, reader_key)
            return total, (loss, rollout)

        parts = (state.model, state.reader)
        (_, (loss, rollout)), grads = eqx.filter_value_and_grad(loss_of, has_aux=True)(parts)
        updates, optimizer = self._optimizer().update(grads, state.optimizer)
        rate = self.schedule.rate(state.step)
        updates = jax.tree.map(lambda update: -rate * update, updates)
        model, reader = eqx.apply_updates(parts, updates)
        advance = jnp.max(rollout.matched, axis=0).clip(0)
        count = jnp.sum(rollout.num_predictions)
        needed, made = self._evaluations(rollout)
        new = SkipTraining(
            model=model,
            reader=reader,
            optimizer=optimizer,
            order=order,
            counts=state.counts.at[place].set(rollout.num_predictions),
            advances=state.advances.at[place].set(advance),
            model_evaluations=state.model_evaluations + needed,
            padded_evaluations=state.padded_evaluations + made,
            step=state.step + 1,
        )
        return new, {
            "loss": loss,
            "predictions": jnp.mean(rollout.num_predictions),
            "mean_skip": jnp.sum(advance) / jnp.maximum(count, 1),
            "longest_skip": jnp.max(_skips_of(rollout)).astype(jnp.float32),
            "exploration": self.schedule.exploration(state.step),
            "truth": self.schedule.truth(state.step),
            "learning_rate": rate,
        }

    def evaluate(self, state: SkipTraining, key: PRNGKeyArray) -> Metrics:
        """Measures free runs on some validation trajectories, of every phase.

        What has no phase in its name is of the phase that the run is in.
        """
        del key
        return self._counters(state) | self._scores(state, self.num_watched)

    def final(self, state: SkipTraining, key: PRNGKeyArray) -> Metrics:
        """Measures free runs on all validation trajectories, and runs that stop at the end.

        `accuracy_matched` lets the truth decide where a run ends; `mean_skip` and `longest_skip`
        are those of such runs.
        """
        del key
        metrics = self._scores(state, None)
        reader = self._reader(state)
        if reader is not None:
            everyone = [Some(phase.validation, None, self.at_once) for phase in self.phases]
            metrics |= self._select(state, [
                measure_matched_runs(state.model, reader, some, self.skips, self.frame_loss)
                for some in everyone
            ])  # fmt: skip
        return metrics

    def inspect(self, state: SkipTraining, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns a few validation trajectories with what the model makes of them.

        `predictions` and `matched` are of a free run that is matched as it goes, `costs` are the
        losses against all candidates; `rollout` is the free run for `depth` steps, and 0 after.
        """
        del key
        data, depth = self.phases[-1].validation, self.depth(state)
        return inspect_runs(
            state.model, data, self.num_inspected, depth, self.skips, self.frame_loss
        )

    def depth(self, state: SkipTraining) -> Int[Array, ""]:
        """Returns N, for how many steps a free run is watched."""
        is_known = jnp.arange(self.steps_per_epoch) < state.step
        return evaluation_depth(state.counts, is_known)

    def _loss(
        self, model: Any, batch: Batch, coins: Coins, step: Int[Array, ""]
    ) -> tuple[Float[Array, ""], Rollout]:
        keep = self.learned_reader is not None
        if self.matching == "greedy":
            return skip_loss(
                model,
                batch,
                coins,
                skips=self.skips,
                exploration=self.schedule.exploration(step),
                truth=self.schedule.truth(step),
                frame_loss=self.frame_loss,
                keep_predictions=keep,
                rematerialize=self.rematerialize,
                chunk=self.chunk,
                lanes=self._lanes(batch),
            )
        return aligned_loss(
            model,
            batch,
            coins,
            skips=self.skips,
            truth=self.schedule.truth(step),
            frame_loss=self.frame_loss,
            temperature=self.temperature if self.matching == "soft" else None,
            step_cost=self.step_cost,
            steps=self.aligned_steps,
            keep_predictions=keep,
            rematerialize=self.rematerialize,
            chunk=self.chunk,
            lanes=self._lanes(batch),
        )

    def _optimizer(self) -> optax.GradientTransformation:
        adam = optax.scale_by_adam(b1=0.9, b2=0.999, eps=1e-8)
        if self.longest_gradient is None:
            return adam
        return optax.chain(shorten_spikes(self.longest_gradient), adam)

    def _lanes(self, batch: Batch) -> int | None:
        if self.lanes is None and batch.frames.ndim > 3 and jax.default_backend() == "cpu":
            return 1  # vectors have two axes before their features, images more
        return self.lanes

    def _evaluations(self, rollout: Rollout) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """Returns how many calls of the model a batch needed, and how many were made.

        Before a hard alignment the model runs freely once more; a soft one is that run itself.
        """
        needed = jnp.sum(rollout.num_predictions)
        made = rollout.num_calls
        free = self.batch_size * len(rollout.matched)
        if self.matching == "global":
            return needed + free, made + free
        return (needed, made) if self.matching == "greedy" else (made, made)

    def _batch(
        self, items: Int[Array, " batch"], step: Int[Array, ""]
    ) -> tuple[Batch, Int[Array, " batch"]]:
        """Picks trajectories of the present phase; gathering from all is cheap."""
        picked = [(phase.train.batch(items), phase.train.labels[items]) for phase in self.phases]
        now = self._phase(step)
        chosen = picked[0]
        for number, other in enumerate(picked[1:], start=1):
            chosen = jax.tree.map(lambda a, b, n=number: jnp.where(now >= n, b, a), chosen, other)
        return chosen

    def _phase(self, step: Int[Array, ""]) -> Int[Array, ""]:
        return jnp.sum(step >= self.switch_steps)

    def _reader(self, state: SkipTraining) -> OutcomeReader | None:
        return self.reader if state.reader is None else state.reader

    def _select(self, state: SkipTraining, of_phases: list[Metrics]) -> Metrics:
        """Names the metrics of every phase, and gives those of the present one their short name."""
        now = self._phase(state.step)
        chosen = of_phases[0]
        for number, other in enumerate(of_phases[1:], start=1):
            chosen = {name: jnp.where(now >= number, other[name], chosen[name]) for name in other}
        if len(of_phases) == 1:
            return chosen
        named = {
            f"{name}/{phase.name}": value
            for phase, metrics in zip(self.phases, of_phases, strict=True)
            for name, value in metrics.items()
        }
        return chosen | named

    def _counters(self, state: SkipTraining) -> Metrics:
        count = jnp.maximum(jnp.sum(state.counts), 1)
        return {
            "depth": self.depth(state).astype(jnp.float32),
            "mean_skip": jnp.sum(state.advances) / count,
            "model_evaluations": state.model_evaluations.astype(jnp.float32),
            "padded_evaluations": state.padded_evaluations.astype(jnp.float32),
            "epoch": state.step / self.steps_per_epoch,
        }

    def _scores(self, state: SkipTraining, count: int | None) -> Metrics:
        reader, model, depth = self._reader(state), state.model, self.depth(state)
        of_phases = []
        for phase in self.phases:
            some = Some(phase.validation, count, self.at_once)
            of_phases.append(
                measure_loss(model, some, self.skips, self.frame_loss)
                if reader is None
                else measure_free_runs(model, reader, some, depth)
            )
        return self._select(state, of_phases)


def _skips_of(rollout: Rollout) -> Int[Array, "steps batch"]:
    before = jnp.concatenate([jnp.zeros_like(rollout.matched[:1]), rollout.matched[:-1]])
    return jnp.where(rollout.matched >= 0, rollout.matched - before, 0)
