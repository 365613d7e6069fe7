r"""Consistency of quadratic landscapes: what curvature alone says (Neitz, thesis, §3.2.2, B.1.2).

If $L_e(\theta) = \tfrac12 (\theta - \theta^*)^\top H_e (\theta - \theta^*)$ in every environment,
the score of $\theta^*$ has a closed form, and it is bounded by how much the arithmetic mean of the
Hessians exceeds their geometric mean. Everything here is computed in double precision, outside JAX,
from Hessians given as matrices or, with one axis less, as diagonals.
"""

import itertools
from typing import Any

import numpy as np
from jaxtyping import Float

Matrices = Float[np.ndarray, "envs dims dims"]
Hessians = Float[np.ndarray, " envs dims *dims"]
"""One matrix for every environment, or one diagonal."""

FLAT = 1e-12
"""A curvature below this share of the greatest counts as none."""


def quadratic_inconsistency(hessians: Hessians, epsilon: float) -> float:
    r"""Returns the exact score of the shared minimum of quadratic landscapes.

    $$\mathcal I^\epsilon = \epsilon \max_{e, e'} \lambda_{\max}(H_e^{-1} H_{e'})$$

    A direction that is flat in one environment and not in another makes it infinite.

    Args:
        hessians: `[envs, dims, dims]`, positive semidefinite, or `[envs, dims]`, their diagonals.
        epsilon: how far a loss may move before its environment notices.

    Example:
        >>> round(quadratic_inconsistency([[0.05, 1.0], [1.0, 0.05]], epsilon=1.0), 6)
        20.0
    """
    matrices = _checked(hessians)
    pairs = itertools.product(matrices, repeat=2)
    return float(epsilon * max(_largest_ratio(own, other) for own, other in pairs))


def determinant_ratio(hessians: Hessians) -> float:
    r"""Returns $\det H_{+} / \det H_{\wedge}$: the arithmetic over the geometric mean, at least 1.

    The geometric (Karcher) mean is not needed for it: its determinant is the geometric mean of the
    determinants. The thesis calls this ratio of its figures a volume; the areas of the drawn
    ellipses differ by its root.

    Example:
        >>> round(determinant_ratio([[0.05, 1.0], [1.0, 0.05]]), 4)
        5.5125
    """
    matrices = _checked(hessians)
    arithmetic = _log_det(matrices.mean(axis=0))
    geometric = np.mean([_log_det(matrix) for matrix in matrices])
    if arithmetic == -np.inf:
        raise ValueError(
            "all `hessians` are flat in the same direction, so both means have determinant 0 and "
            "their ratio is undefined; leave that direction out"
        )
    with np.errstate(over="ignore"):
        return float(np.exp(arithmetic - geometric))


def hessian_bound(hessians: Hessians, epsilon: float, *, constant: float = 4.0) -> float:
    r"""Bounds the score from above by the means of the Hessians (Neitz, thesis, proposition 3).

    $$\mathcal I^\epsilon \le 4 \epsilon \Big(\frac{\det H_{A+B}}{\det H_{A \wedge B}}\Big)^2$$

    The thesis prints 2 in place of 4: its proof takes a root of both sides and does not square the
    factor when it undoes that. Curvatures of 1 and 10 score 10 epsilon, where the printed bound is
    6.05 epsilon. The proof is for two diagonal Hessians. Score and ratio are unchanged by a change
    of coordinates, and any two positive definite matrices are diagonal in common coordinates, so it
    holds for any two. Of more than two environments the worst pair counts.

    Args:
        hessians: `[envs, dims, dims]`, positive definite, or `[envs, dims]`, their diagonals.
        epsilon: how far a loss may move before its environment notices.
        constant: 2 is what the thesis prints.

    Example:
        >>> round(hessian_bound([[1.0], [10.0]], epsilon=1.0), 3)
        12.1
        >>> round(hessian_bound([[1.0], [10.0]], epsilon=1.0, constant=2.0), 3)
        6.05
    """
    matrices = _checked(hessians)
    if len(matrices) < 2:
        raise ValueError(f"the bound compares environments, at least 2; got {len(matrices)}")
    pairs = itertools.combinations(range(len(matrices)), 2)
    worst = max(determinant_ratio(matrices[list(pair)]) for pair in pairs)
    return float(constant * epsilon * worst**2)


