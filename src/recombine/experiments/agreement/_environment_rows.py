"""How many environments it takes (Neitz, thesis, Fig. B.6): best of five runs for each number.

The setting of the thesis' baseline here is not printed. Ours (learning rate 1e-3, L2 1e-3, pooled
batches of 128, 12,500 steps) is one with which it first succeeds at 1,024 environments, as the
thesis reports, though not with every seed; with a weaker L2 it memorises there too.
"""

from dataclasses import replace

from recombine.experiments._row import Group, Paper, Row, Variant
from recombine.experiments._rules import Above, AtLeast, AtMost, Rule
from recombine.experiments.agreement._config import EnvironmentsConfig
from recombine.experiments.agreement._synthetic_rows import (
    BOUNDARY,
    LOW_TEST,
    TEST,
    TINY,
    TRAIN,
    make_learner,
)

NUMBERS = (16, 32, 64, 128, 256, 512, 1024)
POOLED = EnvironmentsConfig(
    threshold=0.0, rescale=None, group_size=None, learning_rate=1e-3, l2=1e-3
)
POOLED_STEPS = 12_500
GROUP = 32
EPOCHS = 3000  # divided by the number of environments, in the thesis


def _tiny(config: EnvironmentsConfig) -> Variant:
    group = config.group_size and 2
    return Variant(
        replace(config, **TINY, group_size=group),
        steps=8,
        eval_every=4,
        num_seeds=2,
        rule=AtLeast(0.0),
        note="for tests: too small to show anything",
    )


def _row(
    num_envs: int, name: str, config: EnvironmentsConfig, steps: int, rule: Rule, note: str
) -> Row:
    masked = name == "and-mask"
    method = "AND-mask" if masked else "plain mean"
    succeeds = masked or num_envs >= 1024
    return Row(
        id=f"ilc/synthetic/envs/{num_envs}/{name}",
        claim=f"With {num_envs:,} environments the {method} "
        f"{'finds the spirals' if succeeds else 'memorises the shortcuts'}.",
        method=f"{method}, {num_envs:,} environments",
        make_learner=make_learner,
        metric=TEST if succeeds else LOW_TEST,
        also=(TRAIN,),
        paper=Paper(
            source="App. B and Fig. B.6",
            n=5,
            words="best of five runs; the baseline first succeeds at 1,024 environments, the "
            "AND-mask far earlier. The figure's numbers are not printed",
        ),
        full=Variant(
            config, steps=steps, eval_every=steps // 10, num_seeds=5, rule=rule, note=note
        ),
        quick=None,
        tiny=_tiny(config),
        pictures=(BOUNDARY,),
    )


def _baseline(num_envs: int) -> Row:
    config = replace(POOLED, num_envs=num_envs)
    rule = AtLeast(0.95, "max") if num_envs >= 1024 else AtMost(0.65, "max")
    note = "Adam 1e-3, L2 1e-3, pooled batches of 128 drawn with replacement, 12,500 steps"
    return _row(num_envs, "baseline", config, POOLED_STEPS, rule, note)


def _and_mask(num_envs: int) -> Row:
    group = min(num_envs, GROUP)
    config = EnvironmentsConfig(num_envs=num_envs, group_size=group)
    # As many examples as the thesis' 3000 / D epochs have, in groups of at most 32 environments.
    steps = EPOCHS // GROUP * 10 * GROUP // group
    plain = f"ilc/synthetic/envs/{num_envs}/baseline"
    rule = AtLeast(0.95, "max") if num_envs >= GROUP else Above(plain)
    note = (
        f"threshold 0.8 over {group} environments drawn for each step, {steps:,} steps; the thesis "
        "does not say how many environments had to agree"
    )
    return _row(num_envs, "and-mask", config, steps, rule, note)


ENVIRONMENTS = Group(
    id="ilc/synthetic/envs",
    title="Number of environments",
    source="Neitz, thesis, Fig. B.6",
    rows=tuple(make(num_envs) for num_envs in NUMBERS for make in (_baseline, _and_mask)),
)
"""The plain mean and the AND-mask, from 16 to 1,024 environments."""
