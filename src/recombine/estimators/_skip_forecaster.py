"""Forecasting with a model that chooses its own time step, on people's own trajectories (Neitz).

Departures from the thesis, made for data of any origin: vectors are standardized and followed by
their squared error; a classifier of outcomes is trained beside the model, where the thesis made
one by hand for each task, and counts the first end it sees; batches are larger, every schedule
is a share of the steps, and a model of images starts as a copy of its input.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, Shaped
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from recombine.estimators._base import Estimator, draw_seed, make_random_state
from recombine.estimators._blocks import item_blocks
from recombine.estimators._checks import check_count, check_number, check_sizes
from recombine.estimators._own_trajectories import (
    FrameScale,
    parse_frames,
    parse_outcomes,
    parse_trajectories,
    scale_of,
)
from recombine.estimators._standardizing import Standard
from recombine.estimators._trajectory_learner import (
    follow,
    make_trajectory_learner,
    read_to_the_end,
)
from recombine.methods.skipping import (
    BINARY_CROSS_ENTROPY,
    FrameLoss,
    LearnedReader,
    LearnedReaderShape,
    Schedule,
    Skips,
    SquaredError,
    Trajectories,
    VectorModelShape,
    VideoModelShape,
    as_floats,
    evaluation_depth,
    free_run,
    pad_trajectories,
)
from recombine.training import enable_compilation_cache

SAMPLING_SHARE = 0.5
"""Of the steps, the S of scheduled sampling; the published 20,000 of 37,500 are about as many."""

DECAY_SHARE = 0.4
"""Of the steps, those after which the learning rate falls to a fifth; as published."""


class Forecasting(NamedTuple):
    """What a forecaster has learned."""

    dynamics: Any  # from a frame to a later one
    reader: LearnedReader | None  # tells outcomes, where there are any


class SkipForecaster(Estimator):
    r"""A model of motion that chooses its own time step, and says how a motion ends.

    It predicts, from a frame, some later frame, and nobody tells it which: its prediction is
    compared with the next `horizon` true frames, and whichever fits best is the one it is trained
    on. It may thus skip what cannot be predicted and does not matter, such as how long a ball
    rattles in a bowl, and needs fewer predictions for it (Neitz, thesis, ch. 2). `fixed_step`
    is the usual model beside it, which predicts every k-th frame.

    **Trajectories** are arrays of shape (time, features), or (time, height, width, channels) with
    bytes or numbers from 0 to 1, of two frames or more each; lengths may differ. A frame should say
    all that decides what comes next, velocities among it: the model sees one frame only.

    **Outcomes**, one label for each trajectory, say how it ends. A classifier is trained on
    predicted and true frames to tell the outcome at the end, and that there is none yet before.
    `predict` lets the model run from a first frame alone until the classifier sees an end, for
    `depth_` steps at most, which is what long trajectories took in training.

    **Nobody tells the model where to stop.** `rollout` goes on past the end of what was trained.

    Args:
        horizon: how many frames a prediction may skip at most; not beyond the longest trajectory.
        fixed_step: predicts every k-th frame in the place of skipping; `horizon` is not used then.
        hidden_sizes: units of each hidden layer of the model of vectors.
        kernels: of each layer of the model of images, seven convolutions; at least one for each
            channel. The model starts as a copy of its input, so that what moves is not lost at
            first.
        steps: updates of the model.
        batch_size: trajectories in each of them.
        learning_rate: of Adam; it falls to a fifth after two fifths of the steps, and again. The
            published one for images is 0.0005.
        exploration_share: the share of the steps during which some matches are drawn at random,
            from all of them at first to none. Without it a model can settle for the next frame.
        longest_gradient: gradients longer than so many times the usual are shortened; None: none
            are. Try 4 where a run with images falls to the accuracy of chance and stays there.
        random_state: a whole number for the same result every time, on the same kind of device.
        verbose: whether to show progress.

    Attributes:
        matched_steps_: of each training trajectory, the numbers of the frames (from 0) that the
            predictions of a free run from its first frame are matched with, up to its end.
        depth_: for how many steps `predict` runs the model.
        model_evaluations_: how often the model was needed in training, a call for each trajectory.
        classes_: the outcomes, sorted; None without them.
        frame_shape_: of one frame.
        n_features_in_: the number of features; only for vectors.
        history_: training curves: `step`, `accuracy` of outcomes on up to 64 training trajectories
            (without outcomes `rollout_loss`, of free runs that are matched), `model_evaluations`,
            and from the second entry on, of the last step before, `loss`, `mean_skip` and
            `exploration`.
        mean_: subtracted from each feature; None for images.
        scale_: each feature is divided by it afterwards; None for images.
        is_bytes_: whether frames are images of bytes.
        model_: the model, and the classifier of outcomes or None.

    Example:
        >>> import numpy as np
        >>> from recombine import SkipForecaster
        >>> rng = np.random.default_rng(0)
        >>> def circle(count):  # seen at uneven times
        ...     angles = np.cumsum(rng.uniform(0.1, 0.7, size=count))
        ...     return np.stack([np.cos(angles), np.sin(angles)], axis=1)
        >>> trajectories = [circle(rng.integers(10, 20)) for _ in range(40)]
        >>> model = SkipForecaster(horizon=4, steps=400, random_state=0).fit(trajectories)
        >>> path = model.rollout([1.0, 0.0], max_steps=8)
        >>> np.linalg.norm(path, axis=1).round(1).tolist()
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """

    model_: Forecasting
    matched_steps_: list[Int[np.ndarray, " predictions"]]
    depth_: int
    model_evaluations_: int
    classes_: Shaped[np.ndarray, " classes"] | None
    frame_shape_: tuple[int, ...]
    n_features_in_: int
    mean_: Float[np.ndarray, " features"] | None
    scale_: Float[np.ndarray, " features"] | None
    is_bytes_: bool

    def __init__(
        self,
        horizon: int = 10,
        *,
        fixed_step: int | None = None,
        hidden_sizes: Sequence[int] = (64, 64),
        kernels: int = 16,
        steps: int = 2000,
        batch_size: int = 16,
        learning_rate: float = 2e-3,
        exploration_share: float = 0.2,
        longest_gradient: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ):
        self.horizon = horizon
        self.fixed_step = fixed_step
        self.hidden_sizes = hidden_sizes
        self.kernels = kernels
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.exploration_share = exploration_share
        self.longest_gradient = longest_gradient
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, trajectories: Any, outcomes: Any = None) -> Self:
        """Trains the model and, where outcomes are given, the classifier of them.

        Args:
            trajectories: a list of arrays, each (time, features) or (time, height, width,
                channels).
            outcomes: one label for each trajectory, or None.
        """
        self._forget()
        self._check_parameters()
        arrays = parse_trajectories(trajectories)
        labels = self._take_outcomes(outcomes, len(arrays))
        self._take_scale(scale_of(arrays))
        self._check_kernels()
        self._check_skips(np.array([len(array) for array in arrays]))
        encoded = [self._scale().encode(one, f"trajectory {i}") for i, one in enumerate(arrays)]
        data = pad_trajectories(encoded, labels)
        steps = int(self.steps)
        learner = make_trajectory_learner(
            data,
            model=self._dynamics_shape(),
            learned_reader=self._reader_shape(),
            skips=self._skips(),
            frame_loss=self._frame_loss(),
            longest_gradient=self.longest_gradient,
            batch_size=min(int(self.batch_size), len(arrays)),
            schedule=Schedule(
                learning_rate=float(self.learning_rate),  # pyright: ignore[reportArgumentType]
                decay_every=max(DECAY_SHARE * steps, 1.0),  # pyright: ignore[reportArgumentType]
                exploration_steps=float(self.exploration_share) * steps,  # pyright: ignore[reportArgumentType]
                sampling_steps=max(SAMPLING_SHARE * steps, 1.0),  # pyright: ignore[reportArgumentType]
            ),
        )
        # As one of several vectorized seeds, a finished batch would be computed to its end.
        state = self._train(
            learner,
            steps=steps,
            seed=draw_seed(make_random_state(self.random_state)),
            vectorize=False,
            remedy="Lower `learning_rate`, and look for extreme values in `trajectories`.",
        )
        self.model_evaluations_ = int(state.model_evaluations)
        is_known = np.arange(len(state.counts)) < state.step
        self.depth_ = int(evaluation_depth(jnp.asarray(state.counts), jnp.asarray(is_known)))
        model = Forecasting(state.model, state.reader)
        self.matched_steps_ = self._follow(model, data)
        self.model_ = model
        return self

    def rollout(self, x0: Any, max_steps: int) -> Shaped[np.ndarray, "..."]:
        """Lets the model run freely from a first frame.

        Args:
            x0: one frame, or several along a leading axis.
            max_steps: how many predictions to make. How many frames each skips differs.

        Returns:
            The predicted frames, in the units of the training data: of shape (max_steps, *frame),
            or (frames, max_steps, *frame) for several first frames.
        """
        check_is_fitted(self)
        check_count("max_steps", max_steps)
        first, is_single = self._first_frames(x0)
        enable_compilation_cache()
        parts = [
            np.asarray(_run(self.model_.dynamics, block, int(max_steps))).swapaxes(0, 1)[:count]
            for block, count in item_blocks(first)
        ]
        frames = self._scale().decode(np.concatenate(parts))
        return frames[0] if is_single else frames

    def predict_proba(self, x0: Any) -> Float[np.ndarray, "..."]:
        """Returns the probability of each outcome, in the order of `classes_`.

        Args:
            x0: one frame, or several along a leading axis.
        """
        check_is_fitted(self)
        if self.classes_ is None:
            raise ValueError(
                "`fit` was given no outcomes, so there are none to predict; `rollout` works. Call "
                "`fit(trajectories, outcomes)`."
            )
        first, is_single = self._first_frames(x0)
        enable_compilation_cache()
        parts = [
            np.asarray(_read(self.model_, block, jnp.int32(self.depth_)))[:count]
            for block, count in item_blocks(first)
        ]
        probabilities = np.concatenate(parts).astype(np.float64)
        return probabilities[0] if is_single else probabilities

    def predict(self, x0: Any) -> Any:
        """Returns the likeliest outcome of each first frame; of one frame, a single label.

        Args:
            x0: one frame, or several along a leading axis.
        """
        probabilities = self.predict_proba(x0)
        assert self.classes_ is not None
        return self.classes_[np.argmax(probabilities, axis=-1)]

    def score(self, x0: Any, outcomes: Any) -> float:
        """Returns the share of outcomes that are predicted rightly, from first frames alone."""
        return float(accuracy_score(np.asarray(outcomes), self.predict(x0)))

    def _check_parameters(self) -> None:
        for name in ("horizon", "kernels", "steps", "batch_size"):
            check_count(name, getattr(self, name))
        if self.fixed_step is not None:
            check_count("fixed_step", self.fixed_step)
        check_number("learning_rate", self.learning_rate, above=0.0)
        check_number("exploration_share", self.exploration_share, least=0.0)
        if self.exploration_share > 1:
            raise ValueError(
                f"`exploration_share` is a share of the steps, in [0, 1]; got "
                f"{self.exploration_share!r}"
            )
        if self.longest_gradient is not None:
            check_number("longest_gradient", self.longest_gradient, above=0.0)
        check_sizes("hidden_sizes", self.hidden_sizes, example="(64, 64)")

    def _check_kernels(self) -> None:
        if self._scale().is_image and self.kernels < self.frame_shape_[2]:
            raise ValueError(
                f"`kernels` must be at least the number of channels, for the model starts as a "
                f"copy of its input; got {self.kernels!r} kernels for images of shape "
                f"{self.frame_shape_}. Raise `kernels`."
            )

    def _check_skips(self, lengths: Int[np.ndarray, " items"]) -> None:
        if self.fixed_step is None:
            self._skips().check(lengths)
            return
        too_short = np.flatnonzero(lengths <= int(self.fixed_step))
        if len(too_short):
            number = int(too_short[0])
            raise ValueError(
                f"trajectory {number} has {lengths[number]} frames, so that a `fixed_step` of "
                f"{self.fixed_step} predicts none of them. Use a shorter step, or leave it out."
            )

    def _take_outcomes(self, outcomes: Any, count: int) -> list[int] | None:
        self.classes_ = None
        if outcomes is None:
            return None
        self.classes_, labels = np.unique(parse_outcomes(outcomes, count), return_inverse=True)
        return labels.tolist()

    def _take_scale(self, scale: FrameScale) -> None:
        self.frame_shape_, self.is_bytes_ = scale.shape, scale.is_bytes
        self.mean_, self.scale_ = scale.standard or (None, None)
        vars(self).pop("n_features_in_", None)
        if not scale.is_image:
            self.n_features_in_ = scale.shape[0]

    def _scale(self) -> FrameScale:
        if self.mean_ is None or self.scale_ is None:
            return FrameScale(self.frame_shape_, self.is_bytes_, None)
        return FrameScale(self.frame_shape_, False, Standard(self.mean_, self.scale_))

    def _skips(self) -> Skips:
        if self.fixed_step is not None:
            return Skips(int(self.fixed_step), int(self.fixed_step))
        return Skips(1, int(self.horizon))

    def _frame_loss(self) -> FrameLoss:
        return BINARY_CROSS_ENTROPY if self._scale().is_image else SquaredError()

    def _dynamics_shape(self) -> VectorModelShape | VideoModelShape:
        if self._scale().is_image:
            return VideoModelShape(
                kernels=int(self.kernels), channels=self.frame_shape_[2], start="copy"
            )
        hidden = tuple(int(size) for size in self.hidden_sizes)
        return VectorModelShape(self.frame_shape_[0], hidden)

    def _reader_shape(self) -> LearnedReaderShape | None:
        if self.classes_ is None:
            return None
        return LearnedReaderShape(int(np.prod(self.frame_shape_)), len(self.classes_))

    def _model_template(self) -> Any:
        reader = self._reader_shape()
        make = self._dynamics_shape()
        return Forecasting(
            eqx.filter_eval_shape(make, jr.key(0)),
            None if reader is None else eqx.filter_eval_shape(reader, jr.key(0)),
        )

    def _follow(
        self, model: Forecasting, data: Trajectories
    ) -> list[Int[np.ndarray, " predictions"]]:
        found = []
        for block, count in item_blocks(np.arange(len(data.lengths))):
            batch = data.batch(jnp.asarray(block))
            rollout = follow(model.dynamics, batch, self._skips(), self._frame_loss())
            found += [row[row >= 0] for row in np.asarray(rollout.matched).T[:count]]
        return found

    def _first_frames(self, x0: Any) -> tuple[np.ndarray, bool]:
        """Returns first frames as the model reads them, and whether there is only one."""
        shape = self.frame_shape_
        given = np.asarray(x0)
        is_single = given.shape == shape
        if not is_single and given.shape[1:] != shape:
            raise ValueError(
                f"`x0` must be a frame of shape {shape}, as in training, or several along a "
                f"leading axis; got shape {given.shape}"
            )
        frames = parse_frames(given[None] if is_single else given, "`x0`")
        if not len(frames):
            raise ValueError("`x0` has no frames: nothing would be predicted")
        if not np.isfinite(frames).all():
            number = int(np.argwhere(~np.isfinite(frames))[0][0])
            raise ValueError(f"frame {number} of `x0` has values that are not finite numbers")
        return np.asarray(as_floats(jnp.asarray(self._scale().encode(frames, "`x0`")))), is_single


@eqx.filter_jit
def _run(dynamics: Any, first: Any, steps: int) -> Float[Array, "steps batch ..."]:
    return free_run(dynamics, first, steps)


@eqx.filter_jit
def _read(model: Forecasting, first: Any, depth: Int[Array, ""]) -> Float[Array, "batch classes"]:
    assert model.reader is not None
    return read_to_the_end(model.dynamics, model.reader, first, depth)
