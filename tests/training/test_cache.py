from pathlib import Path

import jax
import pytest

from recombine.training import cache_folder, enable_compilation_cache


@pytest.fixture
def no_cache_chosen():
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    jax.config.update("jax_compilation_cache_dir", before)


def test_the_folder_can_be_chosen(monkeypatch, tmp_path, no_cache_chosen):
    monkeypatch.setenv("RECOMBINE_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    assert enable_compilation_cache() == tmp_path / "mine" / "jax"
    assert jax.config.jax_compilation_cache_dir == str(tmp_path / "mine" / "jax")


def test_the_users_own_choice_is_respected(monkeypatch, tmp_path, no_cache_chosen):
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    assert enable_compilation_cache() == tmp_path


def test_by_default_it_is_the_systems_place(monkeypatch):
    monkeypatch.delenv("RECOMBINE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder().name == "recombine"


def test_a_folder_that_cannot_be_made_is_a_warning(monkeypatch, tmp_path, no_cache_chosen):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("RECOMBINE_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="set RECOMBINE_CACHE|Set RECOMBINE_CACHE"):
        assert enable_compilation_cache() is None
    assert Path(tmp_path / "file").read_text() == "in the way"
