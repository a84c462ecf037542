"""Matrices of complex numbers: their products, inverses, determinants, spectra."""

from __future__ import annotations

import pytest
import torch
from numpy.testing import assert_allclose

import hx


def hermitian(x):
    return x @ x.mH + torch.eye(x.shape[-2])


def beamformer(signal, noise):
    """Weights that keep what comes from one direction: as in speech enhancement (MVDR)."""
    inside = torch.linalg.solve(hermitian(noise), hermitian(signal))
    trace = inside.diagonal(dim1=-2, dim2=-1).sum(-1)
    return inside[..., :, 0] / (trace[..., None] + 1e-8)


UNIQUE = {
    "inverse": torch.linalg.inv,
    "solution": lambda x: torch.linalg.solve(x, x.mH),
    "solution from the right": lambda x: torch.linalg.solve(x, x.mH, left=False),
    "upper triangle": lambda x: torch.linalg.solve_triangular(x + 3 * torch.eye(4), x, upper=True),
    "determinant": torch.linalg.det,
    "sign and size of the determinant": torch.linalg.slogdet,
    "logarithm of the determinant": torch.logdet,
    "cholesky": lambda x: torch.linalg.cholesky(hermitian(x)),
    "cholesky, upper": lambda x: torch.linalg.cholesky(hermitian(x), upper=True),
    "cholesky, inverse": lambda x: torch.cholesky_inverse(torch.linalg.cholesky(hermitian(x))),
    "cholesky, solved": lambda x: torch.cholesky_solve(x, torch.linalg.cholesky(hermitian(x))),
    "lu": torch.linalg.lu,
    "lu, solved": lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), x, adjoint=True),
    "qr": lambda x: torch.linalg.qr(x[..., :3], "complete"),
    "eigenvalues": lambda x: torch.linalg.eigvalsh(hermitian(x)),
    "singular values": lambda x: torch.linalg.svdvals(x[..., :3]),
    "pseudo-inverse": lambda x: torch.linalg.pinv(x[..., :2, :]),
    "least squares": lambda x: torch.linalg.lstsq(x[..., :3], x).solution,
    "rank": lambda x: torch.linalg.matrix_rank(x[..., :1] @ x[..., :1].mH),
    "norm": lambda x: torch.linalg.matrix_norm(x, "nuc"),
    "condition": torch.linalg.cond,
    "exponential": torch.linalg.matrix_exp,
    "power": lambda x: torch.linalg.matrix_power(x, 3),
    "sum of exponentials": lambda x: torch.logsumexp(90 * x, 1),
    "sum of two exponentials": lambda x: torch.logaddexp(9 * x, 5 * x.mT),
}


def held_at_another_size(model, *shape, dtype, **options):
    """Exports with its proof, and holds the file against the model for more matrices."""
    torch.manual_seed(0)
    few, many = (torch.randn(n, *shape, dtype=dtype) for n in (3, 5))
    program = hx.export(model, (few,), dynamic={"x": {0: "batch"}}, **options)
    assert program.proof.ok
    found, expected = program.run(many), model(many)
    fine = 1e-10 if dtype == torch.complex128 else 1e-4
    for mine, real in zip(*(x if isinstance(x, tuple) else [x] for x in (found, expected))):
        assert mine.dtype == real.dtype
        assert_allclose(mine, real.resolve_conj(), rtol=fine, atol=fine)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("name", UNIQUE)
def test_what_is_unique_at_any_number_of_matrices(name, dtype):
    held_at_another_size(lambda x: UNIQUE[name](x), 4, 4, dtype=dtype)


@pytest.mark.parametrize("opset", [13, 26])
def test_a_beamformer(opset):
    def model(x):
        return beamformer(*x.unbind(1))

    held_at_another_size(model, 2, 4, 6, dtype=torch.complex64, opset=opset)


def exported(model, x):
    program = hx.export(model, (x,), verify=False, dynamic={"x": {0: "batch"}})
    return lambda x: [t.numpy() for t in program.run(x)]


def some_matrices():
    """Some whose eigenvalues are equal, one that is diagonal, and any."""
    torch.manual_seed(0)
    x = torch.randn(4, 5, 5, dtype=torch.complex64)
    x = x @ x.mH
    x[1] = torch.eye(5)
    x[2] = torch.diag(torch.arange(5.0))
    x[3] = torch.eye(5)
    x[3, 0, 3], x[3, 3, 0] = 1j, -1j
    return x


def test_eigenvectors_make_the_matrix_and_are_at_right_angles():
    x = some_matrices()
    values, vectors = exported(lambda x: torch.linalg.eigh(x), x[:2])(x)
    assert_allclose(values, torch.linalg.eigvalsh(x), atol=1e-5)
    adjoint = vectors.conj().swapaxes(-1, -2)
    assert_allclose(adjoint @ vectors, torch.eye(5).expand(4, 5, 5), atol=1e-5)
    assert_allclose(vectors * values[:, None, :] @ adjoint, x, atol=2e-5)


@pytest.mark.parametrize("rows, columns", [(5, 3), (3, 5)])
def test_singular_vectors_make_the_matrix(rows, columns):
    x = some_matrices()[:, :rows, :columns]
    u, values, v = exported(lambda x: torch.linalg.svd(x, full_matrices=False), x[:2])(x)
    assert_allclose(values, torch.linalg.svdvals(x), atol=1e-5)
    assert_allclose(u * values[:, None, :] @ v, x, atol=2e-5)


@pytest.mark.parametrize("half", ["L", "U"])
def test_only_one_half_and_no_imaginary_diagonal_is_looked_at(half):
    held_at_another_size(lambda x: torch.linalg.eigvalsh(x, half), 4, 4, dtype=torch.complex64)
