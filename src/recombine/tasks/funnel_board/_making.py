"""Makes many balls fall through many boards, as arrays.

Both variants of the game are played on the same boards: a board is kept if the ball lands between
the outer edges in both. Of the boards that the standard game keeps, about 2 % are lost by this.
"""

from typing import Any

import numpy as np

from recombine.tasks.funnel_board._boards import WHOLE, Size, sample_board
from recombine.tasks.funnel_board._physics import STANDARD, ZERO_BOUNCE, simulate
from recombine.tasks.trajectories import Split, first_kept, item_generator

BOUNCINESS = {"standard": STANDARD, "zero-bounce": ZERO_BOUNCE}


def make_falls(
    num_items: int, seed: int, split: Split, size: Size = WHOLE
) -> dict[str, np.ndarray]:
    """Returns falls that ended on a platform in both variants, on the first such board each."""

    def try_items(items: np.ndarray, attempt: int) -> tuple[np.ndarray, Any]:
        boards = [sample_board(item_generator(seed, split, int(i), attempt), size) for i in items]
        played = {name: simulate(boards, bounce, size) for name, bounce in BOUNCINESS.items()}
        landed = np.all([falls.landed for falls in played.values()], axis=0)
        return landed, (boards, played)

    def take(outcomes: Any, place: int) -> dict[str, Any]:
        boards, played = outcomes
        named = {f"board_{name}": value for name, value in boards[place]._asdict().items()}
        for variant, falls in played.items():
            length = falls.lengths[place]
            named[f"{variant}_positions"] = falls.positions[place, :length]
            named[f"{variant}_velocities"] = falls.velocities[place, :length]
            named[f"{variant}_lengths"] = length
            named[f"{variant}_labels"] = falls.columns[place]
        return named

    kept, attempts = first_kept(num_items, try_items, take)
    stacked = {name: _stack([np.asarray(item[name]) for item in kept]) for name in kept[0]}
    return {**stacked, "attempts": attempts}


def _stack(arrays: list[np.ndarray]) -> np.ndarray:
    """Stacks arrays whose first axis may differ; the last entry fills the rest."""
    if arrays[0].ndim == 0:
        return np.stack(arrays)
    longest = max(len(array) for array in arrays)
    return np.stack([
        np.concatenate([array, np.repeat(array[-1:], longest - len(array), axis=0)])
        for array in arrays
    ])  # fmt: skip
