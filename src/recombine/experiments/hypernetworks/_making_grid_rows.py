"""What the rows of both grid worlds have in common: learners, lengths, and a variant for tests."""

from dataclasses import replace
from typing import Any

from recombine.experiments._row import Metric, Variant
from recombine.experiments._rules import AtLeast
from recombine.experiments.hypernetworks._grid_config import GridConfig
from recombine.experiments.hypernetworks._making_hyperteacher_rows import TINY_NOTE

EVERY, SEEDS = 1_000, 3

TINY: dict[str, Any] = {
    "width": 4,
    "num_hidden": 2,
    "num_templates": 3,
    "num_tasks": 2,
    "num_measured": 4,
    "chunk_size": 4,
    "num_played": 2,
}

OOD_RETURN = Metric("ood_return", "share of the expert's return, unseen combinations")


def make_tiny(config: GridConfig, changes: dict[str, Any]) -> Variant:
    """Returns a variant for tests."""
    few = {**changes, "inner_steps": min(config.inner_steps, 2)}
    if config.batch_size is not None:
        few["batch_size"] = 4
    if "connected" in str(getattr(config, "support", "")):  # six modules hold something out
        few["num_modules"] = 6
    return Variant(replace(config, **few), 2, 2, 1, AtLeast(0.0), TINY_NOTE)
