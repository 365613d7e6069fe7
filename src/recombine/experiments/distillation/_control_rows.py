"""The rows of the control tasks: table C.7, figures 4.7, 4.8 and 4.9.

The published environments are gone; those that are left have the same sizes and rewards, but were
built anew. So the order of the methods and their ratios are the rule, and values stand beside.
"""

from dataclasses import replace
from typing import Any

from recombine.experiments._row import Chart, Group, Metric, Panel, Paper, Row, Variant
from recombine.experiments._rules import AllOf, AtLeast, Below, NearPaper, Rule
from recombine.experiments.distillation._config import ControlConfig, ControlSearchConfig
from recombine.experiments.distillation._control_table import TABLE
from recombine.experiments.distillation._judging import (
    EverySettingAbove,
    RatioTo,
    Rising,
    SurelyBelow,
)
from recombine.experiments.distillation._pictures import GATES, SETTINGS
from recombine.experiments.distillation._spaces import control_search

MUJOCO = "ldt/mujoco"
ABLATED = ("hopper", "swimmer")
NOISY = (4, 8, 12, 16)

ERROR = Metric(
    "best_test_squared_error", "lowest test error", higher_is_better=False, percent=False
)
LOWEST = Metric(
    "lowest_squared_error", "test error of the best setting", higher_is_better=False, percent=False
)
NOW = Metric("test_squared_error", "test error", higher_is_better=False, percent=False)
HONEST = Metric(
    "chosen_test_squared_error",
    "test error, chosen by other examples",
    higher_is_better=False,
    percent=False,
)
GAP = Metric(
    "best_gap_squared_error", "test less training error", higher_is_better=False, percent=False
)

TOGETHER = 5  # iterations between two measurements, one step of a run
BASELINE_ITERATIONS = 800  # cheap: without meta-steps
SEEDS = 8
NOTE = (
    "Gymnasium's v4 environments in place of v2; the number of iterations is ours: the thesis does "
    "not state it. The best moment is chosen by the test examples, as published"
)
BASELINE_NOTE = f"{NOTE}. Settings within the published ranges; all others are in the search rows"
QUICK: dict[str, Any] = {
    "teacher_maps": (32, 32, 32, 64),
    "teacher_hidden": 128,
    "inner_steps": 48,
}
QUICK_ITERATIONS = 200
QUICK_NOTE = (
    "a smaller teacher, 48 inner steps, 200 iterations, one seed; needs the extra `mujoco`, or its "
    "data in the cache folder"
)
TINY: dict[str, Any] = {
    "data": "random",
    "num_train": 24,
    "num_selection": 8,
    "num_test": 8,
    "hidden": (4, 3),
    "batch_size": 4,
    "student_steps": 2,
    "teacher_maps": (3,),
    "teacher_hidden": 4,
    "inner_steps": 2,
    "iterations": 1,
}
TINY_NOTE = "for tests: random numbers, too small to show anything"


def _make_learner(config: ControlConfig, steps: int) -> Any:
    from recombine.experiments.distillation._control_learners import make_control_learner

    return make_control_learner(config, steps)


def _make_search(config: ControlSearchConfig, steps: int) -> Any:
    from recombine.experiments.distillation._control_learners import make_control_search

    return make_control_search(config, steps)


