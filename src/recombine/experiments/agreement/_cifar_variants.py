"""How long and at which settings the CIFAR-10 rows train, and what is said about it."""

from dataclasses import replace
from typing import Any, Literal

from recombine.experiments._row import Metric, Picture, Variant
from recombine.experiments._rules import AtLeast, Rule
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

GROUP_RANDOM_RATE = 2e-4
"""At the thesis' 0.0005, plain training with group normalisation never memorises random labels."""

NOISE_RATE, SLOWER_NOISE_RATES = 5e-3, (1e-3, 5e-4)
"""With label noise the thesis tries three learning rates, and finds the first one best."""

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


def make_learner(config: CifarConfig, steps: int) -> Any:
    """Makes a learner; only then is JAX loaded."""
    from recombine.experiments.agreement._cifar_learners import make_cifar_learner  # loads JAX

    return make_cifar_learner(config, steps)


def with_threshold(config: CifarConfig, threshold: float) -> CifarConfig:
    """Sets the mask; where there is one, what passes it is scaled up."""
    return replace(config, threshold=threshold, rescale="tensor" if threshold > 0 else None)


def _mode_notes(config: CifarConfig) -> list[str]:
    """Without a mask, batch normalisation is the thesis' own and there is nothing to say."""
    notes = [MODE_NOTES[config.mode]] if config.threshold > 0 or config.mode == "group" else []
    if config.learning_rate == GROUP_RANDOM_RATE:
        notes.append(
            f"learning rate {GROUP_RANDOM_RATE:g} for {RANDOM.learning_rate:g}, at which plain "
            "training memorises nothing"
        )
    return notes


def full_variant(config: CifarConfig, epochs: int, rule: Rule) -> Variant:
    """All images, for so many epochs."""
    notes = [ONE_SEED, *_mode_notes(config)]
    if epochs != RANDOM_EPOCHS:
        notes.append(
            f"{epochs} epochs for {RANDOM_EPOCHS}, with the learning rate's schedule scaled along"
        )
    return Variant(
        config,
        steps=epochs * STEPS_PER_EPOCH,
        eval_every=2 * STEPS_PER_EPOCH,
        num_seeds=1,
        rule=rule,
        note="; ".join(notes),
    )


def until_memorised(config: CifarConfig, rule: Rule) -> Variant:
    """The first epochs of the thesis' 80: the learning rate falls when it would fall there."""
    share = RANDOM_EPOCHS / MEMORISED_EPOCHS
    falls = tuple(at * share for at in config.decay_at if at * share <= 1)
    variant = full_variant(replace(config, decay_at=falls), MEMORISED_EPOCHS, rule)
    notes = [ONE_SEED, *_mode_notes(config), STOPPED_NOTE]
    return replace(variant, note="; ".join(notes))


def short_variant(config: CifarConfig, rule: Rule) -> Variant:
    """As many images as gradients by 80 backward passes afford."""
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


def quick_variant(config: CifarConfig, rule: Rule) -> Variant:
    """Minutes on two cores."""
    steps_per_epoch = QUICK_IMAGES // config.batch_size
    return Variant(
        replace(config, **QUICK),
        steps=QUICK_EPOCHS * steps_per_epoch,
        eval_every=QUICK_EPOCHS * steps_per_epoch // 4,
        num_seeds=1,
        rule=rule,
        note=QUICK_NOTE,
    )


def tiny_variant(config: CifarConfig) -> Variant:
    """Seconds, for tests."""
    return Variant(
        replace(config, **TINY),
        steps=4,
        eval_every=2,
        num_seeds=2,
        rule=AtLeast(0.0),
        note="for tests: made-up images, too few to show anything",
    )


def pictures_of(config: CifarConfig) -> tuple[Picture, ...]:
    """What passes the mask, where there is one."""
    return (KEPT,) if config.threshold > 0 else ()


def method_name(threshold: float, mode: str = "split") -> str:
    """How tables call it."""
    name = f"AND-mask, threshold {threshold:g}" if threshold > 0 else "plain mean of gradients"
    return f"{name}, group normalisation" if mode == "group" else name
