"""What the data set is, whatever it was read from."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
"""The classes by label; in the order of the alphabet, as in the official files."""

SIDE = 32

MEAN = (0.485, 0.456, 0.406)
"""Subtracted from pixels between 0 and 1, by channel (Neitz, thesis, App. B, by its code)."""

STD = (0.229, 0.224, 0.225)
"""What pixels are divided by then."""


class LabelledImages(NamedTuple):
    """Images as they are stored: bytes, channels last."""

    images: UInt8[np.ndarray, "examples 32 32 3"]
    labels: Int[np.ndarray, " examples"]


class Cifar10(NamedTuple):
    """The two parts of the data set; officially 50,000 and 10,000 images."""

    train: LabelledImages
    test: LabelledImages


def make_up_images(*, num_train: int, num_test: int, seed: int = 0) -> Cifar10:
    """Returns noise of the right shape, tinted by class, for trying code out without the data.

    Example:
        >>> make_up_images(num_train=20, num_test=10).train.images.shape
        (20, 32, 32, 3)
    """
    generator = np.random.default_rng(seed)
    tints = generator.integers(0, 128, (len(CLASSES), 3), dtype=np.uint8)

    def draw(examples: int) -> LabelledImages:
        labels = (np.arange(examples) % len(CLASSES)).astype(np.int32)
        noise = generator.integers(0, 128, (examples, SIDE, SIDE, 3), dtype=np.uint8)
        return LabelledImages(noise + tints[labels][:, None, None, :], labels)

    return Cifar10(draw(num_train), draw(num_test))
