"""Where SCAN and mutual exclusivity meet the networks."""

import functools
from collections.abc import Callable
from typing import Any

from recombine.experiments.seq2seq._config import Seq2SeqConfig
from recombine.methods.seq2seq import (
    MetaSeq2SeqConfig,
    Numerics,
    OptimizerConfig,
    PlainSeq2SeqConfig,
    Seq2SeqLearner,
    SyntacticAttentionConfig,
)
from recombine.tasks import scan
from recombine.tasks.mutual_exclusivity import MutualExclusivity

SYNTACTIC_VALIDATION = 0.2
"""The share of its training lines that syntactic attention keeps for validation."""


def make_seq2seq_learner(config: Seq2SeqConfig, steps: int) -> Seq2SeqLearner:
    """Returns the learner of one row."""
    source = _source(
        config.task,
        config.num_extras,
        config.max_actions,
        config.batch_size,
        SYNTACTIC_VALIDATION if config.network == "syntactic" else 0.0,
    )
    drop_at = None if config.drop_at is None else int(config.drop_at * steps)
    return Seq2SeqLearner(
        source=source,
        architecture=_architecture(config, source.vocabulary),
        optimizer=OptimizerConfig(
            learning_rate=config.learning_rate, drop_at=drop_at, clip_norm=config.clip_norm
        ),
        support_loss=config.support_loss,
    )


def _architecture(config: Seq2SeqConfig, vocabulary: Any) -> Any:
    sizes = {
        "num_inputs": vocabulary.inputs.size,
        "num_outputs": vocabulary.outputs.size,
        "dropout": config.dropout,
        "numerics": Numerics(precision=config.precision, unroll=config.unroll),
    }
    if config.network == "meta":
        return MetaSeq2SeqConfig(size=config.size, attends=config.decoder_attention, **sizes)
    if config.network == "plain":
        return PlainSeq2SeqConfig(size=config.size, **sizes)
    share = 120 / 200  # of the meanings' size in the syntax's, in the released code
    return SyntacticAttentionConfig(
        meaning_size=round(share * config.size), syntax_size=config.size, **sizes
    )


@functools.cache  # 20,910 commands: made once for all rows of a process
def _source(
    task: str,
    num_extras: int,
    max_actions: int | None,
    batch_size: int,
    validation_fraction: float,
) -> Any:
    def batches(split: str) -> Callable[[], Any]:
        return lambda: scan.standard_batches(
            split,
            batch_size=batch_size,
            max_actions=max_actions,
            validation_fraction=validation_fraction,
        )

    makers: dict[str, Callable[[], Any]] = {
        "mutual-exclusivity": MutualExclusivity,
        "add-jump/permutation": lambda: scan.add_jump_permutation(max_actions=max_actions),
        "add-jump/augmentation": lambda: scan.add_jump_augmentation(
            num_extras=num_extras, max_actions=max_actions
        ),
        "around-right/augmentation": lambda: scan.around_right(
            num_extras=num_extras, max_actions=max_actions
        ),
        "length/augmentation": lambda: scan.longer_commands(num_extras=num_extras),
        "add-jump/augmented-batches": lambda: scan.augmented_batches(
            num_extras=num_extras, batch_size=batch_size, max_actions=max_actions
        ),
        "add-jump/batches": batches("add-jump"),
        "around-right/batches": batches("around-right"),
        "length/batches": batches("length"),
    }
    return makers[task]()
