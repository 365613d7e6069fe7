"""Compiled programs are kept between processes."""

import warnings
from pathlib import Path

from recombine._cache_folder import cache_folder


def enable_compilation_cache() -> Path | None:
    """Turns JAX's persistent compilation cache on, unless the user has chosen one already.

    Returns its folder, or `None` with a warning when the folder cannot be made.
    """
    import jax

    chosen = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if chosen is not None:
        return Path(chosen)
    folder = cache_folder() / "jax"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        warnings.warn(
            f"compiled programs are not kept: {folder} cannot be made ({error.strerror}). "
            f"Set RECOMBINE_CACHE to a folder that can be written.",
            stacklevel=2,
        )
        return None
    jax.config.update("jax_compilation_cache_dir", str(folder))
    return folder
