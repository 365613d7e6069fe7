"""A request in plain data, for workers; and what a worker does with it."""

import dataclasses
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recombine.engines._local import run_row
from recombine.engines._parts import Plan, join_parts, run_part
from recombine.engines._requests import RunFailedError, RunRequest
from recombine.experiments import Row
from recombine.results import Record


@dataclass(frozen=True)
class Order:
    """A request in plain data, from which a worker makes the request again."""

    row: str
    variant: str
    seeds: tuple[int, ...]
    changes: tuple[str, ...]
    plugins: tuple[str, ...]
    folder: str  # its name; the worker must arrive at the same

    @classmethod
    def of(cls, request: RunRequest, plugins: Sequence[str]) -> "Order":
        """Describes a request.

        Raises:
            ValueError: the row with the request's changes is another run than the request.
        """
        order = cls(
            row=request.row.id,
            variant=request.variant_name,
            seeds=request.seeds,
            changes=tuple(f"{name}={json.dumps(v)}" for name, v in request.changed.items()),
            plugins=tuple(os.path.abspath(p) if Path(p).is_file() else p for p in plugins),
            folder=request.folder("").path.name,
        )
        if not order._fits(order._request_for(request.row)):
            raise ValueError(
                f"{order.row}: the request's `variant` is not the row's variant "
                f"{order.variant!r} with `changed` applied, so workers could not make it again; "
                f"make the request by RunRequest.of(changes=...)"
            )
        return order

    def to_json(self) -> dict[str, Any]:
        """Returns what JSON can write."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Order":
        """Undoes `to_json`, also when JSON has made lists of tuples."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in data.items()
        }
        return cls(**fields)

    def request(self) -> RunRequest:
        """Makes the request again, with the plugins loaded."""
        from recombine.experiments import find_row, load_systems

        made = self._request_for(find_row(self.row, load_systems(self.plugins)))
        if not self._fits(made):
            raise RunFailedError(
                f"{self.row}: a worker reads its settings in another way than the process that "
                f"asked for them; have the same version of recombine, and of plugins, wherever "
                f"workers run, and start again if they were changed meanwhile"
            )
        return made

    def _request_for(self, row: Row) -> RunRequest:
        made = RunRequest.of(row, self.variant, changes=self.changes)
        return dataclasses.replace(made, seeds=self.seeds)

    def _fits(self, made: RunRequest) -> bool:
        return made.folder("").path.name == self.folder


def run_whole(order: Order, runs: Path, checkpoint_seconds: float, *, progress: Any) -> Record:
    """Runs in a worker: all seeds of a row, as in a process of its own."""
    return run_row(
        order.request(),
        runs,
        progress=progress,
        wait=False,
        checkpoint_seconds=checkpoint_seconds,
    )


def run_one_part(
    order: Order, runs: Path, checkpoint_seconds: float, seeds: Sequence[int], *, progress: Any
) -> None:
    """Runs in a worker: some of the seeds of a row."""
    request = order.request()
    run_part(
        request,
        request.folder(runs),
        tuple(seeds),
        progress=progress,
        checkpoint_seconds=checkpoint_seconds,
    )


def join(
    order: Order, runs: Path, checkpoint_seconds: float, plan: Plan, *, progress: Any
) -> Record:
    """Runs in a worker: makes one record of all parts, of which the caller holds the folder."""
    request = order.request()
    return join_parts(request, request.folder(runs), tuple(tuple(seeds) for seeds in plan))


def share_a_program(order: Order, runs: Path, checkpoint_seconds: float, *, progress: Any) -> bool:
    """Runs in a worker, for it needs the device: says whether seeds would be one program there."""
    from recombine.training import seeds_share_a_program

    request = order.request()
    return seeds_share_a_program(
        request.row.make_learner(request.variant.config, request.variant.steps)
    )
