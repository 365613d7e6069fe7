"""The rows of the theory: which supports let a student find its teacher's modules.

The paper prints figures, so the rules are its orderings. A support is good or bad as the authors
label it; `recombine.tasks.hyperteacher.is_identifying` predicts the same from the masks alone.
"""

from recombine.experiments._row import Chart, Group, Paper, Row
from recombine.experiments._rules import AllOf, Rule
from recombine.experiments.hypernetworks._config import TheoryConfig
from recombine.experiments.hypernetworks._making_theory_rows import (
    PANELS,
    THEORY,
    UNSEEN_LOSS,
    make_theory_row,
)
from recombine.experiments.hypernetworks._orderings import AboveEach, BelowEach

GOOD_CONTINUOUS = ("pairs-ring", "triples-ring3", "triples-ring6", "all6")
BAD_CONTINUOUS = ("onehot", "pairs-split", "triples-split", "triples+pairs-split")
GOOD_DISCRETE = (
    "onehot+pairs-ring",
    "onehot+triples-ring3",
    "onehot+triples-ring6",
    "onehot+all6",
)
BAD_DISCRETE = (
    *("onehot", "triples-split", "onehot+pairs-split"),  # disconnected
    *("pairs-ring", "triples-slide6", "all6"),  # connected, but not spanning
)
NOT_SPANNING = ("pairs-ring", "triples-slide6", "all6")
PARTNERS = {
    "continuous": {
        "pairs-ring": "pairs-split",
        "triples-ring3": "triples-split",
        "triples-ring6": "triples+pairs-split",
        "all6": "onehot",
    },
    "discrete": {
        "onehot+pairs-ring": "pairs-ring",
        "onehot+triples-ring3": "triples-split",
        "onehot+triples-ring6": "triples-slide6",
        "onehot+all6": "all6",
    },
}
"""A bad support for every good one, made of groups of the same kind: what quick runs compare."""


def _paths(latents: str, supports: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{THEORY}/{latents}/{support}" for support in supports)


def _order(latents: str, rivals: tuple[str, ...], *, good: bool) -> Rule:
    """What is claimed of a support beside others: of full rows beside all, of quick ones one."""
    rows, unseen = _paths(latents, rivals), UNSEEN_LOSS.name
    if good:
        loss = BelowEach(rows, metric=unseen, factor=0.5)
        return AllOf((AboveEach(rows, beyond_errors=True), loss))
    return AllOf((BelowEach(rows, beyond_errors=True), AboveEach(rows, metric=unseen)))


def _good(latents: str, support: str, bad: tuple[str, ...]) -> Row:
    spans = "spans all modules and is connected" if latents == "discrete" else "is connected"
    return make_theory_row(
        f"{THEORY}/{latents}/{support}",
        f"A support that {spans} lets the student find the teacher's modules and compute "
        f"combinations that it never saw.",
        f"{support}, {latents}: good",
        TheoryConfig(support=support, latents=latents),  # pyright: ignore[reportArgumentType]
        Paper(
            "Fig. 2, the authors' label: good",
            words="modules are identified, and the loss on all combinations is low",
        ),
        _order(latents, bad, good=True),
        _order(latents, (PARTNERS[latents][support],), good=True),
    )


def _bad(latents: str, support: str, good: tuple[str, ...]) -> Row:
    spans = latents == "continuous" or support not in NOT_SPANNING
    best = next(iter(PARTNERS[latents]))
    partners = tuple(g for g, b in PARTNERS[latents].items() if b == support) or (best,)
    reason = "whose groups of modules never meet" if spans else "that does not span all modules"
    return make_theory_row(
        f"{THEORY}/{latents}/{support}",
        f"A support {reason} is fitted without the modules being found, and unseen combinations "
        f"fail.",
        f"{support}, {latents}: bad",
        TheoryConfig(support=support, latents=latents),  # pyright: ignore[reportArgumentType]
        Paper(
            "Fig. 2, the authors' label: bad",
            words="modules are not identified, though the training loss is low",
        ),
        _order(latents, good, good=False),
        _order(latents, partners, good=False),
        higher_is_better=False,
    )


CONTINUOUS = Group(
    id=f"{THEORY}/continuous",
    title="Modules from demonstrations: continuous combinations",
    source="Schug et al. (2024), multi-task teacher-student, Fig. 2",
    rows=(
        *(_good("continuous", support, BAD_CONTINUOUS) for support in GOOD_CONTINUOUS),
        *(_bad("continuous", support, GOOD_CONTINUOUS) for support in BAD_CONTINUOUS),
    ),
    charts=(Chart("alignment and loss against the support", PANELS),),
)
DISCRETE = Group(
    id=f"{THEORY}/discrete",
    title="Modules from demonstrations: discrete combinations",
    source="Schug et al. (2024), multi-task teacher-student, Fig. 2",
    rows=(
        *(_good("discrete", support, BAD_DISCRETE) for support in GOOD_DISCRETE),
        *(_bad("discrete", support, GOOD_DISCRETE) for support in BAD_DISCRETE),
    ),
    charts=(Chart("alignment and loss against the support", PANELS),),
)
