"""The CIFAR-10 rows: every image is its own environment (Neitz, thesis, Fig. 3.8, 3.9 and B.7).

The network of the thesis has batch normalisation, which couples the images of a batch: an image's
loss has a gradient through all others, and takes a backward pass over the whole batch (mode
"exact"), 80 in every step. There are three ways round it, with rows for two. Rows without a suffix
use the mode "split": the batch's ordinary gradient, from one backward pass, shared out among the
images by the activations through which it comes; without a mask it is ordinary training. Rows with
the suffix "-group" have group normalisation in its place, another network, in which no image sees
another. With "frozen" statistics the network hardly trains, whatever the mask; it can be set. A few
short rows in the mode "exact" stand beside them.
"""

from dataclasses import replace

from recombine.experiments._row import Group, Metric, Paper, Row
from recombine.experiments._rules import Above, AllOf, AtLeast, AtMost, Below, Rule
from recombine.experiments.agreement._cifar_config import CifarConfig
from recombine.experiments.agreement._cifar_variants import (
    CLEAN,
    GAP,
    GROUP_RANDOM_RATE,
    GROUP_TRUE_EPOCHS,
    KEPT,
    MODES,
    NOISE,
    NOISE_RATE,
    RANDOM,
    RANDOM_EPOCHS,
    RANDOM_TRAIN,
    SHORT_IMAGES,
    SLOWER_NOISE_RATES,
    SUFFIXES,
    TEST,
    THRESHOLDS,
    TRAIN,
    TRUE_EPOCHS,
    WRONG,
    Mode,
    full_variant,
    make_learner,
    method_name,
    pictures_of,
    quick_variant,
    short_variant,
    tiny_variant,
    until_memorised,
    with_threshold,
)


def _random(threshold: float, mode: str = "split") -> str:
    return f"ilc/cifar-random/tau-{threshold:g}{SUFFIXES[mode]}"


def _clean(threshold: float, mode: str = "split") -> str:
    return f"ilc/cifar-clean/tau-{threshold:g}{SUFFIXES[mode]}"


def _random_rules(threshold: float, mode: str) -> tuple[Rule, Rule]:
    """For the full and for the quick variant."""
    plain = _random(0.0, mode)
    if threshold == 0:
        return AtLeast(0.95), AtLeast(0.8)
    before = THRESHOLDS[THRESHOLDS.index(threshold) - 1]
    below_before: Rule = Below(_random(before, mode), -0.02)  # it does not rise, but for a hair
    if threshold == 0.05:
        return below_before, below_before
    if threshold == 0.1:
        return below_before, Below(plain, 0.1)
    if threshold == 0.2:
        return (
            AllOf((AtMost(0.2), Below(plain, 0.5), below_before)),
            AllOf((AtMost(0.3), Below(plain, 0.5))),
        )
    return AllOf((AtMost(0.2), below_before)), AtMost(0.3)


def _clean_rules(threshold: float, mode: str) -> tuple[Rule, Rule]:
    """For the full and for the quick variant."""
    if threshold == 0:
        return (
            AllOf((AtLeast(0.8), AtLeast(0.95, metric="train_accuracy"))),
            AllOf((AtLeast(0.3), AtLeast(0.8, metric="train_accuracy"))),
        )
    plain = _clean(0.0, mode)
    smaller_gap: Rule = Below(plain, metric="gap")
    if threshold > 0.2:
        return smaller_gap, smaller_gap
    loss = 0.1 if threshold == 0.2 else 0.05
    return AllOf((Above(plain, -loss), smaller_gap)), AllOf((AtLeast(0.3), smaller_gap))