def karcher_mean(
    matrices: Matrices, *, tolerance: float = 1e-10, iterations: int = 500
) -> Float[np.ndarray, "dims dims"]:
    r"""Returns the geometric mean of positive definite matrices (Ando, Li and Mathias 2004).

    The one positive definite X with

    $$\sum_j \log(A_j^{-1} X) = 0$$

    It is the centre of the matrices in the geometry where $A$ and $MAM^\top$ look alike. Matrices
    that commute have the element-wise geometric mean of their eigenvalues. Found by steps along
    the mean of the logarithms, shortened whenever the residual grows.

    Args:
        matrices: `[envs, dims, dims]`.
        tolerance: of the residual, the largest entry of the mean logarithm.
        iterations: after which it gives up with an error.

    Example:
        >>> import numpy as np
        >>> mean = karcher_mean([[[1.0, 0.0], [0.0, 4.0]], [[4.0, 0.0], [0.0, 1.0]]])
        >>> np.allclose(mean, [[2.0, 0.0], [0.0, 2.0]])
        True
    """
    stacked = _checked(np.asarray(matrices, float))
    if np.ndim(matrices) != 3:
        raise ValueError(f"`matrices` must be [envs, dims, dims]; got {np.ndim(matrices)} axes")
    for index, matrix in enumerate(stacked):
        if not np.linalg.eigvalsh(matrix)[0] > 0:
            raise ValueError(
                f"the geometric mean is of positive definite matrices; number {index} is flat in "
                f"some direction"
            )
    mean = _function_of(_mean_log(stacked), np.exp)  # exact where the matrices commute
    before, stride = np.inf, 1.0
    best = mean
    for _ in range(iterations):
        root, inverse = _function_of(mean, np.sqrt), _function_of(mean, lambda v: v**-0.5)
        step = _mean_log(inverse @ stacked @ inverse)
        residual = float(np.max(np.abs(step)))
        if residual <= tolerance:
            return _symmetric(mean)
        if residual > before:
            stride, mean = stride / 2, best
            before = np.inf
            continue
        before, best = residual, mean
        mean = _symmetric(root @ _function_of(stride * step, np.exp) @ root)
    raise ValueError(
        f"the geometric mean was not found in {iterations} iterations: a residual of {before:.3g} "
        f"is left; the matrices may be too badly conditioned for double precision"
    )


def _largest_ratio(own: Float[np.ndarray, "n n"], other: Float[np.ndarray, "n n"]) -> float:
    """Returns the greatest of `other`'s curvature over `own`'s, over all directions."""
    values, vectors = np.linalg.eigh(own)
    is_flat = values <= FLAT * max(values[-1], np.linalg.norm(other))
    free = vectors[:, is_flat]
    if np.linalg.norm(free.T @ other @ free) > FLAT * np.linalg.norm(other):
        return float("inf")
    if is_flat.all():
        return 0.0
    white = vectors[:, ~is_flat] / np.sqrt(values[~is_flat])
    return float(np.linalg.eigvalsh(white.T @ other @ white)[-1])


def _checked(hessians: Any) -> Matrices:
    """Makes matrices of diagonals, and refuses what is no landscape around a minimum."""
    given = np.asarray(hessians, np.float64)
    if given.ndim == 2:
        given = given[:, :, None] * np.eye(given.shape[1])
    if given.ndim != 3 or given.shape[1] != given.shape[2] or given.size == 0:
        raise ValueError(
            f"Hessians must be [envs, dims, dims], or [envs, dims] for diagonals; got shape "
            f"{np.shape(hessians)}"
        )
    for index, matrix in enumerate(given):
        if not np.isfinite(matrix).all():
            raise ValueError(f"the Hessian of environment {index} is not finite")
        size = np.abs(matrix).max()
        if np.abs(matrix - matrix.T).max() > 1e-5 * size:
            raise ValueError(f"the Hessian of environment {index} is not symmetric")
        lowest = np.linalg.eigvalsh(_symmetric(matrix))[0]
        if lowest < -1e-6 * size:
            raise ValueError(
                f"the Hessian of environment {index} has the negative eigenvalue {lowest:.3g}: "
                f"the point is no minimum there, and curvature alone does not tell its score; "
                f"use `inconsistency`"
            )
    return np.stack([_symmetric(matrix) for matrix in given])


def _log_det(matrix: Float[np.ndarray, "n n"]) -> float:
    values = np.linalg.eigvalsh(matrix)
    return float(np.sum(np.log(values))) if values[0] > FLAT * values[-1] else -np.inf


def _mean_log(matrices: Matrices) -> Float[np.ndarray, "dims dims"]:
    logs = [_function_of(_symmetric(matrix), np.log) for matrix in matrices]
    return np.mean(logs, axis=0)


def _function_of(matrix: Float[np.ndarray, "n n"], function: Any) -> Float[np.ndarray, "n n"]:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * function(values)) @ vectors.T


def _symmetric(matrix: Float[np.ndarray, "n n"]) -> Float[np.ndarray, "n n"]:
    return (matrix + matrix.T) / 2
