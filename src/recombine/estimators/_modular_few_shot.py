"""Learning tasks from a few rows, as combinations of modules, on people's own tasks (Schug 2024).

Departures from the paper, made for data of any origin: tasks come from a fixed collection and in
several sizes; inputs, and numbers to predict, are standardized over all tasks together; networks
are smaller, inner steps see the whole support, and the learning rate falls along a cosine.
"""

from collections.abc import Sequence
from typing import Any, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Shaped
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from recombine.estimators._base import Estimator, draw_seed, make_random_state
from recombine.estimators._buckets import power_of_two
from recombine.estimators._checks import check_count, check_number
from recombine.estimators._few_shot_answers import (
    Answered,
    Program,
    adapt_to,
    answer_queries,
    describe,
)
from recombine.estimators._few_shot_encoding import TaskEncoder
from recombine.estimators._few_shot_learners import FewShotLearner, LearnerSettings, outer_loop
from recombine.estimators._few_shot_tasks import (
    ParsedTask,
    Predicts,
    parse_rows,
    parse_tasks,
)
from recombine.estimators._few_shot_training import (
    BucketedMetaLearner,
    TaskArrays,
    TaskCollection,
    bucket_tasks,
    fill_up,
)
from recombine.estimators._standardizing import Standard
from recombine.estimators._task_predictors import (
    TaskClassifier,
    TaskNetwork,
    TaskRegressor,
    check_width,
)
from recombine.methods.adaptation import Adapted, raise_if_diverged
from recombine.methods.hypernetworks import (
    HardLabels,
    MetaLearner,
    SquaredError,
)
from recombine.training import enable_compilation_cache

MEASURED_TASKS = 32
"""So many tasks are answered for each point of a training curve."""


