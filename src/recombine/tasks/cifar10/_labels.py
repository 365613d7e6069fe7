"""Labels that are wrong on purpose (Neitz, thesis, §3.3.2)."""

from functools import partial
from typing import NamedTuple

import jax
import jax.random as jr
from jaxtyping import Array, Bool, Int, PRNGKeyArray

from recombine.tasks.cifar10._images import CLASSES


class CorruptedLabels(NamedTuple):
    """Labels, and which of them differ from the true ones."""

    labels: Int[Array, " examples"]
    changed: Bool[Array, " examples"]


@partial(jax.jit, static_argnames=("fraction", "num_classes"))
def corrupt_labels(
    key: PRNGKeyArray,
    labels: Int[Array, " examples"],
    fraction: float,
    *,
    num_classes: int = len(CLASSES),
) -> CorruptedLabels:
    """Draws a share of the labels anew, uniformly from all classes.

    The share is chosen without replacement. A label drawn anew may turn out as it was, so that of
    ten classes about a tenth of the share stay right: `changed` marks the others. The thesis says
    "shuffled"; the authors' code draws anew, and so does this.

    Args:
        key: of the draw.
        labels: the true labels.
        fraction: 1 for random labels, 0.25 for the label noise of the thesis, 0 for none.
        num_classes: labels are drawn from 0 up to this.

    Example:
        >>> import jax.numpy as jnp, jax.random as jr
        >>> labels, changed = corrupt_labels(jr.key(0), jnp.zeros(1000, int), 0.25)
        >>> bool(changed.sum() <= 250), bool((changed == (labels != 0)).all())
        (True, True)
    """
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"`fraction` is a share of the labels, in [0, 1]; got {fraction}")
    choice_key, label_key = jr.split(key)
    chosen = jr.permutation(choice_key, len(labels))[: round(fraction * len(labels))]
    drawn = jr.randint(label_key, chosen.shape, 0, num_classes, labels.dtype)
    corrupted = labels.at[chosen].set(drawn)
    return CorruptedLabels(corrupted, corrupted != labels)
