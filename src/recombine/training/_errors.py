"""What can go wrong while training, said in full."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from recombine.training._history import History, Seconds


class LearnerError(TypeError):
    """A learner whose `step` does not return what its `init` promised."""


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be read, written, or does not belong to this run."""


class StoppedEarly(Exception):
    """A run that ended before its last step; carries everything that was recorded."""

    def __init__(self, message: str, *, step: int, history: "History", seconds: "Seconds"):
        super().__init__(message)
        self.step = step
        self.history = history
        self.seconds = seconds


class NonFiniteError(StoppedEarly):
    """A step metric became NaN or infinite: names seed, step and last good checkpoint."""

    def __init__(
        self,
        *,
        seed: int,
        step: int,
        checkpoint: Path | None,
        history: "History",
        seconds: "Seconds",
    ):
        kept = (
            f"The last good checkpoint is {checkpoint}."
            if checkpoint
            else "No checkpoint was written before it."
        )
        super().__init__(
            f"a training metric of seed {seed} was not finite at step {step}. {kept} "
            f"Everything recorded before is kept. Lower the learning rate, or look at that step.",
            step=step,
            history=history,
            seconds=seconds,
        )
        self.seed = seed
        self.checkpoint = checkpoint


class Interrupted(StoppedEarly):
    """Ctrl-C, obeyed at the end of a chunk."""

    def __init__(
        self, *, step: int, checkpoint: Path | None, history: "History", seconds: "Seconds"
    ):
        how = (
            f"saved in {checkpoint}: the same call resumes from there"
            if checkpoint
            else "not saved, because no `checkpoints` were asked for"
        )
        super().__init__(
            f"stopped at step {step} as asked; {how}.", step=step, history=history, seconds=seconds
        )
        self.checkpoint = checkpoint
