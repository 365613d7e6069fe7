"""Hand-made runs, and a browser."""

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from chromium_pipe import Chromium, find_chromium
from runs_by_hand import write_run_to

from recombine.experiments import SYSTEMS
from recombine.results import Record

WriteRun = Callable[..., Record]


@pytest.fixture(scope="module")
def one_system() -> Iterator[None]:
    """A page of one system, for tests that count its lines."""
    with pytest.MonkeyPatch.context() as patch:
        system = SYSTEMS["ilc"]
        [group] = (group for group in system.groups if group.id == "ilc/synthetic")
        group = dataclasses.replace(group, rows=group.rows[:3])
        few = dataclasses.replace(system, groups=(group,))
        patch.setattr("recombine.report._page.SYSTEMS", {"ilc": few})
        yield


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Returns a function that leaves a run in `tmp_path / "runs"`, as if a row had been run."""

    def write(row: str, variant: str = "full", **fields: Any) -> Record:
        return write_run_to(tmp_path / "runs", row, variant, **fields)

    return write


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """A running browser; where there is none, tests skip, but not in continuous integration."""
    executable = find_chromium()
    if executable is None:
        message = (
            "Chromium was not found; on Debian it comes with `apt-get install chromium`. "
            "Without it the page is not tested in a browser."
        )
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    with Chromium(executable) as browser:
        yield browser
