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
from typing import Any, Literal

from recombine.experiments._row import Group, Metric, Paper, Picture, Row, Variant
from recombine.experiments._rules import (
    Above,
    AllOf,
    AtLeast,
    AtMost,
    Below,
    Rule,
)
from recombine.experiments.agreement._cifar_config import CifarConfig
from recombine.experiments.agreement._cifar_pictures import draw_kept

RANDOM_EPOCHS = 80
"""As in the thesis."""

MEMORISED_EPOCHS = 44
"""By then plain training knows its random labels by heart: masks are watched for as long."""

TRUE_EPOCHS = 40
"""Where labels are true, or most of them: plain training has memorised its labels by then."""

GROUP_TRUE_EPOCHS = 20
"""Where all labels are true, with group normalisation."""

STEPS_PER_EPOCH = 625  # 50,000 images in batches of 80
SHORT_EPOCHS, SHORT_IMAGES = 40, 2_000
QUICK_EPOCHS, QUICK_IMAGES = 24, 2_000

TEST = Metric("test_accuracy", "test accuracy")
TRAIN = Metric("train_accuracy", "training accuracy")
RANDOM_TRAIN = Metric(
    "train_accuracy", "training accuracy on random labels", higher_is_better=False
)
GAP = Metric("gap", "training less test accuracy", higher_is_better=False)
WRONG = Metric("wrong_label_accuracy", "accuracy on the wrong labels", higher_is_better=False)
KEPT = Picture("what passes the mask, by layer", draw_kept, ("kept_by_layer",))

Mode = Literal["split", "group"]
MODES: tuple[Mode, ...] = ("split", "group")
THRESHOLDS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)
CLEAN = CifarConfig()
RANDOM = CifarConfig(wrong_labels=1.0)
NOISE = CifarConfig(wrong_labels=0.25, decay_at=(0.75,))
QUICK = {"num_train": QUICK_IMAGES, "num_test": 1_000, "width": 0.125, "learning_rate": 2e-3}
QUICK_NOTE = (
    "2,000 training and 1,000 test images, an eighth of the channels, learning rate 0.002, 24 "
    "epochs"
)
TINY = {
    "images": "made-up",
    "num_train": 24,
    "num_test": 10,
    "width": 1 / 16,
    "batch_size": 8,
}
SUFFIXES = {"split": "", "group": "-group", "exact": "-exact"}
MODE_NOTES = {
    "split": "the batch's gradient is shared out among its images by one backward pass",
    "group": "group normalisation in place of batch normalisation, so that an image's gradient is "
    "its own",
    "exact": "every image has the gradient of its own loss, by a backward pass of its own",
}
EPOCHS_NOTE = f"{SHORT_EPOCHS} epochs, the learning rate falling at half and three quarters"
ONE_SEED = "one seed, where the thesis has two"
STOPPED_NOTE = (
    f"the first {MEMORISED_EPOCHS} of the thesis' {RANDOM_EPOCHS} epochs: by then plain training "
    "has memorised the labels"
)


def _make_learner(config: CifarConfig, steps: int) -> Any:
    from recombine.experiments.agreement._cifar_learners import make_cifar_learner  # loads JAX

    return make_cifar_learner(config, steps)


def _with(config: CifarConfig, threshold: float) -> CifarConfig:
    return replace(config, threshold=threshold, rescale="tensor" if threshold > 0 else None)


def _mode_notes(config: CifarConfig) -> list[str]:
    """Without a mask, batch normalisation is the thesis' own and there is nothing to say."""
    return [MODE_NOTES[config.mode]] if config.threshold > 0 or config.mode == "group" else []


def _full(config: CifarConfig, epochs: int, rule: Rule) -> Variant:
    notes = [ONE_SEED, *_mode_notes(config)]
    if epochs != RANDOM_EPOCHS:
        notes.append(f"{epochs} epochs for {RANDOM_EPOCHS}, with the learning rate's schedule scaled along")
    return Variant(
        config,
        steps=epochs * STEPS_PER_EPOCH,
        eval_every=2 * STEPS_PER_EPOCH,
        num_seeds=1,
        rule=rule,
        note="; ".join(notes),
    )


