r"""What the AND-mask leaves of gradients that mean nothing (Neitz, thesis, proposition 2)."""

import math
from typing import NamedTuple

from recombine.methods.agreement import min_agreement


class RandomGradientNorms(NamedTuple):
    """Squared norms to expect of random gradients, joined over environments."""

    mean: float
    """Of the plain mean: falls like 1 / environments."""
    masked: float
    """Of the masked mean: falls exponentially."""
    kept: float
    """The probability that a component passes the mask."""
    bound: float
    """The exponential that `masked` stays below."""


def expected_masked_norm(
    num_envs: int, threshold: float, dims: int, *, std: float = 1.0
) -> RandomGradientNorms:
    r"""Returns the squared norm of the mean of random gradients, with and without the AND-mask.

    Every component of every environment's gradient is normal with standard deviation $\sigma$. With
    $p$ of the $d$ signs positive and the mask open where $|2p - d| \ge \tau d$,

    $$E\|m \odot \bar g\|^2 = \frac{n\sigma^2}{d^2} \sum_{p:\,|2p - d| \ge \tau d}
    \binom dp 2^{-d} \Big[d\big(1 - \tfrac2\pi\big) + (2p - d)^2 \tfrac2\pi\Big]
    \;\le\; 2 n \sigma^2\, 2^{-d\,(1 - H_2(r))}$$

    where $r = (1 + \tau) / 2$ is the share of agreeing environments asked for and $H_2$ the binary
    entropy. The thesis states the rate without its constant; the last line of its proof garbles it.

    Args:
        num_envs: d.
        threshold: of the AND-mask, $\tau$.
        dims: the number n of components.
        std: $\sigma$.

    Example:
        >>> norms = expected_masked_norm(10, 0.6, 3000)
        >>> round(norms.mean), round(norms.masked, 3), norms.kept
        (300, 99.956, 0.109375)
    """
    if num_envs < 1 or dims < 1:
        raise ValueError(f"`num_envs` and `dims` must be at least 1; got {num_envs} and {dims}")
    if not 0.0 <= threshold <= 1.0:
        raise ValueError(
            f"`threshold` is the share of environments that must agree, in [0, 1]; got {threshold}"
        )
    least = min_agreement(threshold, num_envs)
    kept = masked = 0.0
    for positive in range(num_envs + 1):
        lead = abs(2 * positive - num_envs)
        if lead >= least:
            probability = math.comb(num_envs, positive) / 2**num_envs
            kept += probability
            masked += probability * (num_envs * (1 - 2 / math.pi) + lead**2 * 2 / math.pi)
    return RandomGradientNorms(
        mean=dims * std**2 / num_envs,
        masked=dims * std**2 / num_envs**2 * masked,
        kept=kept,
        bound=2 * dims * std**2 * decay_base(threshold) ** -num_envs,
    )


def decay_base(threshold: float) -> float:
    """Returns by what factor one more environment shrinks masked random gradients, in the long run.

    From 1 at threshold 0, where nothing is masked, to 2 at unanimity.

    Example:
        >>> round(decay_base(0.6), 4), decay_base(1.0)
        (1.2126, 2.0)
    """
    share = (1 + threshold) / 2
    entropy = -sum(part * math.log2(part) for part in (share, 1 - share) if part > 0)
    return 2 ** (1 - entropy)
