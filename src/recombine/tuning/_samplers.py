"""From our ranges and names to Optuna's distributions, samplers and pruners."""

import itertools
import json
import random
import warnings
from typing import Any

import numpy as np

from recombine.experiments import Choice, LogUniform, Range, Uniform, Whole
from recombine.tuning._request import StudyRequest

PLAIN = (type(None), bool, int, float, str)
"""What Optuna can keep as a choice; anything else is kept as JSON."""


def distributions(request: StudyRequest) -> dict[str, Any]:
    """Returns the space as Optuna knows it."""
    return {name: _distribution(range_) for name, range_ in request.space.items()}


def settings_of_trial(request: StudyRequest, params: dict[str, Any]) -> dict[str, Any]:
    """Returns a trial's settings as our config knows them."""
    return {name: _from_choice(request.space[name], params[name]) for name in request.space}


def make_sampler(request: StudyRequest, position: int) -> Any:
    """Returns the sampler for the trial that is the `position`-th of its study.

    Its seed depends on the position, so that processes that join a study draw different settings,
    and a search that is resumed draws what it would have drawn.
    """
    from optuna.samplers import RandomSampler, TPESampler

    seed = int(np.random.SeedSequence([request.sampler_seed, position]).generate_state(1)[0])
    if request.sampler != "tpe":  # a grid's points are put into the queue
        return RandomSampler(seed=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Optuna 4 calls `constant_liar` experimental
        # A batch is asked before its first trial has a value: trials that run count as bad ones.
        return TPESampler(seed=seed, constant_liar=True)


def make_pruner(request: StudyRequest) -> Any:
    """Returns the pruner; nobody is stopped in the first quarter of the steps."""
    from optuna.pruners import MedianPruner, NopPruner, SuccessiveHalvingPruner

    variant = request.variant
    first = max(variant.eval_every, variant.steps // 4)
    if request.pruner == "median":
        return MedianPruner(n_startup_trials=4, n_warmup_steps=first - 1)
    if request.pruner == "halving":
        return SuccessiveHalvingPruner(min_resource=first, reduction_factor=4)
    return NopPruner()


def grid_point(request: StudyRequest, position: int) -> dict[str, Any]:
    """Returns the `position`-th point of the grid, in an order shuffled by the sampler's seed."""
    names = list(request.space)
    columns = [
        [_to_choice(range_, value) for value in range_.grid() or ()]
        for range_ in request.space.values()
    ]
    points = list(itertools.product(*columns))
    random.Random(request.sampler_seed).shuffle(points)
    return dict(zip(names, points[position], strict=True))


def _distribution(range_: Range) -> Any:
    from optuna.distributions import (
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    match range_:
        case Uniform():
            return FloatDistribution(range_.low, range_.high)
        case LogUniform():
            return FloatDistribution(range_.low, range_.high, log=True)
        case Whole():
            return IntDistribution(range_.low, range_.high, log=range_.log, step=range_.step)
        case Choice():
            return CategoricalDistribution([_to_choice(range_, v) for v in range_.values])


def _to_choice(range_: Range, value: Any) -> Any:
    is_plain = not isinstance(range_, Choice) or isinstance(value, PLAIN)
    return value if is_plain else json.dumps(value)


def _from_choice(range_: Range, kept: Any) -> Any:
    if not isinstance(range_, Choice):
        return kept
    return next(value for value in range_.values if _to_choice(range_, value) == kept)
