"""The numbers of one run of a sequence-to-sequence row."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

TaskName = Literal[
    "mutual-exclusivity",
    "add-jump/permutation",
    "add-jump/augmentation",
    "around-right/augmentation",
    "length/augmentation",
    "add-jump/augmented-batches",
    "add-jump/batches",
    "around-right/batches",
    "length/batches",
]
"""Episodes with a support set, and plain batches for the networks without a memory."""


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Seq2SeqConfig:
    """One network on one task; the defaults are those of Lake (2019), §4.1."""

    task: TaskName
    network: Literal["meta", "plain", "syntactic"] = "meta"
    num_extras: Annotated[int, Field(ge=0)] = 20  # further words, where the task has any
    max_actions: Annotated[int, Field(ge=1)] | None = None  # only commands this short
    batch_size: Annotated[int, Field(ge=1)] = 40  # of the networks without a memory
    size: Annotated[int, Field(ge=2)] = 200
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5
    decoder_attention: bool = True
    support_loss: bool = True
    learning_rate: Annotated[float, Field(gt=0)] = 1e-3
    drop_at: Annotated[float, Field(gt=0, lt=1)] | None = 0.5  # of all steps
    clip_norm: Annotated[float, Field(gt=0)] | None = 50.0
    precision: Literal["float32", "highest", "bfloat16"] = "float32"
    unroll: Annotated[int, Field(ge=1)] = 1
