"""Networks without modules on connected and disconnected combinations.

The paper compares hypernetworks there; these rows say what becomes of their lead.
"""

from dataclasses import replace
from typing import Any

from recombine.experiments._row import Paper, Row
from recombine.experiments._rules import Below
from recombine.experiments.hypernetworks._making_hyperteacher_rows import (
    HNETS,
    HYPERTEACHER,
    MONOLITHIC,
    NAMES,
    PUBLISHED,
    ids_of,
    make_row,
)
from recombine.experiments.hypernetworks._orderings import BelowEach

CONNECTED = f"{HYPERTEACHER}/connected"
QUICK: dict[str, Any] = {"max_active": 2}  # as the hypernetworks' quick rows have it
PAPER = Paper(
    "beside Fig. 3, hyperteacher, connected support",
    words="not in the paper, which has only hypernetworks there",
)


def _row(support: str, learner: str) -> Row:
    rivals = ids_of(f"{CONNECTED}/{support}", HNETS)
    return make_row(
        f"{CONNECTED}/{support}/{learner}",
        f"On {support} combinations too, {NAMES[learner]}, which has no modules, adapts worse to "
        f"unseen ones than hypernetworks do.",
        f"{NAMES[learner]}, {support}",
        replace(PUBLISHED[learner], support=support),
        PAPER,
        BelowEach(rivals),
        quick=Below(rivals[0]),
        quick_settings=QUICK,
        higher_is_better=False,
    )


WITHOUT_MODULES = tuple(
    _row(support, learner) for support in ("connected", "disconnected") for learner in MONOLITHIC
)
