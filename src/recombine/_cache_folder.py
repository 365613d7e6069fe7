"""Where compiled programs and decoded data are kept between processes; every room may ask."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """Returns the user's cache folder: `$RECOMBINE_CACHE`, or the system's usual place."""
    chosen = os.environ.get("RECOMBINE_CACHE")
    if chosen:
        return Path(chosen)
    import platformdirs

    return platformdirs.user_cache_path("recombine")
