import jax
import pytest


@pytest.fixture(scope="module")
def quick_compilation():
    """Compiles fast rather than well: these tests bring dozens of shapes, each for short fits."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)
