"""Where CIFAR-10 meets the AND-mask."""

import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from recombine.experiments.agreement._cifar_config import CifarConfig
from recombine.methods.agreement import (
    AndMask,
    ImageAgreementLearner,
    ImageData,
    Relabel,
    ResNetShape,
)
from recombine.tasks import cifar10

MADE_UP = {"num_train": 80, "num_test": 20}
"""How many images are made up where the config does not say."""


def make_cifar_learner(config: CifarConfig, steps: int) -> ImageAgreementLearner:
    """Returns the learner of one row; every seed draws its own wrong labels, of the same images."""
    data = _data(config.images, config.num_train, config.num_test)
    examples = len(data.train_labels)
    seen = np.random.default_rng(0).permutation(examples)[: config.num_seen]
    return ImageAgreementLearner(
        data=data,
        seen=jnp.asarray(seen, jnp.int32),
        mask=(
            AndMask(config.threshold, float(config.rescale == "tensor"))
            if config.threshold > 0
            else None
        ),
        learning_rate=config.learning_rate,  # pyright: ignore[reportArgumentType]
        l2=config.l2,  # pyright: ignore[reportArgumentType]
        decay_steps=jnp.asarray([int(share * steps) for share in config.decay_at], jnp.int32),
        num_steps=steps,  # pyright: ignore[reportArgumentType]
        network=ResNetShape(
            width=config.width, norm="group" if config.mode == "group" else "batch"
        ),
        mode=config.mode,
        batch_size=config.batch_size,
        relabel=_relabel(config.wrong_labels) if config.wrong_labels > 0 else None,
        mean=cifar10.MEAN,
        std=cifar10.STD,
        at_once=config.at_once,
        precision=None if config.precision == "device" else config.precision,
    )


@functools.lru_cache(maxsize=1)  # read once for all rows of a process
def _data(images: str, num_train: int | None, num_test: int | None) -> ImageData:
    if images == "made-up":
        sizes = {"num_train": num_train, "num_test": num_test}
        chosen = {name: size for name, size in sizes.items() if size is not None}
        data = cifar10.make_up_images(**(MADE_UP | chosen))
    else:
        data = cifar10.load()
    train, test = _subset(data.train, num_train), _subset(data.test, num_test)
    return ImageData(*map(jnp.asarray, (*train, *test)))


def _subset(images: cifar10.LabelledImages, number: int | None) -> cifar10.LabelledImages:
    """Takes the same number of every class, the first ones."""
    if number is None:
        return images
    if number > len(images.labels):
        raise ValueError(f"there are {len(images.labels)} images; got a subset of {number}")
    rank = np.zeros(len(images.labels), np.int64)
    for label in range(len(cifar10.CLASSES)):
        of_class = images.labels == label
        rank[of_class] = np.arange(of_class.sum())
    chosen = np.sort(np.lexsort((images.labels, rank))[:number])
    return cifar10.LabelledImages(images.images[chosen], images.labels[chosen])


@functools.cache  # one function per share: a learner that is made again compiles nothing anew
def _relabel(fraction: float) -> Relabel:
    def draw(key: PRNGKeyArray, labels: Int[Array, " examples"]) -> cifar10.CorruptedLabels:
        return cifar10.corrupt_labels(key, labels, fraction)

    return draw
