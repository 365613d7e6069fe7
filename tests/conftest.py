"""Settings of every test: strict shapes, and a cache folder that is thrown away."""

import os
import tempfile

# Set before JAX starts; processes that tests start inherit it and share what is compiled.
os.environ["RECOMBINE_CACHE"] = tempfile.mkdtemp(prefix="recombine-tests-")

import jax

jax.config.update("jax_numpy_rank_promotion", "raise")