def _random_row(threshold: float, mode: Mode = "split") -> Row:
    config = with_threshold(replace(RANDOM, mode=mode), threshold)
    if mode == "group":
        config = replace(config, learning_rate=GROUP_RANDOM_RATE)
    full, quick = _random_rules(threshold, mode)
    return Row(
        id=_random(threshold, mode),
        claim="The average gradient memorises labels drawn at random."
        if threshold == 0
        else "Labels drawn at random have nothing in common to learn: a mask that asks examples to "
        "agree keeps them from being memorised.",
        method=method_name(threshold, mode),
        make_learner=make_learner,
        metric=RANDOM_TRAIN,
        also=(TEST,),
        paper=Paper(
            source="§3.3.2 and Fig. 3.8",
            words="memorises the data, close to 100% training accuracy"
            if threshold == 0
            else "slightly increasing the threshold quickly prevents memorisation; a figure only",
        ),
        full=until_memorised(config, full)
        if threshold > 0
        else full_variant(config, RANDOM_EPOCHS, full),
        quick=quick_variant(config, quick) if mode == "split" else None,
        tiny=tiny_variant(config),
        pictures=pictures_of(config),
    )


def _clean_row(threshold: float, mode: Mode = "split") -> Row:
    config = with_threshold(replace(CLEAN, mode=mode), threshold)
    full, quick = _clean_rules(threshold, mode)
    return Row(
        id=_clean(threshold, mode),
        claim="With the true labels the average gradient learns, and fits its training set closer "
        "than the test set."
        if threshold == 0
        else "With the true labels there is much to agree on: the mask leaves test accuracy nearly "
        "as it is, and the gap to training accuracy closes.",
        method=method_name(threshold, mode),
        make_learner=make_learner,
        metric=TEST,
        also=(TRAIN, GAP),
        paper=Paper(
            source="§3.3.2, Fig. 3.8 and B.7",
            words="converges and generalises to the test set; figures only"
            if threshold == 0
            else "test accuracy falls more slowly than training accuracy as the threshold rises, "
            "until they meet; figures only",
        ),
        full=full_variant(config, TRUE_EPOCHS if mode == "split" else GROUP_TRUE_EPOCHS, full),
        quick=quick_variant(config, quick) if mode == "split" else None,
        tiny=tiny_variant(config),
        pictures=pictures_of(config),
    )


def _exact_row(
    name: str, config: CifarConfig, *, metric: Metric, claim: str, method: str, rule: Rule
) -> Row:
    """A row with the network and the gradients of the thesis, on as many images as they afford."""
    return Row(
        id=name,
        claim=claim,
        method=f"{method}, exact, {SHORT_IMAGES:,} images",
        make_learner=make_learner,
        metric=metric,
        also=tuple(other for other in (TRAIN, TEST) if other.name != metric.name),
        paper=Paper(
            source="§3.3.2 and Fig. 3.8",
            words="as the rows above; the thesis has all images and 80 epochs",
        ),
        full=short_variant(config, rule),
        quick=None,
        tiny=tiny_variant(config),
        pictures=pictures_of(config),
    )


EXACT_RANDOM = replace(RANDOM, mode="exact", at_once=4)
EXACT_CLEAN = replace(CLEAN, mode="exact", at_once=4)
EXACT_THRESHOLDS = (0.2, 0.4)


def _exact_random_row(threshold: float) -> Row:
    return _exact_row(
        _random(threshold) + "-exact",
        with_threshold(EXACT_RANDOM, threshold),
        metric=RANDOM_TRAIN,
        claim="Where every image has the gradient of its own loss, with all its paths through "
        "the batch, the mask keeps random labels from being memorised.",
        method=method_name(threshold),
        rule=AllOf((AtMost(0.2), Below(_random(0.0) + "-exact", 0.5))),
    )


def _exact_clean_row(threshold: float) -> Row:
    return _exact_row(
        _clean(threshold) + "-exact",
        with_threshold(EXACT_CLEAN, threshold),
        metric=TEST,
        claim="Where every image has the gradient of its own loss, with all its paths through "
        "the batch, the mask learns from true labels.",
        method=method_name(threshold),
        rule=AtLeast(0.3),
    )