def _row(
    row_id: str,
    claim: str,
    method: str,
    config: ControlConfig,
    paper: Paper,
    rule: Rule,
    *,
    iterations: int,
    quick: Rule | None = None,
    note: str = NOTE,
) -> Row:
    steps = iterations // TOGETHER
    small = replace(config, **QUICK)
    if config.method == "ldt" and config.longest_meta_gradient is not None:
        note = (
            f"{note}. Meta-steps with a gradient longer than {config.longest_meta_gradient:g} are "
            "left out: one such step keeps a teacher from learning"
        )
    return Row(
        id=row_id,
        claim=claim,
        method=method,
        make_learner=_make_learner,
        metric=ERROR,
        also=(NOW, HONEST, GAP),
        paper=paper,
        full=Variant(config, steps, steps // 20, SEEDS, rule, note),
        quick=None
        if quick is None
        else Variant(
            small,
            (QUICK_ITERATIONS if config.method == "ldt" else BASELINE_ITERATIONS) // TOGETHER,
            5,
            1,
            quick,
            QUICK_NOTE,
        ),
        tiny=Variant(replace(config, **TINY), 2, 1, 1, AtLeast(0.0), TINY_NOTE),
        pictures=(GATES,) if config.method in ("ldt", "untrained") else (),
        search=control_search(config, ERROR),
    )


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
    learned_row = _row(
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
        _row(
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
        _row(
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
        _row(
            f"{learned_row.id}-published",
            f"{learned_row.claim[:-1]}, at the published settings.",
            "learned teacher, published settings",
            ControlConfig(task=task, method="ldt", **known.published_teaching),  # pyright: ignore[reportArgumentType]
            learned_row.paper,
            learned_row.full.rule,
            iterations=known.iterations,
        ),
    )


def _ablations(task: str) -> tuple[Row, ...]:
    known, here = TABLE[task], f"{MUJOCO}/{task}"
    learned = ControlConfig(task=task, method="ldt", **known.teaching)  # pyright: ignore[reportArgumentType]
    free = f"{here}/model-free"

    def row(
        name: str,
        claim: str,
        method: str,
        config: ControlConfig,
        words: str,
        rule: Rule,
        iterations: int = known.iterations,
    ) -> Row:
        return _row(
            f"{here}/{name}",
            claim,
            method,
            config,
            Paper("Fig. 4.9, a picture; §4.4.4", words=words),
            rule,
            iterations=iterations,
        )

    noisy = [
        row(
            f"noisy-{count}",
            f"With noise in place of the last {count} frames there is less to teach."
            if count < 16
            else "With noise in place of the whole future there is nothing to teach.",
            f"learned teacher, {count} noisy frames (RT-{count})",
            replace(learned, noisy_frames=count),
            "errors grow with the number of noisy frames; RT-16 slightly worse than model-free",
            AllOf(
                (
                    RatioTo(free, 0.95, 1.4),
                    Rising(tuple(f"{here}/noisy-{before}" for before in NOISY[:-1])),
                )
            )
            if count == 16
            else RatioTo(f"{here}/ldt", low=0.95),
        )
        for count in NOISY
    ]
    return (
        row(
            "untrained",
            "A teacher that stays as it was drawn does not help.",
            "untrained teacher (FT)",
            replace(learned, method="untrained"),
            "the student essentially fails",
            RatioTo(free, low=1.3),
            BASELINE_ITERATIONS,
        ),
        row(
            "permuted",
            "The order of the frames hardly matters.",
            "learned teacher, permuted frames (PT)",
            replace(learned, permuted=True),
            "only slightly worse than with frames in order",
            AllOf((RatioTo(f"{here}/ldt", low=0.95), Below(free))),
        ),
        *noisy,
        row(
            "resampled",
            "A validation part that is drawn anew in every iteration makes it worse than labels "
            "alone.",
            "learned teacher, validation drawn anew (AR)",
            replace(learned, resample=True),
            "slightly worse than model-free",
            RatioTo(free, low=0.95),
        ),
    )


def _group(task: str) -> Group:
    extra = _ablations(task) if task in ABLATED else ()
    return Group(
        id=f"{MUJOCO}/{task}",
        title=f"{TABLE[task].title}: what will 16 random actions bring?",
        source="Neitz, thesis, §4.4.3, §4.4.4 and App. C.2.2, Table C.7, Fig. 4.7 to 4.9",
        rows=(*_main_rows(task), *extra),
        charts=(
            Chart(
                "test error, and how far it is above the training error",
                (Panel(ERROR, floor=HONEST.name), Panel(GAP)),
            ),
        ),
    )


CONTROL_GROUPS = tuple(_group(task) for task in ("hopper", "swimmer", "walker2d", "halfcheetah"))
