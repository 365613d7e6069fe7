"""Checkpoints between chunks: Orbax files, committed by an atomic rename, never pickled."""

import contextlib
import logging
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import PyTree

from recombine.training._errors import CheckpointError

FORMAT = 1


class Restored(NamedTuple):
    """A checkpoint read back."""

    step: int
    state: PyTree[Any]
    notes: dict[str, Any]


class Checkpoints:
    """A folder of checkpoints of one run.

    Args:
        folder: made when the first checkpoint is written.
        every_seconds: at most one checkpoint in this time; the last state is always saved.
        keep: how many to keep. Two, so that one damaged file costs minutes and not the run.
    """

    def __init__(self, folder: str | Path, *, every_seconds: float = 30.0, keep: int = 2):
        if keep < 1:
            raise ValueError(f"`keep` is the number of checkpoints to keep, at least 1; got {keep}")
        self.folder = Path(folder).absolute()
        self.every_seconds = every_seconds
        self.keep = keep
        self._saved_at = time.monotonic()
        self._last: Path | None = None

    @property
    def last(self) -> Path | None:
        """The newest checkpoint that is known to be good."""
        return self._last

    def is_due(self) -> bool:
        """Says whether enough time has passed since the last one."""
        return time.monotonic() - self._saved_at >= self.every_seconds

    def save(self, step: int, state: PyTree[Any], notes: dict[str, Any]) -> Path:
        """Writes the state after `step` and the JSON `notes` that belong to it."""
        return self.save_leaves(step, [_to_host(leaf) for leaf in _array_leaves(state)], notes)

    def save_leaves(self, step: int, leaves: list[np.ndarray], notes: dict[str, Any]) -> Path:
        """Writes a state of which only the arrays are at hand, in the order of its leaves."""
        import orbax.checkpoint as ocp

        # Orbax refuses empty arrays: they are made again from the template.
        arrays = {str(i): leaf for i, leaf in enumerate(leaves) if leaf.size}
        described = {"format": FORMAT, "leaves": [_describe(leaf) for leaf in leaves], **notes}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with _manager(self.folder, self.keep) as manager:
                manager.save(
                    step,
                    args=ocp.args.Composite(
                        state=ocp.args.StandardSave(arrays), notes=ocp.args.JsonSave(described)
                    ),
                )
        except (OSError, ValueError) as error:
            kept = f"{self._last} is still there" if self._last else "none was written before"
            raise CheckpointError(
                f"the checkpoint of step {step} could not be written to {self.folder}: {error}. "
                f"Of the earlier ones, {kept}. Free space or change the folder, then run again."
            ) from error
        self._saved_at = time.monotonic()
        self._last = self.folder / str(step)
        return self._last

    def restore(self, template: PyTree[Any], *, seeds: tuple[int, ...]) -> Restored | None:
        """Reads the newest readable checkpoint, or returns `None` when there is none.

        A damaged one is moved aside with a warning and the one before it is used; when none of
        those present can be read, that is an error, never a silent new start.

        Args:
            template: a state of the shapes to expect; what is not an array is taken from it.
            seeds: the seeds of this run, in order.
        """
        if not self.folder.is_dir():
            return None
        with _manager(self.folder, self.keep) as manager:
            steps = sorted(manager.all_steps(), reverse=True)
        failures: list[tuple[int, Exception]] = []
        for step in steps:
            try:
                arrays, notes = self._read(step)
            except Exception as error:  # Orbax raises many kinds for a damaged file.
                failures.append((step, error))
                continue
            state = _fill(template, arrays, notes, seeds=seeds, path=self.folder / str(step))
            for failed, error in failures:
                self._set_aside(failed, error)
            self._last = self.folder / str(step)
            return Restored(step, state, notes)
        if failures:
            step, error = failures[0]
            raise CheckpointError(
                f"none of the {len(failures)} checkpoints in {self.folder} can be read "
                f"(step {step}: {_first_line(error)}). Restore the folder from a backup, or "
                f"delete it to start this run again from step 0."
            ) from error
        return None

    def read_leaves(self, step: int) -> tuple[list[np.ndarray], dict[str, Any]]:
        """Reads the arrays of a state and its notes; of the learner nothing need be known."""
        try:
            arrays, notes = self._read(step)
        except Exception as error:  # Orbax raises many kinds for a damaged file.
            raise CheckpointError(
                f"{self.folder / str(step)} cannot be read ({_first_line(error)})"
            ) from error
        described = enumerate(notes.pop("leaves"))
        notes.pop("format")
        leaves = [
            arrays[str(i)] if str(i) in arrays else np.zeros(shape, dtype)
            for i, (dtype, shape) in described
        ]
        return leaves, notes

    def _read(self, step: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        import orbax.checkpoint as ocp

        with _manager(self.folder, self.keep) as manager:
            read = manager.restore(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.StandardRestore(), notes=ocp.args.JsonRestore()
                ),
            )
        return dict(read.state), dict(read.notes)

    def _set_aside(self, step: int, error: Exception) -> None:
        aside = self.folder.with_name(self.folder.name + "-unreadable")
        aside.mkdir(exist_ok=True)
        target = aside / f"{step}-{time.time_ns()}"
        (self.folder / str(step)).rename(target)
        warnings.warn(
            f"the checkpoint of step {step} cannot be read ({_first_line(error)}); it was moved "
            f"to {target} and the run goes on from an earlier one",
            stacklevel=3,
        )


