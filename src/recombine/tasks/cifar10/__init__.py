"""CIFAR-10: 60,000 small photographs of ten kinds of things, and what is done to their labels."""

from recombine.tasks.cifar10._images import (
    CLASSES as CLASSES,
    MEAN as MEAN,
    STD as STD,
    Cifar10 as Cifar10,
    LabelledImages as LabelledImages,
    make_up_images as make_up_images,
)
from recombine.tasks.cifar10._labels import (
    CorruptedLabels as CorruptedLabels,
    corrupt_labels as corrupt_labels,
)
from recombine.tasks.cifar10._load import (
    DataMissingError as DataMissingError,
    load as load,
)
from recombine.tasks.cifar10._official import (
    OFFICIAL_ARCHIVES as OFFICIAL_ARCHIVES,
    OfficialArchive as OfficialArchive,
)
