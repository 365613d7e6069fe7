"""Settings of every test: strict shapes, and a cache folder that is thrown away."""

import gc
import os
import tempfile

# Set before JAX starts; processes that tests start inherit it and share what is compiled.
os.environ["RECOMBINE_CACHE"] = tempfile.mkdtemp(prefix="recombine-tests-")

import jax
import pytest

jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(scope="module")
def quick_compilation():
    """Compiles fast rather than well, for modules that compile much and compute little."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="module", autouse=True)
def _forget_compiled_programs():
    """Frees what a module has compiled.

    Every program takes places in the process's memory map, of which there are 65,530 on a usual
    Linux; a process that runs out of them dies in the compiler.
    """
    yield
    jax.clear_caches()
    gc.collect()
