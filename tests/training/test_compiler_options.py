"""Options of a learner reach the compiler, and leave its numbers alone."""

import dataclasses
from typing import Any, ClassVar

import jax
import numpy as np
import pytest
from tiny_learners import NoisyWalk, noisy_walk

from recombine.methods.seq2seq import Seq2SeqLearner
from recombine.training import fit
from recombine.training._seeds import Compiler, TakeTurns, Together


class Harmless(NoisyWalk):
    compiler_options: ClassVar[Any] = {"xla_embed_ir_in_executable": True}


class ForGPUs(NoisyWalk):
    compiler_options: ClassVar[Any] = {"xla_gpu_enable_triton_gemm": False}


class Unknown(NoisyWalk):
    compiler_options: ClassVar[Any] = (("xla_there_is_no_such_option", True),)


@pytest.mark.parametrize("vectorize", [False, True])
def test_an_option_reaches_the_compiler_and_changes_no_number(vectorize: bool):
    plain = noisy_walk()
    told: Any = dict(steps=4, eval_every=2, seeds=(0, 1), vectorize=vectorize)
    with pytest.raises(jax.errors.JaxRuntimeError, match="xla_there_is_no_such_option"):
        fit(Unknown(plain.drift), **told)
    expected, got = fit(plain, **told), fit(Harmless(plain.drift), **told)
    for name, values in expected.history.curves().items():
        np.testing.assert_array_equal(values, got.history.curves()[name])


@pytest.mark.parametrize("runner", [TakeTurns, Together])
def test_learners_with_equal_options_share_their_programs(runner: Any):
    learners = [Harmless(noisy_walk().drift) for _ in range(2)]
    first, second = (runner(learner, (0,), Compiler(lambda now: None)) for learner in learners)
    plain = runner(noisy_walk(), (0,), Compiler(lambda now: None))
    assert first.programs is second.programs
    assert first.programs is not plain.programs
    for_gpus = runner(ForGPUs(noisy_walk().drift), (0,), Compiler(lambda now: None))
    assert (for_gpus.programs is plain.programs) == (jax.default_backend() != "gpu")


def test_options_of_seq2seq_are_no_part_of_the_learner():
    assert dict(Seq2SeqLearner.compiler_options) == {"xla_gpu_enable_triton_gemm": False}
    assert "compiler_options" not in {field.name for field in dataclasses.fields(Seq2SeqLearner)}
