"""Means of Hessians, the closed form of the score and its bound, in double precision."""

import numpy as np
import pytest

from recombine.methods.consistency import (
    determinant_ratio,
    diagonal_bound,
    diagonal_inconsistency,
    hessian_bound,
    karcher_mean,
    quadratic_inconsistency,
)

RNG = np.random.default_rng(0)


def random_spd(count, dims, decades=1.5):
    found = []
    for _ in range(count):
        axes, _ = np.linalg.qr(RNG.normal(size=(dims, dims)))
        found.append(axes @ np.diag(10 ** RNG.uniform(-decades, decades, dims)) @ axes.T)
    return np.stack(found)


def log_residual(matrices, mean):
    """The defining equation, by a general (not symmetric) eigendecomposition."""
    total = 0
    for matrix in matrices:
        values, vectors = np.linalg.eig(np.linalg.solve(matrix, mean))
        total = total + vectors @ np.diag(np.log(values)) @ np.linalg.inv(vectors)
    return np.abs(total).max()


def test_the_score_is_what_looking_all_around_the_boundary_finds():
    angle = np.linspace(0, 2 * np.pi, 20_001)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    for _ in range(10):
        one, other = random_spd(2, 2)
        highest = 0.0
        for own, judge in ((one, other), (other, one)):
            values, vectors = np.linalg.eigh(own)
            boundary = vectors @ (circle * np.sqrt(2 * 0.3 / values)[:, None])  # own loss 0.3
            highest = max(highest, 0.5 * np.einsum("ik,ij,jk->k", boundary, judge, boundary).max())
        exact = quadratic_inconsistency(np.stack([one, other]), 0.3)
        assert highest == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize(("low", "ratio", "times"), [(0.05, 5.5125, 20), (0.01, 25.5025, 100)])
def test_the_figures_of_the_thesis(low, ratio, times):
    diagonals = np.array([[low, 1.0], [1.0, low]])
    assert determinant_ratio(diagonals) == pytest.approx(ratio)
    assert quadratic_inconsistency(diagonals, 1.0) == pytest.approx(times)
    matrices = np.stack([np.diag(diagonal) for diagonal in diagonals])
    assert quadratic_inconsistency(matrices, 0.5) == pytest.approx(times / 2)
    np.testing.assert_allclose(karcher_mean(matrices), np.eye(2) * low**0.5, atol=1e-12)


def test_equal_hessians_score_epsilon_and_a_flat_direction_of_one_is_infinite():
    same = np.repeat(random_spd(1, 3), 2, axis=0)
    assert quadratic_inconsistency(same, 0.7) == pytest.approx(0.7)
    assert quadratic_inconsistency([[0.0, 1.0], [1.0, 1.0]], 1e-9) == np.inf
    assert hessian_bound([[0.0, 1.0], [1.0, 1.0]], 1e-9) == np.inf
    assert quadratic_inconsistency([[0.0, 1.0], [0.0, 3.0]], 1.0) == pytest.approx(3.0)


@pytest.mark.parametrize("dims", [1, 2, 5])
def test_the_geometric_mean_solves_its_equation(dims):
    for count in (2, 3, 6):
        matrices = random_spd(count, dims)
        mean = karcher_mean(matrices)
        assert log_residual(matrices, mean) < 1e-8
        np.testing.assert_array_equal(mean, mean.T)
        assert np.linalg.eigvalsh(mean)[0] > 0


def test_the_geometric_mean_of_two_is_the_closed_form():
    one, other = random_spd(2, 4)
    values, vectors = np.linalg.eigh(one)
    root = vectors @ np.diag(np.sqrt(values)) @ vectors.T
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ other @ inverse)
    closed = root @ vectors @ np.diag(np.sqrt(values)) @ vectors.T @ root
    np.testing.assert_allclose(karcher_mean(np.stack([one, other])), closed, rtol=1e-8, atol=1e-9)


def test_commuting_matrices_have_the_geometric_mean_of_their_eigenvalues():
    axes, _ = np.linalg.qr(RNG.normal(size=(4, 4)))
    values = 10 ** RNG.uniform(-2, 2, (5, 4))
    matrices = np.stack([axes @ np.diag(v) @ axes.T for v in values])
    expected = axes @ np.diag(np.exp(np.log(values).mean(axis=0))) @ axes.T
    np.testing.assert_allclose(karcher_mean(matrices), expected, rtol=1e-8, atol=1e-9)


