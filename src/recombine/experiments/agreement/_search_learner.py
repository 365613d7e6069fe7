"""A random search over settings, as one learner: all trials are trained side by side.

Trials of the same sizes share one program, since everything else is a number: the regularizer and
its kind, dropout, Adam or SGD, the threshold, the penalty. A round has one trial of every
combination of sizes; rounds are vectorised. One step of the learner is one epoch of every trial.

A trial whose weights stop being finite is held where it was an epoch before, and counted.
"""

import itertools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from recombine.experiments.agreement._config import SearchConfig, UnevenSearchConfig
from recombine.experiments.agreement._learners import sample_split
from recombine.methods.agreement import (
    BINARY,
    DANN,
    IRM,
    AdversarialShape,
    AgreementLearner,
    AgreementTraining,
    AndMask,
    Epochs,
    Fixed,
    JoinGradients,
    Method,
    MLPShape,
    Pooled,
    Split,
    add_l1,
)
from recombine.tasks import spirals


class Size(NamedTuple):
    """What changes the shape of arrays or the program of a trial."""

    hidden_units: int
    hidden_layers: int
    batch_size: int
    batch_norm: bool


class Trial(NamedTuple):
    """The numbers of one trial."""

    learning_rate: Float[Array, ""]
    is_adam: Bool[Array, ""]  # otherwise SGD with momentum
    l2: Float[Array, ""]
    l1: Float[Array, ""]
    dropout: Float[Array, ""]
    threshold: Float[Array, ""]
    rescale: Float[Array, ""]
    penalty_weight: Float[Array, ""]
    anneal_epochs: Float[Array, ""]
    reversal: Float[Array, ""]


class Searching(NamedTuple):
    """The state of a search; every array has a leading axis of rounds."""

    split: Split
    trials: tuple[Trial, ...]  # one for each size
    training: tuple[AgreementTraining, ...]
    best: Float[Array, "rounds sizes"]  # test accuracy, over all epochs
    diverged: Bool[Array, "rounds sizes"]