def _until_memorised(config: CifarConfig, rule: Rule) -> Variant:
    """The first epochs of the thesis' 80: the learning rate falls when it would fall there."""
    share = RANDOM_EPOCHS / MEMORISED_EPOCHS
    falls = tuple(at * share for at in config.decay_at if at * share <= 1)
    variant = _full(replace(config, decay_at=falls), MEMORISED_EPOCHS, rule)
    notes = [ONE_SEED, *_mode_notes(config), STOPPED_NOTE]
    return replace(variant, note="; ".join(notes))


def _short(config: CifarConfig, rule: Rule) -> Variant:
    steps_per_epoch = SHORT_IMAGES // config.batch_size
    images = f"the first {SHORT_IMAGES:,} training images, all classes alike"
    notes = [images, EPOCHS_NOTE, *_mode_notes(config)]
    return Variant(
        replace(config, num_train=SHORT_IMAGES),
        steps=SHORT_EPOCHS * steps_per_epoch,
        eval_every=4 * steps_per_epoch,
        num_seeds=1,
        rule=rule,
        note="; ".join(notes),
    )


def _quick(config: CifarConfig, rule: Rule) -> Variant:
    steps_per_epoch = QUICK_IMAGES // config.batch_size
    return Variant(
        replace(config, **QUICK),
        steps=QUICK_EPOCHS * steps_per_epoch,
        eval_every=QUICK_EPOCHS * steps_per_epoch // 4,
        num_seeds=1,
        rule=rule,
        note=QUICK_NOTE,
    )


def _tiny(config: CifarConfig) -> Variant:
    return Variant(
        replace(config, **TINY),
        steps=4,
        eval_every=2,
        num_seeds=2,
        rule=AtLeast(0.0),
        note="for tests: made-up images, too few to show anything",
    )


def _pictures(config: CifarConfig) -> tuple[Picture, ...]:
    return (KEPT,) if config.threshold > 0 else ()


def _method(threshold: float, mode: str = "split") -> str:
    name = f"AND-mask, threshold {threshold:g}" if threshold > 0 else "plain mean of gradients"
    return f"{name}, group normalisation" if mode == "group" else name


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
    config = _with(replace(RANDOM, mode=mode), threshold)
    full, quick = _random_rules(threshold, mode)
    return Row(
        id=_random(threshold, mode),
        claim="The average gradient memorises labels drawn at random."
        if threshold == 0
        else "Labels drawn at random have nothing in common to learn: a mask that asks examples to "
        "agree keeps them from being memorised.",
        method=_method(threshold, mode),
        make_learner=_make_learner,
        metric=RANDOM_TRAIN,
        also=(TEST,),
        paper=Paper(
            source="§3.3.2 and Fig. 3.8",
            words="memorises the data, close to 100% training accuracy"
            if threshold == 0
            else "slightly increasing the threshold quickly prevents memorisation; a figure only",
        ),
        full=_until_memorised(config, full)
        if threshold > 0
        else _full(config, RANDOM_EPOCHS, full),
        quick=_quick(config, quick) if mode == "split" else None,
        tiny=_tiny(config),
        pictures=_pictures(config),
    )


def _clean_row(threshold: float, mode: Mode = "split") -> Row:
    config = _with(replace(CLEAN, mode=mode), threshold)
    full, quick = _clean_rules(threshold, mode)
    return Row(
        id=_clean(threshold, mode),
        claim="With the true labels the average gradient learns, and fits its training set closer "
        "than the test set."
        if threshold == 0
        else "With the true labels there is much to agree on: the mask leaves test accuracy nearly "
        "as it is, and the gap to training accuracy closes.",
        method=_method(threshold, mode),
        make_learner=_make_learner,
        metric=TEST,
        also=(TRAIN, GAP),
        paper=Paper(
            source="§3.3.2, Fig. 3.8 and B.7",
            words="converges and generalises to the test set; figures only"
            if threshold == 0
            else "test accuracy falls more slowly than training accuracy as the threshold rises, "
            "until they meet; figures only",
        ),
        full=_full(config, TRUE_EPOCHS if mode == "split" else GROUP_TRUE_EPOCHS, full),
        quick=_quick(config, quick) if mode == "split" else None,
        tiny=_tiny(config),
        pictures=_pictures(config),
    )


