import pytest


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation(quick_compilation):
    """Every module here."""