class SearchLearner(eqx.Module):
    """Trains all trials of a search at once; see the module."""

    config: SearchConfig = eqx.field(static=True)
    epochs: int = eqx.field(static=True)

    @property
    def sizes(self) -> list[Size]:
        """All combinations of sizes, in a fixed order."""
        config = self.config
        return [
            Size(*size)
            for size in itertools.product(
                config.hidden_units, config.hidden_layers, config.batch_sizes, config.batch_norm
            )
        ]

    def init(self, key: PRNGKeyArray) -> Searching:
        """Draws the data set of every round, and the numbers and the network of every trial."""
        return jax.vmap(self._init_round)(jr.split(key, self.config.rounds))

    def step(
        self, state: Searching, key: PRNGKeyArray
    ) -> tuple[Searching, dict[str, Float[Array, ""]]]:
        """Trains every trial for an epoch."""
        state = jax.vmap(self._epoch)(state, jr.split(key, self.config.rounds))
        return state, {"diverged": jnp.mean(state.diverged.astype(jnp.float32))}

    def evaluate(self, state: Searching, key: PRNGKeyArray) -> dict[str, Float[Array, ""]]:
        """Returns the best test accuracy of all trials, and how the others did."""
        return _summary(self.outcomes(state))

    def outcomes(self, state: Searching) -> dict[str, Array]:
        """Returns what became of every trial, each an array over trials."""
        test, train = jax.vmap(self._accuracies)(state)
        measured = {
            "test_accuracy": test,
            "train_accuracy": train,
            "best_over_training": state.best,
            "diverged": state.diverged,
        }
        return {name: values.reshape(-1) for name, values in measured.items()}

    def inspect(self, state: Searching, key: PRNGKeyArray) -> dict[str, Array]:
        """Returns settings and accuracies of all trials, each an array over trials."""
        rounds = self.config.rounds
        sizes = {
            name: jnp.tile(jnp.asarray([getattr(size, name) for size in self.sizes]), rounds)
            for name in Size._fields
        }
        numbers = {
            name: jnp.stack([getattr(trial, name) for trial in state.trials], axis=1).reshape(-1)
            for name in Trial._fields
        }
        shown = {**sizes, **numbers, **self.outcomes(state)}
        return {f"trial_{name}": value for name, value in shown.items()}

    def _init_round(self, key: PRNGKeyArray) -> Searching:
        data_key, trials_key, models_key = jr.split(key, 3)
        split = sample_split(self.config, data_key)
        drawn = jax.vmap(lambda trial_key: draw_trial(self.config, trial_key))(
            jr.split(trials_key, len(self.sizes))
        )
        trials = tuple(
            jax.tree.map(lambda leaf, number=number: leaf[number], drawn)
            for number in range(len(self.sizes))
        )
        training = tuple(
            self._learner(size, trial, split).init(model_key)
            for size, trial, model_key in zip(
                self.sizes, trials, jr.split(models_key, len(self.sizes)), strict=True
            )
        )
        blank = jnp.zeros(len(self.sizes))
        return Searching(split, trials, training, blank, blank > 0)

    def _epoch(self, state: Searching, key: PRNGKeyArray) -> Searching:
        training, best, diverged = [], [], []
        for number, size in enumerate(self.sizes):
            learner = self._learner(size, state.trials[number], state.split)
            keys = jr.split(jr.fold_in(key, number), self._epoch_steps(size))
            new = _train(learner, state.training[number], keys)
            broken = state.diverged[number] | ~is_finite(new.model)
            held = jax.tree.map(
                lambda old, now, broken=broken: jnp.where(broken, old, now),
                state.training[number],
                new,
            )
            training.append(held)
            diverged.append(broken)
            score = learner.score(held.model, state.split.test)
            best.append(jnp.maximum(state.best[number], score))
        return state._replace(
            training=tuple(training), best=jnp.stack(best), diverged=jnp.stack(diverged)
        )

    def _accuracies(
        self, state: Searching
    ) -> tuple[Float[Array, " sizes"], Float[Array, " sizes"]]:
        measured = [
            self._learner(size, trial, state.split).evaluate(training, jr.key(0))
            for size, trial, training in zip(self.sizes, state.trials, state.training, strict=True)
        ]
        test = jnp.stack([metrics["test_accuracy"] for metrics in measured])
        return test, jnp.stack([metrics["train_accuracy"] for metrics in measured])

    def _epoch_steps(self, size: Size) -> int:
        return self.config.num_examples // size.batch_size

    def _learner(self, size: Size, trial: Trial, split: Split) -> AgreementLearner:
        config = self.config
        steps = self.epochs * self._epoch_steps(size)
        return AgreementLearner(
            source=Fixed(split),
            network=self._network(size),
            objective=BINARY,
            method=self._method(size, trial),
            batches=Epochs(size.batch_size),
            optimizer=EitherDescent(trial, tuple(int(share * steps) for share in config.decay_at)),
            dropout=trial.dropout if any(config.dropouts) else None,
        )

    def _network(self, size: Size) -> Any:
        config = self.config
        inputs = spirals.NUM_MECHANISM + config.num_shortcuts
        if config.method == "dann":
            return AdversarialShape(
                inputs, size.hidden_units, 1, config.num_envs, batch_norm=size.batch_norm
            )
        layers = [size.hidden_units] * size.hidden_layers
        return MLPShape((inputs, *layers, 1), batch_norm=size.batch_norm)

    def _method(self, size: Size, trial: Trial) -> Method:
        match self.config.method:
            case "standard":
                return Pooled()
            case "and-mask":
                return JoinGradients(AndMask(trial.threshold, trial.rescale))
            case "irm":
                anneal = trial.anneal_epochs * self._epoch_steps(size)
                return IRM(trial.penalty_weight, anneal)  # pyright: ignore[reportArgumentType]
            case "dann":
                return DANN(trial.reversal)


class JoinedSearches(eqx.Module):
    """Several searches as one, each with rounds of its own."""

    parts: tuple[SearchLearner, ...]

    def init(self, key: PRNGKeyArray) -> tuple[Searching, ...]:
        """Starts every part."""
        keys = jr.split(key, len(self.parts))
        return tuple(part.init(part_key) for part, part_key in zip(self.parts, keys, strict=True))

    def step(
        self, state: tuple[Searching, ...], key: PRNGKeyArray
    ) -> tuple[tuple[Searching, ...], dict[str, Float[Array, ""]]]:
        """Trains every trial for an epoch."""
        keys = jr.split(key, len(self.parts))
        state = tuple(
            part.step(part_state, part_key)[0]
            for part, part_state, part_key in zip(self.parts, state, keys, strict=True)
        )
        diverged = jnp.concatenate([part_state.diverged.reshape(-1) for part_state in state])
        return state, {"diverged": jnp.mean(diverged.astype(jnp.float32))}

    def evaluate(
        self, state: tuple[Searching, ...], key: PRNGKeyArray
    ) -> dict[str, Float[Array, ""]]:
        """Returns the best test accuracy of all trials, and how the others did."""
        return _summary(
            _joined([part.outcomes(of) for part, of in zip(self.parts, state, strict=True)])
        )

    def inspect(self, state: tuple[Searching, ...], key: PRNGKeyArray) -> dict[str, Array]:
        """Returns settings and accuracies of all trials, each an array over trials."""
        return _joined([part.inspect(of, key) for part, of in zip(self.parts, state, strict=True)])