class ModularFewShot(Estimator):
    r"""A network that learns a new task from a few rows, as a new combination of known modules.

    It is trained on many small **tasks**. Each has a support, rows to learn the task from, and
    queries, rows by which it is judged. With `learner="hypernetwork"` the weights of a network are
    a sum of modules, $W = \sum_m e_m \Theta_m$; the modules are shared by all tasks, and all
    that is inferred of a task is its embedding $e$, one row for each layer, by a few steps of
    gradient descent on the support. Where tasks are made of a few parts, and every part was seen in
    combination with others, tasks that combine the parts in ways never seen can be learned too
    (Schug et al. 2024). `"anil"` and `"maml"` have no modules, and stand beside it to compare with.

    **Tasks** are the four arrays x_support, y_support, x_query, y_query: a tuple, a `Task`, or a
    dict with these keys. All have the same columns. Sizes may differ: tasks are sorted into at
    most `max_buckets` buckets, and filled up with rows that do not count. Tasks of a kind should
    be given several times with other rows, or with many rows, or they are learned by heart.

    **Classes** have the same meaning in all tasks, as far as the tasks have something in common;
    the classes of one task are those that its support shows, and its queries must be of them. For
    **numbers**, set `predicts="numbers"`; `y` has one column or several.

    **A new task** needs no training: `adapt(x, y)` returns its predictor.

    Args:
        learner: "hypernetwork"; "amortised", modules whose embedding an encoder reads off the
            support in one pass, without descent; "anil", a network whose last layer is adapted to
            each task; "maml", one of which all weights are.
        predicts: "classes", or "numbers".
        modules: how many modules each layer has, which is the length of an embedding row. A few
            times the number of parts that tasks are made of is good; more than needed costs little.
            For "hypernetwork" and "amortised".
        width: units of each hidden layer.
        hidden_layers: their number.
        steps: updates of what all tasks share.
        tasks_per_step: how many tasks each of them sees.
        learning_rate: of AdamW; it falls to nearly zero along a cosine.
        inner_steps: steps within a task, in training and in `adapt`; None for 10, with "anil" 20
            and with "amortised" 0. Some for "amortised" refine what the encoder found.
        inner_learning_rate: of these steps; None for 0.05, with "anil" 0.03, with "maml"
            0.01.
        taught: whether, with "amortised", descent infers the embeddings of training tasks as well,
            10 steps each, and the encoder is drawn towards them. Training takes longer, and
            combinations that were never seen are understood better. None for yes, unless there
            are inner steps.
        max_buckets: how many sizes of tasks are compiled, at most.
        random_state: a whole number for the same result every time, on the same kind of device.
        verbose: whether to show progress.

    Attributes:
        classes_: the labels of all tasks, sorted; None for numbers.
        embedding_: the embedding of each training task, of shape (tasks, layers, modules): rows of
            the input layer, of each further hidden layer and of the output layer, each scaled to a
            mean square of 1, which does not change the network. None for "anil" and "maml".
        padding_: the share of rows that only fill up.
        history_: training curves, of up to 32 training tasks: `step`, `accuracy` on their queries
            (for numbers `squared_error`, in units of the variance of `y`), the same with
            `validation_` in front where validation tasks are given, and from the second entry on,
            of the last step before, the `loss`, the shares of tasks that `diverged` and of updates
            that were `skipped`, and the `distance` of an encoder that is taught from its teacher.
        n_features_in_: the number of columns of `x`.
        mean_: subtracted from each column.
        scale_: each column is divided by it afterwards.
        target_mean_: subtracted from each column of numbers to predict; None for classes.
        target_scale_: they are divided by it afterwards; None for classes.
        model_: modules, or the network, with the start of a task.

    Example:
        >>> import numpy as np
        >>> from recombine import ModularFewShot
        >>> rng = np.random.default_rng(0)
        >>> def sample_task(slope, rows):
        ...     x = rng.uniform(-1, 1, size=(2 * rows, 1))
        ...     y = slope * x[:, 0]
        ...     return x[:rows], y[:rows], x[rows:], y[rows:]
        >>> tasks = [sample_task(rng.uniform(-2, 2), rows=rng.integers(4, 9)) for _ in range(100)]
        >>> model = ModularFewShot(
        ...     predicts="numbers", hidden_layers=1, max_buckets=1, steps=500, random_state=0
        ... )
        >>> model.fit(tasks[:80]).score(tasks[80:]) > 0.8  # R² on 20 new tasks
        True
        >>> predictor = model.adapt([[-1.0], [0.5], [1.0]], [-1.5, 0.75, 1.5])
        >>> predictor.predict([[0.0], [0.8]]).shape
        (2,)
    """

    learner: FewShotLearner
    predicts: Predicts
    model_: Any
    classes_: Shaped[np.ndarray, " classes"] | None
    embedding_: Float[np.ndarray, "tasks layers modules"] | None
    padding_: float
    n_features_in_: int
    mean_: Float[np.ndarray, " features"]
    scale_: Float[np.ndarray, " features"]
    target_mean_: Float[np.ndarray, " outputs"] | None
    target_scale_: Float[np.ndarray, " outputs"] | None

    def __init__(
        self,
        learner: FewShotLearner = "hypernetwork",
        *,
        predicts: Predicts = "classes",
        modules: int = 16,
        width: int = 32,
        hidden_layers: int = 2,
        steps: int = 2000,
        tasks_per_step: int = 16,
        learning_rate: float = 2e-3,
        inner_steps: int | None = None,
        inner_learning_rate: float | None = None,
        taught: bool | None = None,
        max_buckets: int = 2,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ):
        self.learner = learner
        self.predicts = predicts
        self.modules = modules
        self.width = width
        self.hidden_layers = hidden_layers
        self.steps = steps
        self.tasks_per_step = tasks_per_step
        self.learning_rate = learning_rate
        self.inner_steps = inner_steps
        self.inner_learning_rate = inner_learning_rate
        self.taught = taught
        self.max_buckets = max_buckets
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, tasks: Any, validation: Any = None) -> Self:
        """Trains what all tasks share.

        Args:
            tasks: what to train on.
            validation: tasks that are only measured, for `history_`: combinations that do not
                occur in `tasks` show whether new ones are learned.
        """
        self._forget()
        self._check_parameters()
        parsed = parse_tasks(tasks, "tasks", self.predicts)
        self._take_measures(parsed)
        watched = [] if validation is None else self._known(validation, "validation")
        encoded = self._encoder.encode_all(parsed, "tasks")
        bucketed = bucket_tasks(encoded, int(self.max_buckets))
        self.padding_ = bucketed.padding
        random_state = make_random_state(self.random_state)
        some = random_state.permutation(len(encoded))[:MEASURED_TASKS]
        measured = {"": [encoded[i] for i in some.tolist()]}
        if watched:
            measured["validation_"] = watched[:MEASURED_TASKS]
        learner = BucketedMetaLearner(
            tuple(self._meta_learner(bucket) for bucket in bucketed.buckets),
            {
                prefix: self._meta_learner(bucket_tasks(group, 1).buckets[0])
                for prefix, group in measured.items()
            },
            (("loss", "squared_error", 2.0),)
            if self.classes_ is None
            else (("accuracy", "accuracy", 1.0),),
        )
        # As one of several vectorized seeds, a step would compute tasks of every bucket.
        model = self._train(
            learner,
            steps=int(self.steps),
            seed=draw_seed(random_state),
            vectorize=False,
            remedy=f"Lower `inner_learning_rate` (now {self._settings().rate:g}), "
            f"`learning_rate`, or `inner_steps`.",
        ).model
        self.embedding_ = self._look_back(model, encoded)
        self.model_ = model
        return self

    def adapt(self, x: Any, y: Any) -> TaskClassifier | TaskRegressor:
        """Learns a new task from its support, and returns what predicts in it.

        Args:
            x: a table with the columns of training.
            y: the label, or the numbers, of each row.

        Returns:
            A `TaskClassifier` or a `TaskRegressor`, with `predict`, `score`, `embedding_`, and
            for classes `predict_proba`.

        Raises:
            DivergedError: the loss on the support grew far above its start; a lower
                `inner_learning_rate` is needed, in training too.
        """
        check_is_fitted(self)
        enable_compilation_cache()
        rows, targets = parse_rows(
            x, y, ("`x`", "`y`"), self.predicts, "a task needs rows to learn it from"
        )
        check_width(rows, "`x`", self.n_features_in_)
        encoder, size = self._encoder, power_of_two(len(rows))
        support = fill_up(
            encoder.encode_inputs(rows, "`x`"), encoder.encode_targets(targets, "`y`"), size
        )
        support = jax.tree.map(lambda array: jnp.asarray(array)[None], support)
        found = adapt_to(self._program(), self.model_, TaskArrays(support, support), True)
        self._check_converged(found.losses, found.finite)
        adapted = jax.device_get(jax.tree.map(lambda array: array[0], found.params))
        task = TaskNetwork(self.model_, adapted), describe(adapted), encoder.inputs
        if isinstance(encoder.targets, Standard):
            return TaskRegressor(*task, targets=encoder.targets)
        return TaskClassifier(*task, known=encoder.targets, shown=np.unique(targets))

    def score(self, tasks: Any) -> float:
        """Adapts to the support of each task, and returns how well its queries are answered.

        For classes it is the share of right answers, the mean over tasks; for numbers it is R²
        over the queries of all tasks together.
        """
        check_is_fitted(self)
        enable_compilation_cache()
        encoded = self._known(tasks, "tasks")
        answered = self._answer(self.model_, encoded)
        self._check_converged(answered.losses, answered.finite)
        outputs = answered.outputs
        if self.classes_ is None:
            asked = np.concatenate([task.y_query for task in encoded])
            return float(r2_score(asked, np.concatenate(outputs)))
        shares = []
        for task, logits in zip(encoded, outputs, strict=True):
            shown = np.unique(task.y_support)
            shares.append(np.mean(shown[np.argmax(logits[:, shown], axis=1)] == task.y_query))
        return float(np.mean(shares))

    def _check_parameters(self) -> None:
        self._settings().check()
        if self.predicts not in ("classes", "numbers"):
            raise ValueError(f"`predicts` must be 'classes' or 'numbers'; got {self.predicts!r}")
        check_number("learning_rate", self.learning_rate, above=0.0)
        for name in ("steps", "tasks_per_step", "max_buckets"):
            check_count(name, getattr(self, name))

    def _settings(self) -> LearnerSettings:
        return LearnerSettings(
            self.learner,
            self.modules,
            self.width,
            self.hidden_layers,
            self.inner_steps,
            self.inner_learning_rate,
            self.taught,
        )

    def _take_measures(self, tasks: Sequence[ParsedTask]) -> None:
        """Learns from the training tasks what inputs and targets look like."""
        encoder = TaskEncoder.of(tasks, self.predicts)
        self.n_features_in_ = encoder.num_features
        self.mean_, self.scale_ = encoder.inputs
        self.classes_ = self.target_mean_ = self.target_scale_ = None
        if isinstance(encoder.targets, Standard):
            self.target_mean_, self.target_scale_ = encoder.targets
        else:
            self.classes_ = encoder.targets

    @property
    def _encoder(self) -> TaskEncoder:
        inputs = Standard(self.mean_, self.scale_)
        if self.classes_ is not None:
            return TaskEncoder(inputs, self.classes_)
        assert self.target_mean_ is not None
        assert self.target_scale_ is not None
        return TaskEncoder(inputs, Standard(self.target_mean_, self.target_scale_))

    def _known(self, tasks: Any, name: str) -> list[ParsedTask]:
        """Reads tasks as in training, with its columns and classes."""
        return self._encoder.encode_all(parse_tasks(tasks, name, self.predicts), name)

    def _program(self) -> Program:
        settings = self._settings()
        return Program(
            settings.architecture(self.n_features_in_, self._encoder.num_outputs),
            SquaredError() if self.classes_ is None else HardLabels(),
            settings.inner(),
        )

    def _meta_learner(self, tasks: TaskArrays) -> MetaLearner:
        program, source = self._program(), TaskCollection(tasks)
        return MetaLearner(
            source,
            program.architecture,
            program.objective,
            inner=program.inner,
            outer=outer_loop(float(self.learning_rate), int(self.steps)),
            num_tasks=int(self.tasks_per_step),
            num_measured=source.count,
            chunk_size=source.count,
            distillation=self._settings().distillation(),
        )

    def _model_template(self) -> Any:
        return eqx.filter_eval_shape(self._program().architecture.make, key=jr.key(0))

    def _look_back(self, model: Any, encoded: list[ParsedTask]) -> Any:
        """Adapts to the training tasks once more, for their embeddings and to see that it works."""
        answered = self._answer(model, encoded)
        self._check_converged(np.mean(answered.losses, axis=0)[None], answered.finite.all())
        return answered.embedding

    def _answer(self, model: Any, encoded: list[ParsedTask]) -> Answered:
        return answer_queries(
            self._program(),
            model,
            encoded,
            max_buckets=int(self.max_buckets),
            has_embedding=self._settings().has_embedding,
        )

    def _check_converged(
        self, losses: Float[Array | np.ndarray, "tasks steps"], finite: Any
    ) -> None:
        """Refuses inner loops that ran away.

        A loss that grows, but stays near that of knowing nothing, did not run away: steps of a
        fixed size can leave a start that was good by chance.
        """
        nothing = 0.5 if self.classes_ is None else float(np.log(len(self.classes_)))
        grown: Any = np.maximum(np.asarray(losses), nothing)
        raise_if_diverged(
            Adapted(None, None, grown, np.asarray(finite)),  # pyright: ignore[reportArgumentType]
            learning_rate=self._settings().rate,
        )
