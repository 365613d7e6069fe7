"""Trajectories of simulated worlds: as padded arrays, kept on disk, and as pictures."""

from recombine.tasks.trajectories._kept import (
    code_version as code_version,
    keep_or_make as keep_or_make,
)
from recombine.tasks.trajectories._pictures import (
    enlarge as enlarge,
    save_animation as save_animation,
    save_picture as save_picture,
)
from recombine.tasks.trajectories._streams import (
    SPLITS as SPLITS,
    Split as Split,
    first_kept as first_kept,
    item_generator as item_generator,
)
from recombine.tasks.trajectories._trajectories import (
    Trajectories as Trajectories,
)