class EitherDescent(eqx.Module):
    """Adam or SGD by a number, otherwise as `Descent`."""

    trial: Trial
    decay_steps: tuple[int, ...] = eqx.field(static=True)

    def transformation(self) -> optax.GradientTransformation:
        """Returns it as Optax knows it."""
        schedule = optax.piecewise_constant_schedule(
            self.trial.learning_rate,  # pyright: ignore[reportArgumentType]
            dict.fromkeys(self.decay_steps, 0.1),
        )
        return optax.chain(
            add_l1(self.trial.l1),
            optax.add_decayed_weights(self.trial.l2),
            either(self.trial.is_adam, optax.scale_by_adam(), optax.trace(decay=0.9)),
            optax.scale_by_learning_rate(schedule),
        )


def either(
    is_first: Bool[Array, ""],
    first: optax.GradientTransformation,
    second: optax.GradientTransformation,
) -> optax.GradientTransformation:
    """Runs two transformations and hands on what one of them says."""

    def init(params: PyTree[Any]) -> Any:
        return first.init(params), second.init(params)

    def update(updates: PyTree[Any], state: Any, params: PyTree[Any] | None = None) -> Any:
        one, first_state = first.update(updates, state[0], params)
        other, second_state = second.update(updates, state[1], params)
        chosen = jax.tree.map(lambda a, b: jnp.where(is_first, a, b), one, other)
        return chosen, (first_state, second_state)

    return optax.GradientTransformation(init, update)


def draw_trial(config: SearchConfig, key: PRNGKeyArray) -> Trial:
    """Draws the numbers of one trial; those that its method does not read do no harm."""
    names = (*Trial._fields, "kind")
    chance = dict(zip(names, jr.uniform(key, (len(names),)), strict=True))

    def one_of(name: str, choices: tuple[float, ...]) -> Float[Array, ""]:
        values = jnp.asarray(choices or (0.0,), jnp.float32)
        return values[jnp.int32(chance[name] * len(values))]

    kinds = 1 + bool(config.l2) + bool(config.l1)  # none is one of them
    kind = jnp.int32(chance["kind"] * kinds)
    low, high = config.reversal_exponents
    return Trial(
        learning_rate=one_of("learning_rate", config.learning_rates),
        is_adam=chance["is_adam"] < 0.5,
        l2=jnp.where(kind == 1, one_of("l2", config.l2), 0.0),
        l1=jnp.where(kind == 2, one_of("l1", config.l1), 0.0),
        dropout=one_of("dropout", config.dropouts),
        threshold=one_of("threshold", config.thresholds),
        rescale=one_of("rescale", (0.0, 1.0)),
        penalty_weight=one_of("penalty_weight", config.penalty_weights),
        anneal_epochs=one_of("anneal_epochs", config.anneal_epochs),
        reversal=10.0 ** (low + (high - low) * chance["reversal"]),
    )


def make_search_learner(config: SearchConfig, steps: int) -> SearchLearner | JoinedSearches:
    """Returns the learner of one search; its steps are epochs."""
    if not isinstance(config, UnevenSearchConfig):
        return SearchLearner(config, steps)
    return JoinedSearches(tuple(SearchLearner(part, steps) for part in config.parts))


def _summary(outcomes: dict[str, Array]) -> dict[str, Float[Array, ""]]:
    test, train = outcomes["test_accuracy"], outcomes["train_accuracy"]
    memorised = (train > 0.97) & (test < 0.6)  # where the thesis stops a trial
    return {
        "best_test_accuracy": jnp.max(test),
        "best_train_accuracy": train[jnp.argmax(test)],
        "best_ever_test_accuracy": jnp.max(outcomes["best_over_training"]),
        "median_test_accuracy": jnp.median(test),
        "memorised": jnp.mean(memorised.astype(jnp.float32)),
        "share_diverged": jnp.mean(outcomes["diverged"].astype(jnp.float32)),
    }


def _joined(parts: list[dict[str, Array]]) -> dict[str, Array]:
    return {name: jnp.concatenate([part[name] for part in parts]) for name in parts[0]}


def _train(
    learner: AgreementLearner, training: AgreementTraining, keys: PRNGKeyArray
) -> AgreementTraining:
    def body(training: Any, key: PRNGKeyArray) -> tuple[Any, None]:
        return learner.step(training, key)[0], None

    return jax.lax.scan(body, training, keys)[0]


def is_finite(model: PyTree[Any]) -> Bool[Array, ""]:
    """Whether all numbers of a network are finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(model)]))
