import jax
import pytest


@pytest.fixture(autouse=True, scope="module")
def _quick_compilation():
    """Compiles without costly optimizations: these tests compile much and compute little."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
