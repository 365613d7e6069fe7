"""The numbers of one run on CIFAR-10."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class CifarConfig:
    """Images, each its own environment; the defaults are those of the thesis, App. B.2.5.

    The thesis is silent on `rescale` and `l2`, which are those of the authors' command. It does not
    speak of modes; its code does as "exact" does, which takes 80 backward passes a step.
    """

    images: Literal["cifar-10", "made-up"] = "cifar-10"
    num_train: Annotated[int, Field(ge=1)] | None = None  # a subset, with all classes alike
    num_test: Annotated[int, Field(ge=1)] | None = None
    wrong_labels: Annotated[float, Field(ge=0, le=1)] = 0.0  # the share drawn anew
    mode: Literal["exact", "split", "frozen", "group"] = "split"
    at_once: Annotated[int, Field(ge=1)] = 1  # backward passes in mode "exact"
    precision: Literal["device", "float32"] = "device"  # of matrix products
    width: Annotated[float, Field(gt=0)] = 1.0  # of the network
    batch_size: Annotated[int, Field(ge=1)] = 80
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.0  # 0 is ordinary training, without a mask
    rescale: Literal["tensor"] | None = "tensor"
    learning_rate: Annotated[float, Field(gt=0)] = 5e-4
    decay_at: tuple[Annotated[float, Field(gt=0, le=1)], ...] = (0.5, 0.75)  # of all steps
    l2: Annotated[float, Field(ge=0)] = 1e-6
    num_seen: Annotated[int, Field(ge=1)] = 10_000  # training images measured on before the end