def test_a_change_of_coordinates_goes_through_the_geometric_mean_and_leaves_scores_alone():
    matrices, change = random_spd(3, 3), RNG.normal(size=(3, 3))
    changed = change @ matrices @ change.T
    np.testing.assert_allclose(
        karcher_mean(changed), change @ karcher_mean(matrices) @ change.T, rtol=1e-6, atol=1e-8
    )
    for measure in (quadratic_inconsistency, hessian_bound):
        assert measure(changed, 1.0) == pytest.approx(measure(matrices, 1.0), rel=1e-6)
    assert determinant_ratio(changed) == pytest.approx(determinant_ratio(matrices), rel=1e-6)


def test_the_determinant_of_the_geometric_mean_needs_no_mean():
    matrices = random_spd(4, 3)
    ratio = np.linalg.det(matrices.mean(axis=0)) / np.linalg.det(karcher_mean(matrices))
    assert determinant_ratio(matrices) == pytest.approx(ratio, rel=1e-8)
    assert determinant_ratio(matrices) > 1
    assert determinant_ratio(np.repeat(matrices[:1], 3, axis=0)) == pytest.approx(1.0)


def test_the_bound_holds_for_any_two_and_for_the_worst_pair_of_more():
    for dims in (1, 2, 4):
        for _ in range(40):
            pair = random_spd(2, dims, decades=2)
            assert quadratic_inconsistency(pair, 1.0) <= hessian_bound(pair, 1.0) * (1 + 1e-9)
            some = random_spd(4, dims)
            assert quadratic_inconsistency(some, 1.0) <= hessian_bound(some, 1.0) * (1 + 1e-9)


def test_the_printed_bound_is_broken_by_1_and_10():
    curvatures = [[1.0], [10.0]]
    assert quadratic_inconsistency(curvatures, 1.0) == pytest.approx(10.0)
    assert hessian_bound(curvatures, 1.0) == pytest.approx(12.1)
    assert hessian_bound(curvatures, 1.0, constant=2.0) == pytest.approx(6.05)
    barely = 1 + 2**0.5  # beyond this ratio it always fails in one dimension
    for ratio, holds in ((barely - 0.01, True), (barely + 0.01, False)):
        pair = [[1.0], [ratio]]
        assert (quadratic_inconsistency(pair, 1) <= hessian_bound(pair, 1, constant=2)) is holds


def test_diagonals_in_jax_are_the_same():
    diagonals = 10 ** RNG.uniform(-1, 1, (2, 3))
    as_float32 = diagonals.astype(np.float32)
    assert float(diagonal_inconsistency(as_float32, 0.5)) == pytest.approx(
        quadratic_inconsistency(diagonals, 0.5), rel=1e-5
    )
    for constant in (2.0, 4.0):
        assert float(diagonal_bound(as_float32, 0.5, constant=constant)) == pytest.approx(
            hessian_bound(diagonals, 0.5, constant=constant), rel=1e-5
        )


@pytest.mark.parametrize(
    ("hessians", "words"),
    [
        (np.ones((2, 2, 3)), r"\[envs, dims, dims\].*\(2, 2, 3\)"),
        (np.ones(3), r"got shape \(3,\)"),
        ([[1.0, np.nan], [1.0, 1.0]], "environment 0 is not finite"),
        (np.array([np.eye(2), [[1.0, 2.0], [0.0, 1.0]]]), "environment 1 is not symmetric"),
        ([[1.0, -2.0], [1.0, 1.0]], "environment 0 has the negative eigenvalue -2"),
    ],
)
def test_what_is_no_landscape_around_a_minimum_is_refused(hessians, words):
    for measure in (quadratic_inconsistency, hessian_bound):
        with pytest.raises(ValueError, match=words):
            measure(hessians, 1.0)


def test_other_bad_input_is_refused():
    with pytest.raises(ValueError, match="positive definite matrices; number 1 is flat"):
        karcher_mean(np.array([np.eye(2), np.diag([1.0, 0.0])]))
    with pytest.raises(ValueError, match="2 axes"):
        karcher_mean(np.ones((2, 2)))
    with pytest.raises(ValueError, match="not found in 1 iterations"):
        karcher_mean(random_spd(3, 4), iterations=1)
    with pytest.raises(ValueError, match="at least 2; got 1"):
        hessian_bound([[1.0, 1.0]], 1.0)
    with pytest.raises(ValueError, match="flat in the same direction"):
        determinant_ratio([[0.0, 1.0], [0.0, 1.0]])
    with pytest.raises(ValueError, match="2 environments; got 3"):
        diagonal_bound(np.ones((3, 2)), 1.0)
