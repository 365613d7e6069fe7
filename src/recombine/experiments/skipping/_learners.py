"""Where the two worlds meet the model that skips."""

import functools
from typing import Any

import jax.numpy as jnp

from recombine.experiments.skipping._config import SkipConfig
from recombine.experiments.skipping._greedy_first_learner import GreedyFirstLearner
from recombine.experiments.skipping._switch_learner import SwitchLearner
from recombine.methods.skipping import (
    BINARY_CROSS_ENTROPY,
    Phase,
    Schedule,
    SkipLearner,
    Skips,
    SquaredError,
    Trajectories,
    VectorModelShape,
    VideoModelShape,
    as_trajectories,
)
from recombine.tasks import funnel_board, room_runner

PHASES = {
    "room-runner": ("only",),
    "funnel-board": ("standard",),
    "funnel-board-switch": ("zero-bounce", "standard"),
}


def make_skip_learner(
    config: SkipConfig, steps: int
) -> SkipLearner | SwitchLearner | GreedyFirstLearner:
    """Returns the learner of one row."""
    names = PHASES[config.task]
    phases = tuple(_phase(config, name) for name in names)
    scale = steps / config.schedule_steps
    learner = SkipLearner(
        phases=phases,
        reader=_reader(config),
        schedule=Schedule(
            learning_rate=jnp.float32(config.learning_rate),
            decay_every=jnp.float32(scale * config.decay_every),
            exploration_steps=jnp.float32(scale * config.exploration_steps),
            sampling_steps=jnp.float32(scale * config.sampling_steps),
            warm_up_steps=jnp.float32(config.warm_up_steps),
        ),
        temperature=jnp.float32(config.temperature),
        step_cost=jnp.float32(config.step_cost),
        switch_steps=(round(config.switch_share * steps),) if len(names) > 1 else (),
        longest_gradient=config.longest_gradient,  # pyright: ignore[reportArgumentType]
        model=_model(config),
        skips=Skips(config.shortest_skip, config.longest_skip),
        frame_loss=BINARY_CROSS_ENTROPY if config.frames == "images" else SquaredError(),
        matching=config.matching,
        aligned_steps=config.aligned_steps,
        batch_size=config.batch_size,
        rematerialize=config.rematerialize,
        chunk=config.chunk if config.frames == "images" else 1,
        lanes=config.lanes,
        num_watched=config.num_watched,
        num_inspected=1,
        # Convolutions of several models at once are grouped ones, which are slow.
        vectorize_seeds=config.vectorize_seeds and config.frames != "images",
    )
    if config.matching != "greedy":
        return GreedyFirstLearner(learner, round(config.greedy_share * steps))
    return SwitchLearner(learner) if len(names) > 1 else learner


def sample_trajectory(config: SkipConfig) -> dict[str, Any]:
    """Returns the first validation trajectory as images, whatever a model would see of it."""
    variant = PHASES[config.task][-1]
    if config.task.startswith("room"):
        drawn = room_runner.render(
            room_runner.load_runs(
                1, seed=config.data_seed, split="validation", cells=config.cells, keep=False
            )
        )
    else:
        falls = funnel_board.load_falls(
            1,
            seed=config.data_seed,
            split="validation",
            variant="zero-bounce" if variant == "zero-bounce" else "standard",
            size=_board_size(config),
            keep=False,
        )
        drawn = funnel_board.render(falls)
    return {"frames": drawn.frames, "lengths": drawn.lengths, "labels": drawn.labels}


def _phase(config: SkipConfig, name: str) -> Phase:
    size = config.cells if config.task.startswith("room") else _board_size(config)
    kind = (size, config.frames, name, config.data_seed)
    return Phase(
        train=_trajectories(*kind, "train", config.num_train, _padded_time(config, name)),
        validation=_trajectories(*kind, "validation", config.num_validation, None),
        name=name,
    )


def _padded_time(config: SkipConfig, name: str) -> int | None:
    """All phases are padded to the longest trajectory of any; None where that is one's own."""
    names = PHASES[config.task]
    if len(names) == 1:
        return None
    kind = (_board_size(config), config.data_seed, "train", config.num_train)
    every = {one: _falls(one, *kind) for one in names}
    longest = {one: int(falls.lengths.max()) for one, falls in every.items()}
    most = max(longest.values())
    return None if longest[name] == most else most


@functools.cache  # drawn once for all rows of a process: 500 falls are 2 GB
def _trajectories(
    size: int | funnel_board.Size,
    frames: str,
    variant: str,
    seed: int,
    split: Any,
    num_items: int,
    time: int | None,
) -> Trajectories:
    is_rooms = isinstance(size, int)
    task: Any = room_runner if is_rooms else funnel_board
    if is_rooms:
        happened: Any = room_runner.load_runs(num_items, seed=seed, split=split, cells=size)
    else:
        happened = _falls(variant, size, seed, split, num_items)
    draw = task.render if frames == "images" else task.state_vectors
    return as_trajectories(draw(happened, time=time))


def _falls(
    variant: Any, size: funnel_board.Size, seed: int, split: Any, num_items: int
) -> funnel_board.BallFalls:
    return funnel_board.load_falls(num_items, seed=seed, split=split, variant=variant, size=size)


def _board_size(config: SkipConfig) -> funnel_board.Size:
    return funnel_board.Size(config.board_rows, config.board_columns)


def _reader(config: SkipConfig) -> Any:
    is_rooms, is_images = config.task.startswith("room"), config.frames == "images"
    if is_rooms:
        return room_runner.RoomReader() if is_images else room_runner.RoomStateReader()
    platforms = config.board_columns
    if is_images:
        return funnel_board.PlatformReader(platforms)
    return funnel_board.PlatformStateReader(platforms)


def _model(config: SkipConfig) -> VideoModelShape | VectorModelShape:
    if config.frames == "images":
        return VideoModelShape(
            config.architecture, config.kernels, config.precision, start=config.start
        )
    if config.task.startswith("room"):
        task, view = room_runner, room_runner.room_view
    else:
        task, view = funnel_board, funnel_board.board_view
    return VectorModelShape(task.STATE_SIZE, config.hidden, view, task.VIEW_SIZE)