def _exact_row(
    name: str, config: CifarConfig, *, metric: Metric, claim: str, method: str, rule: Rule
) -> Row:
    """A row with the network and the gradients of the thesis, on as many images as they afford."""
    return Row(
        id=name,
        claim=claim,
        method=f"{method}, exact, {SHORT_IMAGES:,} images",
        make_learner=_make_learner,
        metric=metric,
        also=tuple(other for other in (TRAIN, TEST) if other.name != metric.name),
        paper=Paper(
            source="§3.3.2 and Fig. 3.8",
            words="as the rows above; the thesis has all images and 80 epochs",
        ),
        full=_short(config, rule),
        quick=None,
        tiny=_tiny(config),
        pictures=_pictures(config),
    )


EXACT_RANDOM = replace(RANDOM, mode="exact", at_once=4)
EXACT_CLEAN = replace(CLEAN, mode="exact", at_once=4)
EXACT_THRESHOLDS = (0.2, 0.4)


def _exact_random_row(threshold: float) -> Row:
    return _exact_row(
        _random(threshold) + "-exact",
        _with(EXACT_RANDOM, threshold),
        metric=RANDOM_TRAIN,
        claim="Where every image has the gradient of its own loss, with all its paths through "
        "the batch, the mask keeps random labels from being memorised.",
        method=_method(threshold),
        rule=AllOf((AtMost(0.2), Below(_random(0.0) + "-exact", 0.5))),
    )


def _exact_clean_row(threshold: float) -> Row:
    return _exact_row(
        _clean(threshold) + "-exact",
        _with(EXACT_CLEAN, threshold),
        metric=TEST,
        claim="Where every image has the gradient of its own loss, with all its paths through "
        "the batch, the mask learns from true labels.",
        method=_method(threshold),
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
            _with(EXACT_RANDOM, 0.0),
            metric=RANDOM_TRAIN,
            claim="The average gradient memorises the random labels of 2,000 images.",
            method=_method(0.0),
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
    config = _with(replace(NOISE, mode=mode), 0.0)
    return Row(
        id="ilc/cifar-noise/baseline" + SUFFIXES[mode],
        claim="The average gradient learns the wrong labels by heart.",
        method=_method(0.0, mode),
        make_learner=_make_learner,
        metric=WRONG,
        also=(TEST, TRAIN),
        paper=Paper(
            source="§3.3.2 and Fig. 3.9",
            words="memorises the incorrect labels; test accuracy peaks early, then falls",
        ),
        full=_full(replace(config, learning_rate=1e-3), TRUE_EPOCHS, AtLeast(0.9)),
        quick=_quick(config, AtLeast(0.6)) if mode == "split" else None,
        tiny=_tiny(config),
    )


def _noise_masked(mode: Mode) -> Row:
    config = _with(replace(NOISE, mode=mode), 0.2)
    plain = "ilc/cifar-noise/baseline" + SUFFIXES[mode]
    better: Rule = Above(plain, metric="test_accuracy")
    return Row(
        id="ilc/cifar-noise/and-mask" + SUFFIXES[mode],
        claim="The mask learns from the right labels and not from the wrong ones, which have "
        "nothing in common.",
        method=_method(0.2, mode),
        make_learner=_make_learner,
        metric=WRONG,
        also=(TEST, TRAIN),
        paper=Paper(
            source="§3.3.2 and Fig. 3.9",
            words="well below chance (10%) on the incorrect labels; test accuracy rises slowly "
            "and steadily, and ends above the baseline's",
        ),
        full=_full(
            replace(config, learning_rate=5e-3),
            TRUE_EPOCHS,
            AllOf((AtMost(0.1), Below(plain, 0.5), better)),
        ),
        quick=_quick(config, AllOf((AtMost(0.2), Below(plain, 0.4)))) if mode == "split" else None,
        tiny=_tiny(config),
        pictures=(KEPT,),
    )


CIFAR_NOISE = Group(
    id="ilc/cifar-noise",
    title="CIFAR-10 with a quarter of the labels drawn anew",
    source="Neitz, thesis, Fig. 3.9",
    rows=tuple(make(mode) for mode in MODES for make in (_noise_baseline, _noise_masked)),
)
