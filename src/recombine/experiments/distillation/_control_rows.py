"""The rows of the control tasks: table C.7, figures 4.7, 4.8 and 4.9.

The published environments are gone; those that are left have the same sizes and rewards, but were
built anew. So the order of the methods and their ratios are the rule, and values stand beside.
"""

from dataclasses import replace
from typing import Any

from recombine.experiments._row import Chart, Group, Metric, Panel, Paper, Row, Variant
from recombine.experiments._rules import AllOf, AtLeast, Below, NearPaper
from recombine.experiments.distillation._config import ControlConfig, ControlSearchConfig
from recombine.experiments.distillation._control_ablations import ablations
from recombine.experiments.distillation._control_table import TABLE
from recombine.experiments.distillation._judging import EverySettingAbove, RatioTo, SurelyBelow
from recombine.experiments.distillation._making_control_rows import (
    BASELINE_ITERATIONS,
    ERROR,
    GAP,
    HONEST,
    MUJOCO,
    NOTE,
    TINY,
    TINY_NOTE,
    TOGETHER,
    control_row,
)
from recombine.experiments.distillation._pictures import SETTINGS

LOWEST = Metric(
    "lowest_squared_error", "test error of the best setting", higher_is_better=False, percent=False
)
BASELINE_NOTE = f"{NOTE}. Settings within the published ranges; all others are in the search rows"


def _make_search(config: ControlSearchConfig, steps: int) -> Any:
    from recombine.experiments.distillation._control_learners import make_control_search

    return make_control_search(config, steps)


def _search(task: str, config: ControlSearchConfig, method: str, claim: str) -> Row:
    steps = BASELINE_ITERATIONS // TOGETHER
    base = config.base.method
    tiny = ControlSearchConfig(
        base=replace(config.base, **TINY),
        learning_rates=config.learning_rates,
        weight_decays=(0.0,),
        batch_sizes=(4,),
        teaching_weights=config.teaching_weights[:1],
    )
    return Row(
        id=f"{MUJOCO}/{task}/search-{base}",
        claim=claim,
        method=f"{method}, all settings",
        make_learner=_make_search,
        metric=LOWEST,
        paper=Paper(
            "Table C.7, the best of a search within Tables C.2 and C.3",
            mean=TABLE[task].model_free if base == "model-free" else TABLE[task].auxiliary,
            n=8,
        ),
        full=Variant(
            config,
            steps,
            steps // 20,
            4,
            AllOf(
                (
                    EverySettingAbove(f"{MUJOCO}/{task}/ldt", ERROR.name),
                    EverySettingAbove(f"{MUJOCO}/{task}/{base}", ERROR.name, 0.95),
                )
            ),
            f"{NOTE}. All settings side by side, four seeds; the value is the lowest of each seed, "
            f"the rule looks at means over seeds",
        ),
        quick=None,
        tiny=Variant(tiny, 2, 1, 1, AtLeast(0.0), TINY_NOTE),
        pictures=(SETTINGS,),
    )


def _main_rows(task: str) -> tuple[Row, ...]:
    known, here = TABLE[task], f"{MUJOCO}/{task}"
    learned = ControlConfig(task=task, method="ldt", **known.teaching)  # pyright: ignore[reportArgumentType]
    baseline = ControlConfig(
        task=task,  # pyright: ignore[reportArgumentType]
        method="model-free",
        batch_size=known.batch_size,
        weight_decay=1e-4,
        teaching_weight=1.0,
    )
    ratio, is_shown = known.ldt / known.model_free, task == "hopper"
    source = "Table C.7, lowest test error"
    other = known.other_than_published
    note = f"{NOTE}. Within the published ranges, {other}: what was published was worse here"
    learned_row = control_row(
        f"{here}/ldt",
        f"A learned teacher that sees the future lets its student predict returns of "
        f"{known.title} with a lower error than labels or an auxiliary task do.",
        "learned teacher",
        learned,
        Paper(source, mean=known.ldt, n=8, words=f"{ratio:.3g} times that of model-free"),
        AllOf(
            (
                Below(f"{here}/auxiliary"),
                SurelyBelow(f"{here}/model-free"),
                RatioTo(f"{here}/model-free", 0.8 * ratio, 1.2 * ratio),
                Below(f"{here}/auxiliary", metric=GAP.name),
                Below(f"{here}/model-free", metric=GAP.name),
            )
        ),
        iterations=known.iterations,
        quick=RatioTo(f"{here}/model-free", high=0.8) if is_shown else None,
        note=note if other else NOTE,
    )
    return (
        learned_row,
        *_at_published_settings(task, learned_row),
        control_row(
            f"{here}/auxiliary",
            "Predicting the future as an auxiliary task helps, but less than a learned teacher.",
            "auxiliary task",
            replace(baseline, method="auxiliary", teaching_weight=2.0),
            Paper(source, mean=known.auxiliary, n=8),
            AllOf(
                (
                    Below(f"{here}/model-free"),
                    NearPaper(known.auxiliary, floor=max(0.2, known.reach) * known.auxiliary),
                )
            ),
            iterations=BASELINE_ITERATIONS,
            note=BASELINE_NOTE,
        ),
        control_row(
            f"{here}/model-free",
            "Labels alone leave the highest error.",
            "model-free",
            baseline,
            Paper(source, mean=known.model_free, n=8),
            NearPaper(known.model_free, floor=known.reach * known.model_free),
            iterations=BASELINE_ITERATIONS,
            quick=RatioTo(f"{here}/ldt", low=1 / 0.8) if is_shown else None,
            note=BASELINE_NOTE,
        ),
        _search(
            task,
            ControlSearchConfig(base=baseline),
            "model-free",
            "No setting of the model-free student within the published ranges reaches the learned "
            "teacher's.",
        ),
        _search(
            task,
            ControlSearchConfig(
                base=replace(baseline, method="auxiliary"),
                batch_sizes=(known.batch_size,),
                teaching_weights=(1.0, 2.0, 4.0),
            ),
            "auxiliary task",
            "No setting of the auxiliary task within the published ranges reaches the learned "
            "teacher's.",
        ),
    )


def _at_published_settings(task: str, learned_row: Row) -> tuple[Row, ...]:
    """Returns the learned teacher's row again with table C.5, where that row has other settings."""
    known = TABLE[task]
    if known.published_teaching is None:
        return ()
    return (
        control_row(
            f"{learned_row.id}-published",
            f"{learned_row.claim[:-1]}, at the published settings.",
            "learned teacher, published settings",
            ControlConfig(task=task, method="ldt", **known.published_teaching),  # pyright: ignore[reportArgumentType]
            learned_row.paper,
            learned_row.full.rule,
            iterations=known.iterations,
        ),
    )


def _group(task: str) -> Group:
    return Group(
        id=f"{MUJOCO}/{task}",
        title=f"{TABLE[task].title}: what will 16 random actions bring?",
        source="Neitz, thesis, §4.4.3, §4.4.4 and App. C.2.2, Table C.7, Fig. 4.7 to 4.9",
        rows=(*_main_rows(task), *ablations(task)),
        charts=(
            Chart(
                "test error, and how far it is above the training error",
                (Panel(ERROR, floor=HONEST.name), Panel(GAP)),
            ),
        ),
    )


CONTROL_GROUPS = tuple(_group(task) for task in ("hopper", "swimmer", "walker2d", "halfcheetah"))
