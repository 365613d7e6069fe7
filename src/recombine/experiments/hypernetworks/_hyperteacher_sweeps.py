"""The hyperteacher with other numbers: of combinations held out, of modules, of examples.

The quick variants have the small teacher of the other quick rows, with the row's number of modules
and share of combinations, and a sixteenth of its examples: 16 stand for the published 256.
"""

from dataclasses import replace
from typing import Any

from recombine.experiments._row import Chart, Group, Paper, Row
from recombine.experiments._rules import Above, AllOf, AtLeast, Below, Rule
from recombine.experiments.hypernetworks._config import HyperteacherConfig
from recombine.experiments.hypernetworks._making_hyperteacher_rows import (
    CHARTED,
    COMPOSITIONAL,
    FLOOR,
    HNETS,
    HYPERTEACHER,
    NAMES,
    PUBLISHED,
    QUICK,
    make_row,
    note_of_quick,
)
from recombine.experiments.hypernetworks._orderings import BelowEach

HELD_OUT = f"{HYPERTEACHER}/heldout"
SCALING = f"{HYPERTEACHER}/scaling"
SHOTS = f"{HYPERTEACHER}/shots"
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
FEW_SHARES = (0.5, 0.9)
NUMBERS_OF_SHOTS = (16, 32, 64, 128)
QUICK_FLOOR = 0.5  # about what a network that does not adapt gets right of four classes
QUICK_SHARE_OF_SHOTS = QUICK["num_support"] / PUBLISHED["linear-hnet"].num_support


def _for_modules(learner: str, num_modules: int) -> HyperteacherConfig:
    return replace(PUBLISHED[learner], num_modules=num_modules, num_templates=4 * num_modules)


def _quick_for_modules(num_modules: int) -> dict[str, Any]:
    """Returns the arguments of a row whose quick variant has the row's number of modules."""
    return {
        "quick_settings": {"num_modules": num_modules, "num_templates": 4 * num_modules},
        "quick_note": note_of_quick(f"up to {QUICK['max_active']} of {num_modules} modules"),
    }


def _share_id(num_modules: int, share: float, learner: str) -> str:
    return f"{HELD_OUT}/M{num_modules}/frac{round(100 * share)}/{learner}"


def _held_out(num_modules: int, share: float, learner: str, shares: tuple[float, ...]) -> Row:
    place = shares.index(share)
    if learner in HNETS and place:
        fewer = _share_id(num_modules, shares[place - 1], learner)
        # Non-increasing, within noise.
        rule: Rule = BelowEach((fewer,), margin=-0.02)
        quick = rule
        claim = "With more combinations held out, those do not become easier"
    elif learner in HNETS:
        rule = AtLeast(FLOOR)
        quick = AtLeast(QUICK_FLOOR)
        claim = "With most combinations trained, the others are learned"
    else:
        rule = quick = Below(_share_id(num_modules, share, "linear-hnet"))
        claim = "With as many combinations held out, a network without modules is worse"
    return make_row(
        _share_id(num_modules, share, learner),
        f"{claim}.",
        f"{NAMES[learner]}, {num_modules} modules, {share:.0%} held out",
        replace(_for_modules(learner, num_modules), held_out=share),
        Paper(
            "appendix, held-out fraction",
            words="hypernetworks degrade only when few combinations remain",
        ),
        rule,
        quick=quick,
        **_quick_for_modules(num_modules),
        higher_is_better=learner in HNETS,
    )


HELD_OUT_SHARES = Group(
    id=HELD_OUT,
    title="Hyperteacher: how many combinations are held out",
    source="Schug et al. (2024), appendix",
    rows=(
        *(_held_out(8, share, "linear-hnet", SHARES) for share in SHARES),
        *(_held_out(8, share, "anil", SHARES) for share in SHARES),
        *(_held_out(m, share, "linear-hnet", FEW_SHARES) for m in (4, 16) for share in FEW_SHARES),
    ),
    charts=(Chart("unseen combinations against what is held out", CHARTED),),
)


def _scaling(num_modules: int, learner: str) -> Row:
    eight = f"{COMPOSITIONAL}/{learner}"
    rules: list[Rule] = [Above(eight) if num_modules < 8 else Below(eight)]
    if learner in HNETS:
        rules.append(Above(f"{SCALING}/M{num_modules}-K2/anil"))
    rule = AllOf(tuple(rules))
    return make_row(
        f"{SCALING}/M{num_modules}-K2/{learner}",
        f"With {'fewer' if num_modules < 8 else 'more'} modules and as many steps, unseen "
        f"combinations are {'easier' if num_modules < 8 else 'harder'}.",
        f"{NAMES[learner]}, {num_modules} modules",
        _for_modules(learner, num_modules),
        Paper(
            "appendix, number of modules",
            words="at equal steps, accuracy falls with the number of modules",
        ),
        rule,
        quick=rule,
        **_quick_for_modules(num_modules),
        higher_is_better=num_modules < 8,
    )


NUMBERS_OF_MODULES = Group(
    id=SCALING,
    title="Hyperteacher: how many modules there are",
    source="Schug et al. (2024), appendix",
    rows=tuple(_scaling(m, learner) for m in (4, 12, 16) for learner in ("linear-hnet", "anil")),
    charts=(Chart("unseen combinations against the number of modules", CHARTED),),
)


def _shots(count: int, learner: str) -> Row:
    more = NUMBERS_OF_SHOTS[NUMBERS_OF_SHOTS.index(count) + 1 :]
    above = f"{SHOTS}/{more[0]}/{learner}" if more else f"{COMPOSITIONAL}/{learner}"
    rule = BelowEach((above,), margin=-0.02)
    few = round(QUICK_SHARE_OF_SHOTS * count)
    return make_row(
        f"{SHOTS}/{count}/{learner}",
        "With fewer examples to adapt to, unseen combinations are harder.",
        f"{NAMES[learner]}, {count} examples",
        replace(PUBLISHED[learner], num_support=count),
        Paper("appendix, support size", words="accuracy rises with the number of examples"),
        rule,
        quick=rule,
        quick_settings={"num_support": few},
        quick_note=note_of_quick(examples=f"{few} {'example' if few == 1 else 'examples'}"),
        higher_is_better=False,
    )


NUMBERS_OF_EXAMPLES = Group(
    id=SHOTS,
    title="Hyperteacher: how many examples of a task are seen",
    source="Schug et al. (2024), appendix",
    rows=tuple(_shots(count, learner) for count in NUMBERS_OF_SHOTS for learner in HNETS),
    charts=(Chart("unseen combinations against the number of examples", CHARTED),),
)
