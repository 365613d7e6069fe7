"""The rows of the hyperteacher: four learners, and which combinations they were trained on.

The paper prints figures, so the rules are its orderings. Modules are not those of single layers:
as in the authors' code every module has a part in all generated layers.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from recombine.experiments._row import Chart, Group, Metric, Panel, Paper, Row, Sample, Variant
from recombine.experiments._rules import Above, AllOf, AtLeast, Below, Rule
from recombine.experiments._search import LogUniform, Search
from recombine.experiments.hypernetworks._config import HyperteacherConfig
from recombine.experiments.hypernetworks._orderings import AboveEach, BelowEach, Lead
from recombine.experiments.hypernetworks._pictures import DECODED, TRAINED_TOGETHER

HYPERTEACHER = "modular/hyperteacher"
COMPOSITIONAL = f"{HYPERTEACHER}/compositional"
NONCOMPOSITIONAL = f"{HYPERTEACHER}/noncompositional"
CONNECTED = f"{HYPERTEACHER}/connected"
HNETS, MONOLITHIC = ("linear-hnet", "deep-hnet"), ("anil", "maml")
NAMES = {
    "linear-hnet": "linear hypernetwork",
    "deep-hnet": "nonlinear hypernetwork",
    "anil": "ANIL",
    "maml": "MAML",
}
PUBLISHED = {
    "linear-hnet": HyperteacherConfig(),
    "deep-hnet": HyperteacherConfig(learner="deep-hnet", adapts_bias=False, outer_rate=3e-3),
    "anil": HyperteacherConfig(
        learner="anil",
        width=512,
        inner_steps=100,
        inner_rate=0.03,
        batch_size=64,
        weight_decay=1e-4,
        clip_norm=2.0,
    ),
    "maml": HyperteacherConfig(
        learner="maml", width=384, inner_rate=0.01, weight_decay=1e-4, clip_norm=2.0
    ),
}
"""As `recombine.methods.hypernetworks.PUBLISHED` has them, for eight modules."""

PUBLISHED_STEPS = 200_000
STEPS, EVERY, SEEDS = 4_000, 500, 3
NOTE = "4,000 meta-steps in place of 200,000"

# One generated layer, sixteen examples to adapt to: too few for networks without modules.
QUICK: dict[str, Any] = {
    "num_modules": 6,
    "max_active": 3,
    "teacher_hidden": 1,
    "teacher_width": 16,
    "num_outputs": 4,
    "num_support": 16,
    "num_query": 64,
    "num_hidden": 1,
    "width": 32,
    "num_templates": 24,
    "outer_rate": 1e-2,
    "weight_decay": 1e-4,
    "clip_norm": 2.0,
    "num_tasks": 16,
    "num_measured": 256,
    "chunk_size": 64,
}
QUICK_OF: dict[str, dict[str, Any]] = {
    "linear-hnet": QUICK,
    "deep-hnet": {**QUICK, "outer_rate": 3e-3},
    "anil": {
        **QUICK,
        "width": 64,
        "num_hidden": 2,
        "inner_steps": 20,
        "batch_size": None,
        "outer_rate": 2e-3,
    },
    "maml": {**QUICK, "width": 64, "outer_rate": 2e-3},
}
QUICK_STEPS = 2_000
QUICK_NOTE = (
    "a teacher with one hidden layer, 16 units, six modules and four classes, 16 examples to adapt "
    "to, 16 tasks in a step, small networks, one seed"
)
TINY: dict[str, Any] = {
    "num_modules": 4,
    "max_active": 2,
    "teacher_hidden": 3,
    "teacher_width": 3,
    "num_inputs": 3,
    "num_outputs": 3,
    "num_support": 4,
    "num_query": 5,
    "num_hidden": 2,
    "width": 4,
    "num_templates": 3,
    "encoder_width": 4,
    "num_tasks": 2,
    "num_measured": 8,
    "chunk_size": 8,
}
TINY_NOTE = "for tests: too small to show anything"

OOD = Metric("ood_accuracy", "accuracy, unseen combinations")
TEST = Metric("test_accuracy", "accuracy, trained combinations")
OOD_LOSS = Metric(
    "ood_loss", "divergence, unseen combinations", higher_is_better=False, percent=False
)
R_SQUARED = Metric("decoded_mean", "R² of the decoded modules, unseen", percent=False)
VALIDATION = Metric("valid_accuracy", "validation accuracy")
SEARCH = Search(
    {
        "inner_rate": LogUniform(1e-2, 1.0, points=5),
        "outer_rate": LogUniform(3e-4, 3e-2, points=5),
        "weight_decay": LogUniform(1e-4, 1e-2, points=3),
    },
    metric=VALIDATION,
    note="around the published settings of the four learners; the paper prints no search of them. "
    "Chosen by tasks of trained combinations, never by unseen ones",
)
CHARTED = (Panel(OOD, floor="test_accuracy"), Panel(R_SQUARED, low=-1.0))


def _make_learner(config: HyperteacherConfig, steps: int) -> Any:
    from recombine.experiments.hypernetworks._hyperteacher_learner import make_hyperteacher_learner

    return make_hyperteacher_learner(config, steps)


def _sample(config: HyperteacherConfig) -> Mapping[str, np.ndarray]:
    from recombine.experiments.hypernetworks._hyperteacher_learner import sample_hyperteacher

    return sample_hyperteacher(config)


def _row(
    row_id: str,
    claim: str,
    method: str,
    config: HyperteacherConfig,
    paper: Paper,
    rule: Rule,
    *,
    quick: Rule | None = None,
    quick_settings: dict[str, Any] | None = None,
    note: str = NOTE,
    higher_is_better: bool = True,
) -> Row:
    small = {**QUICK_OF[config.learner], **(quick_settings or {})}
    tiny = {**TINY, "inner_steps": min(config.inner_steps, 2)}
    if config.batch_size is not None:
        tiny["batch_size"] = 2
    if "connected" in config.support:  # which needs six modules to hold something out
        tiny["num_modules"] = 6
    return Row(
        id=row_id,
        claim=claim,
        method=method,
        make_learner=_make_learner,
        metric=replace(OOD, higher_is_better=higher_is_better),
        also=(TEST, OOD_LOSS),
        paper=paper,
        full=Variant(config, STEPS, EVERY, SEEDS, rule, note),
        quick=None
        if quick is None
        else Variant(replace(config, **small), QUICK_STEPS, 500, 1, quick, QUICK_NOTE),
        tiny=Variant(replace(config, **tiny), 2, 2, 1, AtLeast(0.0), TINY_NOTE),
        pictures=(TRAINED_TOGETHER, DECODED),
        search=SEARCH,
        # A random support is another one for every seed.
        sample=None if config.support == "random" else Sample(_sample, (TRAINED_TOGETHER,)),
    )


def _of(group: str, learners: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"{group}/{learner}" for learner in learners)


# --- compositional and not ---------------------------------------------------------------------


def _compositional(learner: str) -> Row:
    is_modular = learner in HNETS
    if is_modular:
        rivals = _of(COMPOSITIONAL, MONOLITHIC)
        claim = (
            f"A {NAMES[learner]} that was trained on three quarters of all combinations adapts to "
            f"the others better than networks without modules, and its modules can be read off."
        )
        rule: Rule = AllOf(
            (AboveEach(rivals, beyond_errors=True), AboveEach(rivals, metric=R_SQUARED.name))
        )
        quick: Rule = Above(f"{COMPOSITIONAL}/maml", 0.05)  # the other row of the demo
        words = "far above ANIL and MAML; the latent can be decoded linearly"
    else:
        rivals = _of(COMPOSITIONAL, HNETS)
        claim = (
            f"{NAMES[learner]}, which has no modules, adapts worse to unseen combinations than "
            f"hypernetworks do, and the modules cannot be read off."
        )
        rule = AllOf(
            (BelowEach(rivals, beyond_errors=True), BelowEach(rivals, metric=R_SQUARED.name))
        )
        quick = Below(f"{COMPOSITIONAL}/linear-hnet", 0.05)
        words = "far below both hypernetworks; the latent cannot be decoded linearly"
    return _row(
        f"{COMPOSITIONAL}/{learner}",
        claim,
        f"{NAMES[learner]}, compositional",
        PUBLISHED[learner],
        Paper("Fig. 3, hyperteacher, compositional support", words=words),
        rule,
        quick=quick,
        higher_is_better=is_modular,
    )


def _noncompositional(learner: str) -> Row:
    there = f"{COMPOSITIONAL}/{learner}"
    rules: list[Rule] = []
    claim = (
        f"Where one module never occurs in training, {NAMES[learner]} fails on the tasks that "
        f"have it"
    )
    if learner in HNETS:
        rivals = (_of(NONCOMPOSITIONAL, MONOLITHIC), _of(COMPOSITIONAL, MONOLITHIC))
        rules.append(Lead(rivals[0], there, rivals[1], larger=False))
        claim += " and loses its lead"
    return _row(
        f"{NONCOMPOSITIONAL}/{learner}",
        f"{claim}.",
        f"{NAMES[learner]}, non-compositional",
        replace(PUBLISHED[learner], support="non-compositional"),
        Paper(
            "Fig. 3, hyperteacher, non-compositional support",
            words="all learners are poor; hypernetworks lose most of their advantage",
        ),
        AllOf((BelowEach((there,), beyond_errors=True), *rules)),
        quick=AllOf((Below(there, 0.05), *rules)),
        higher_is_better=False,
    )


COMPOSITION = Group(
    id=COMPOSITIONAL,
    title="Hyperteacher: all modules occur in training",
    source="Schug et al. (2024), hyperteacher, Fig. 3",
    rows=tuple(_compositional(learner) for learner in (*HNETS, *MONOLITHIC)),
    charts=(Chart("unseen combinations, and decodability, against the learner", CHARTED),),
)
NO_COMPOSITION = Group(
    id=NONCOMPOSITIONAL,
    title="Hyperteacher: a module that never occurs in training",
    source="Schug et al. (2024), hyperteacher, Fig. 3",
    rows=tuple(_noncompositional(learner) for learner in (*HNETS, *MONOLITHIC)),
    charts=(Chart("unseen combinations, and decodability, against the learner", CHARTED),),
)

# --- connected and not -------------------------------------------------------------------------

CONFOUND = (
    "as published: the disconnected support has 104 tasks and not 576, its layers always have "
    "equally many active modules, and its codes span 14 of 16 dimensions"
)
CLEAN = (
    "not in the paper: 200 tasks and full rank on both sides, so that only the connection differs"
)
CONNECTED_QUICK: dict[str, Any] = {"max_active": 2}
CONNECTED_QUICK_NOTE = "with one generated layer the supports do not differ in rank"


def _connected(support: str, learner: str) -> Row:
    is_connected, is_published = not support.startswith("dis"), "-" not in support
    pairs = {
        "connected": "disconnected",
        "disconnected": "connected",
        "connected-matched": "disconnected-clean",
        "disconnected-clean": "connected-matched",
    }
    rival = (f"{CONNECTED}/{pairs[support]}/{learner}",)
    order = AboveEach if is_connected else BelowEach
    claim = (
        "Combinations that link all modules let unseen ones work better than combinations that "
        "fall apart into two halves"
        if is_connected
        else "Combinations that fall apart into two halves are learned, but the halves do not "
        "combine"
    )
    return _row(
        f"{CONNECTED}/{support}/{learner}",
        f"{claim}{'' if is_published else ', with equally many tasks of full rank'}.",
        f"{NAMES[learner]}, {support}",
        replace(PUBLISHED[learner], support=support),
        Paper(
            "Fig. 3, hyperteacher, connected support"
            if is_published
            else "beside Fig. 3, hyperteacher, connected support",
            words=f"connected far above disconnected; {CONFOUND if is_published else CLEAN}",
        ),
        order(rival, beyond_errors=True),
        quick=order(rival) if is_published else None,
        quick_settings=CONNECTED_QUICK,
        higher_is_better=is_connected,
    )


CONNECTION = Group(
    id=CONNECTED,
    title="Hyperteacher: connected and disconnected combinations",
    source="Schug et al. (2024), hyperteacher, Fig. 3",
    rows=tuple(
        _connected(support, learner)
        for support in ("connected", "disconnected", "connected-matched", "disconnected-clean")
        for learner in HNETS
    ),
    charts=(Chart("unseen combinations, and decodability, against the support", CHARTED),),
)

# --- amortised inference -----------------------------------------------------------------------

AMORTISED = f"{HYPERTEACHER}/amortised"
FLOOR = 0.25  # what the best answer without adapting gets right with eight modules
NOT_IN_PAPER = "the discussion asks for it; the paper has no such experiment"
ALONE = replace(PUBLISHED["linear-hnet"], encoder="deep-set", adapts_bias=False, inner_steps=0)


def _amortised(
    name: str, claim: str, method: str, config: HyperteacherConfig, rule: Rule, quick: Rule | None
) -> Row:
    return _row(
        f"{AMORTISED}/{name}",
        claim,
        method,
        config,
        Paper("discussion, open question", words=NOT_IN_PAPER),
        rule,
        quick=quick,
    )


AMORTISATION = Group(
    id=AMORTISED,
    title="Hyperteacher: inference in one pass",
    source="asked for in the discussion of Schug et al. (2024)",
    rows=(
        _amortised(
            "deep-set",
            "An encoder that reads the support once infers modules well enough to do better on "
            "unseen combinations than any answer that does not adapt.",
            "linear hypernetwork, deep set, no gradient steps",
            ALONE,
            AtLeast(FLOOR),
            AtLeast(0.4),
        ),
        _amortised(
            "deep-set-start",
            "A few gradient steps from where the encoder points are better than the encoder alone.",
            "linear hypernetwork, deep set, then 3 gradient steps",
            replace(ALONE, inner_steps=3),
            Above(f"{AMORTISED}/deep-set"),
            Above(f"{AMORTISED}/deep-set"),
        ),
        _amortised(
            "transformer",
            "So does one whose rows attend to each other.",
            "linear hypernetwork, set transformer, no gradient steps",
            replace(ALONE, encoder="transformer"),
            AtLeast(FLOOR),
            None,
        ),
    ),
    charts=(Chart("unseen combinations against the way of inference", CHARTED),),
)

# --- sweeps ------------------------------------------------------------------------------------


def _for_modules(learner: str, num_modules: int) -> HyperteacherConfig:
    return replace(PUBLISHED[learner], num_modules=num_modules, num_templates=4 * num_modules)


HELD_OUT = f"{HYPERTEACHER}/heldout"
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
FEW_SHARES = (0.5, 0.9)


def _share_id(num_modules: int, share: float, learner: str) -> str:
    return f"{HELD_OUT}/M{num_modules}/frac{round(100 * share)}/{learner}"


def _held_out(num_modules: int, share: float, learner: str, shares: tuple[float, ...]) -> Row:
    place = shares.index(share)
    if learner in HNETS and place:
        fewer = _share_id(num_modules, shares[place - 1], learner)
        # Non-increasing, within noise.
        rule: Rule = BelowEach((fewer,), margin=-0.02)
        claim = "With more combinations held out, those do not become easier"
    elif learner in HNETS:
        rule = AtLeast(FLOOR)
        claim = "With most combinations trained, the others are learned"
    else:
        rule = Below(_share_id(num_modules, share, "linear-hnet"))
        claim = "With as many combinations held out, a network without modules is worse"
    return _row(
        _share_id(num_modules, share, learner),
        f"{claim}.",
        f"{NAMES[learner]}, {num_modules} modules, {share:.0%} held out",
        replace(_for_modules(learner, num_modules), held_out=share),
        Paper(
            "appendix, held-out fraction",
            words="hypernetworks degrade only when few combinations remain",
        ),
        rule,
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

SCALING = f"{HYPERTEACHER}/scaling"


def _scaling(num_modules: int, learner: str) -> Row:
    eight = f"{COMPOSITIONAL}/{learner}"
    rules: list[Rule] = [Above(eight) if num_modules < 8 else Below(eight)]
    if learner in HNETS:
        rules.append(Above(f"{SCALING}/M{num_modules}-K2/anil"))
    return _row(
        f"{SCALING}/M{num_modules}-K2/{learner}",
        f"With {'fewer' if num_modules < 8 else 'more'} modules and as many steps, unseen "
        f"combinations are {'easier' if num_modules < 8 else 'harder'}.",
        f"{NAMES[learner]}, {num_modules} modules",
        _for_modules(learner, num_modules),
        Paper(
            "appendix, number of modules",
            words="at equal steps, accuracy falls with the number of modules",
        ),
        AllOf(tuple(rules)),
        higher_is_better=num_modules < 8,
    )


NUMBERS_OF_MODULES = Group(
    id=SCALING,
    title="Hyperteacher: how many modules there are",
    source="Schug et al. (2024), appendix",
    rows=tuple(_scaling(m, learner) for m in (4, 12, 16) for learner in ("linear-hnet", "anil")),
    charts=(Chart("unseen combinations against the number of modules", CHARTED),),
)

SHOTS = f"{HYPERTEACHER}/shots"
NUMBERS_OF_SHOTS = (16, 32, 64, 128)


def _shots(count: int, learner: str) -> Row:
    more = NUMBERS_OF_SHOTS[NUMBERS_OF_SHOTS.index(count) + 1 :]
    above = f"{SHOTS}/{more[0]}/{learner}" if more else f"{COMPOSITIONAL}/{learner}"
    return _row(
        f"{SHOTS}/{count}/{learner}",
        "With fewer examples to adapt to, unseen combinations are harder.",
        f"{NAMES[learner]}, {count} examples",
        replace(PUBLISHED[learner], num_support=count),
        Paper("appendix, support size", words="accuracy rises with the number of examples"),
        BelowEach((above,), margin=-0.02),
        higher_is_better=False,
    )


NUMBERS_OF_EXAMPLES = Group(
    id=SHOTS,
    title="Hyperteacher: how many examples of a task are seen",
    source="Schug et al. (2024), appendix",
    rows=tuple(_shots(count, learner) for count in NUMBERS_OF_SHOTS for learner in HNETS),
    charts=(Chart("unseen combinations against the number of examples", CHARTED),),
)
