"""Seeds that were trained apart, put together as if they had been trained in one process."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from recombine.training._checkpoints import Checkpoints
from recombine.training._history import History


def join_checkpoints(parts: Sequence[str | Path], whole: str | Path, *, step: int) -> Path:
    """Joins the states after `step` of the same run with different seeds; returns where they are.

    The result is what `fit` would have saved had it trained all seeds itself. Neither learner nor
    device is needed: states have a leading axis of seeds, and are joined along it.

    Args:
        parts: folders of checkpoints; their seeds, in this order, are those of the whole.
        whole: the folder of checkpoints to write to.
        step: which checkpoint of every part to take.

    Raises:
        CheckpointError: one of them cannot be read or written.
    """
    read = [Checkpoints(part).read_leaves(step) for part in parts]
    leaves = [np.concatenate(column) for column in zip(*(one for one, _ in read), strict=True)]
    notes = [one for _, one in read]
    history = join_histories([History.from_json(one["history"]) for one in notes])
    seconds = {
        name: sum(one["seconds"][name] for one in notes) for name in notes[0]["seconds"]
    }  # the work of all parts, as if one had done it
    return Checkpoints(whole).save_leaves(
        step, leaves, {"history": history.to_json(), "seconds": seconds}
    )


def join_histories(parts: Sequence[History]) -> History:
    """Joins what was measured of different seeds at the same steps.

    Example:
        >>> import numpy as np
        >>> one, other = History((0,)), History((1,))
        >>> one.append(5, {"loss": np.array([0.5])})
        >>> other.append(5, {"loss": np.array([0.25])})
        >>> join_histories([one, other]).metrics
        {'loss': [array([0.5 , 0.25])]}
    """
    first = parts[0]
    if any(part.steps != first.steps for part in parts):
        raise ValueError(
            f"histories are joined that were measured at the same steps; got "
            f"{[len(part.steps) for part in parts]} evaluations"
        )

    def joined(columns: Sequence[Any]) -> np.ndarray:
        return np.concatenate(columns)

    return History(
        seeds=tuple(seed for part in parts for seed in part.seeds),
        steps=list(first.steps),
        metrics={
            name: [joined(row) for row in zip(*(p.metrics[name] for p in parts), strict=True)]
            for name in first.metrics
        },
        final={name: joined([part.final[name] for part in parts]) for name in first.final},
    )