@contextlib.contextmanager
def _manager(folder: Path, keep: int):
    import orbax.checkpoint as ocp

    logging.getLogger("absl").setLevel(logging.ERROR)  # Orbax narrates every save
    options = ocp.CheckpointManagerOptions(
        max_to_keep=keep, enable_async_checkpointing=False, create=True
    )
    with ocp.CheckpointManager(folder, options=options) as manager:
        yield manager


def _array_leaves(state: PyTree[Any]) -> list[Any]:
    return jax.tree.leaves(eqx.filter(state, eqx.is_array))


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _to_host(leaf: Any) -> np.ndarray:
    return np.asarray(jr.key_data(leaf) if _is_key(leaf) else leaf)


def _describe(leaf: np.ndarray) -> list[Any]:
    return [str(leaf.dtype), list(leaf.shape)]


def _fill(
    template: PyTree[Any],
    arrays: dict[str, np.ndarray],
    notes: dict[str, Any],
    *,
    seeds: tuple[int, ...],
    path: Path,
) -> PyTree[Any]:
    if notes.get("format") != FORMAT:
        raise CheckpointError(
            f"{path} has format {notes.get('format')!r}, this version reads {FORMAT}. "
            f"Use the version that wrote it, or delete the folder to start again."
        )
    if tuple(notes["history"]["seeds"]) != seeds:
        raise CheckpointError(
            f"{path} belongs to the seeds {notes['history']['seeds']}, not to {list(seeds)}. "
            f"Give `checkpoints` another folder, or ask for those seeds."
        )
    dynamic, static = eqx.partition(template, eqx.is_array)
    paths, treedef = jax.tree_util.tree_flatten_with_path(dynamic)
    wanted = [_describe(_to_host(leaf)) for _, leaf in paths]
    if wanted != notes["leaves"]:
        pairs = zip(paths, wanted, notes["leaves"], strict=False)
        differing = next(
            (f"`{jax.tree_util.keystr(p[0])}` is {w}, was {g}" for p, w, g in pairs if w != g),
            f"it has {len(notes['leaves'])} arrays, this state {len(wanted)}",
        )
        raise CheckpointError(
            f"{path} holds a state of another shape: {differing}. It was written by a learner "
            f"with other settings; give `checkpoints` another folder."
        )
    leaves = []
    for i, (_, leaf) in enumerate(paths):
        value = arrays.get(str(i), np.zeros(_to_host(leaf).shape, _to_host(leaf).dtype))
        leaves.append(
            jr.wrap_key_data(jnp.asarray(value), impl=jr.key_impl(leaf))
            if _is_key(leaf)
            else jnp.asarray(value)
        )
    return eqx.combine(jax.tree.unflatten(treedef, leaves), static)


def _first_line(error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]
