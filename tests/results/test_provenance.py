import subprocess

from recombine.results import _provenance


def git(folder, *words):
    settings = ("-c", "user.name=Ann", "-c", "user.email=ann@example.com")
    subprocess.run(["git", "-C", str(folder), *settings, *words], check=True, capture_output=True)


def test_a_change_anywhere_in_the_package_marks_the_commit(tmp_path, monkeypatch):
    package = tmp_path / "package"
    (package / "results").mkdir(parents=True)
    here, elsewhere = package / "results" / "_provenance.py", package / "method.py"
    for file in (here, elsewhere, tmp_path / "README.md"):
        file.write_text("as committed")
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "a package")
    monkeypatch.delenv("RECOMBINE_COMMIT", raising=False)
    monkeypatch.setattr(_provenance, "__file__", str(here))
    clean = _provenance._commit()
    assert clean is not None
    assert len(clean) == 40
    (tmp_path / "README.md").write_text("changed, and no part of the package")
    assert _provenance._commit() == clean
    elsewhere.write_text("changed")
    assert _provenance._commit() == f"{clean}-modified"
