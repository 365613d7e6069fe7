"""What people install works away from the source tree."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A built wheel, unpacked where Python can find it."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", folder, PROJECT],
        check=True,
        capture_output=True,
    )
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def run(installed, cwd, *arguments):
    return subprocess.run(
        [sys.executable, "-m", "recombine", *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )


def test_the_wheel_brings_its_evidence_types_and_templates(installed, tmp_path):
    assert (installed / "recombine" / "py.typed").exists()
    where = subprocess.run(
        [sys.executable, "-c", "import recombine; print(recombine.__file__)"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
    )
    assert where.stdout.startswith(str(installed))
    lines = json.loads(run(installed, tmp_path, "table", "--evidence", "--json").stdout)
    shipped = {line["id"] for line in lines if line["ours"]}
    evidence = PROJECT / "evidence"
    committed = {json.loads(path.read_text())["row"] for path in evidence.rglob("record.json")}
    studies = {json.loads(path.read_text())["row"] for path in evidence.rglob("tune/*/record.json")}
    assert shipped == committed - studies
    run(installed, tmp_path, "report", "--evidence", "-o", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "<html" in page
    assert "200 complete trials" in page  # of a search


def test_the_version_is_one_number_everywhere(installed):
    import recombine

    [info] = installed.glob("recombine-*.dist-info")
    assert info.name == f"recombine-{recombine.__version__}.dist-info"
    citation = (PROJECT / "CITATION.cff").read_text()
    assert f"version: {recombine.__version__}" in citation.replace('"', "")