CIFAR_RANDOM = Group(
    id="ilc/cifar-random",
    title="CIFAR-10 with random labels",
    source="Neitz, thesis, Fig. 3.8",
    rows=(
        *(_random_row(threshold, mode) for mode in MODES for threshold in THRESHOLDS),
        _exact_row(
            _random(0.0) + "-exact",
            with_threshold(EXACT_RANDOM, 0.0),
            metric=RANDOM_TRAIN,
            claim="The average gradient memorises the random labels of 2,000 images.",
            method=method_name(0.0),
            rule=AtLeast(0.9),
        ),
        *(_exact_random_row(threshold) for threshold in EXACT_THRESHOLDS),
    ),
)

CIFAR_CLEAN = Group(
    id="ilc/cifar-clean",
    title="CIFAR-10 with its own labels",
    source="Neitz, thesis, Fig. 3.8 and B.7",
    rows=(
        *(_clean_row(threshold, mode) for mode in MODES for threshold in THRESHOLDS),
        *(_exact_clean_row(threshold) for threshold in EXACT_THRESHOLDS),
    ),
)


def _noise_baseline(mode: Mode) -> Row:
    config = with_threshold(replace(NOISE, mode=mode), 0.0)
    return Row(
        id="ilc/cifar-noise/baseline" + SUFFIXES[mode],
        claim="The average gradient learns the wrong labels by heart.",
        method=method_name(0.0, mode),
        make_learner=make_learner,
        metric=WRONG,
        also=(TEST, TRAIN),
        paper=Paper(
            source="§3.3.2 and Fig. 3.9",
            words="memorises the incorrect labels; test accuracy peaks early, then falls",
        ),
        full=full_variant(replace(config, learning_rate=1e-3), TRUE_EPOCHS, AtLeast(0.9)),
        quick=quick_variant(config, AtLeast(0.6)) if mode == "split" else None,
        tiny=tiny_variant(config),
    )


def _noise_masked(mode: Mode, threshold: float = 0.2, rate: float = NOISE_RATE) -> Row:
    """The mask at the thesis' settings, or at others, which are in the row's name."""
    config = with_threshold(replace(NOISE, mode=mode), threshold)
    name = "ilc/cifar-noise/and-mask"
    if (threshold, rate) != (0.2, NOISE_RATE):
        name += f"-tau-{threshold:g}-rate-{rate:g}"
    plain = "ilc/cifar-noise/baseline" + SUFFIXES[mode]
    better: Rule = Above(plain, metric="test_accuracy")
    has_quick = mode == "split" and rate == NOISE_RATE
    return Row(
        id=name + SUFFIXES[mode],
        claim="The mask learns from the right labels and not from the wrong ones, which have "
        "nothing in common.",
        method=method_name(threshold, mode)
        + ("" if rate == NOISE_RATE else f", learning rate {rate:g}"),
        make_learner=make_learner,
        metric=WRONG,
        also=(TEST, TRAIN),
        paper=Paper(
            source="§3.3.2 and Fig. 3.9",
            words="well below chance (10%) on the incorrect labels; test accuracy rises slowly "
            "and steadily, and ends above the baseline's; the best of three learning rates, 0.005",
        ),
        full=full_variant(
            replace(config, learning_rate=rate),
            TRUE_EPOCHS,
            AllOf((AtMost(0.1), Below(plain, 0.5), better)),
        ),
        quick=quick_variant(config, AllOf((AtMost(0.2), Below(plain, 0.4)))) if has_quick else None,
        tiny=tiny_variant(config),
        pictures=(KEPT,),
    )


CIFAR_NOISE = Group(
    id="ilc/cifar-noise",
    title="CIFAR-10 with a quarter of the labels drawn anew",
    source="Neitz, thesis, Fig. 3.9",
    rows=(
        *(make(mode) for mode in MODES for make in (_noise_baseline, _noise_masked)),
        *(_noise_masked("split", 0.2, rate) for rate in SLOWER_NOISE_RATES),
        *(_noise_masked("group", 0.1, rate) for rate in SLOWER_NOISE_RATES),
    ),
)
