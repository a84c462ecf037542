"""Linear algebra: factors that are known up to a sign, and matrices that have no answer."""

from functools import partial

import pytest
import torch

import hx


def whitened(x):
    values, vectors = torch.linalg.eigh(x @ x.mT + torch.eye(3))
    return vectors / values.sqrt()[..., None, :] @ vectors.mT @ x


def rebuilt(x):
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    return u * (s - s.mean())[..., None, :] @ v


@pytest.mark.parametrize("function", [whitened, rebuilt], ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(2, 3, 5), (3, 3)], ids=str)
def test_vectors_whose_sign_does_not_matter_export_and_are_proven(function, shape):
    class Model(torch.nn.Module):
        def forward(self, x):
            return function(x)

    x = torch.randn(*shape)
    program = hx.export(Model(), x, None, verify=True)
    torch.testing.assert_close(program.run(x), function(x), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (2, 4, 4)], ids=str)
def test_all_singular_vectors_make_a_base(exported, shape):
    x = torch.randn(*shape)
    u = exported(lambda x: torch.linalg.svd(x)[0], x)
    v = exported(lambda x: torch.linalg.svd(x)[2], x)
    for base in (u, v):
        one = torch.eye(base.shape[-1]).expand(base.shape)
        torch.testing.assert_close(base @ base.mT, one, atol=1e-6, rtol=0)


def turned_onto(x, y):
    """The rotation that brings points near others (Kabsch), of however few points."""
    u, _, v = torch.linalg.svd(x.T @ y)
    return v.T @ torch.diag(torch.stack([torch.ones(()), torch.det(v.T @ u.T).sign()])) @ u.T


def test_of_nothing_both_sides_of_singular_vectors_are_the_same():
    x, y = torch.randn(2, 5, 2)
    program = hx.export(turned_onto, (x, y), dynamic={"x": {0: "n"}, "y": {0: "n"}})
    for x, y in (torch.randn(2, 7, 2), torch.zeros(2, 1, 2)):
        torch.testing.assert_close(program.run(x, y), turned_onto(x, y))
    assert torch.equal(program.run(x, y), torch.eye(2))


def lengths(x):
    return torch.linalg.svdvals(x)


def conditioned(x):
    return torch.linalg.cond(x)


def inverted(x):
    return torch.linalg.pinv(x)


def fitted(x):
    return torch.linalg.lstsq(x, x[..., :2] * 2 + 1, driver="gels").solution


@pytest.mark.parametrize(
    "function", [lengths, conditioned, inverted, fitted, rebuilt], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("recorded", [(5, 3), (3, 5)], ids=str)
def test_either_side_of_a_matrix_may_be_the_longer_one(function, recorded):
    class Model(torch.nn.Module):
        def forward(self, x):
            return function(x)

    program = hx.export(Model(), torch.randn(recorded), dynamic={"x": {0: "rows", 1: "columns"}})
    assert not program.report.escapes
    for shape in ((3, 6), (6, 3), (4, 4)):
        x = torch.randn(shape)
        torch.testing.assert_close(program.run(x), function(x), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5)], ids=str)
def test_in_float64_short_singular_values_keep_their_digits(exported, shape):
    q, r = (torch.linalg.qr(torch.randn(n, n, dtype=torch.float64))[0] for n in shape)
    s = torch.zeros(shape, dtype=torch.float64)
    s[range(3), range(3)] = torch.tensor([1.0, 1e-6, 1e-12], dtype=torch.float64)
    x = q @ s @ r
    mine = exported(torch.linalg.svdvals, x)
    torch.testing.assert_close(mine, torch.linalg.svdvals(x), rtol=1e-3, atol=0)
    u, s, v = exported(partial(torch.linalg.svd, full_matrices=False), x)
    torch.testing.assert_close(u * s @ v, x, rtol=0, atol=1e-14)


@pytest.mark.parametrize("rows", [1, 2])
def test_tensors_are_solved_as_matrices_of_every_size(rows):
    class Model(torch.nn.Module):
        def forward(self, a, b):
            return torch.linalg.tensorsolve(a, b), torch.linalg.tensorinv(a, ind=b.dim())

    def given(n):
        a = torch.eye(2 * n) + 0.1 * torch.rand(2 * n, 2 * n)
        return a.reshape(n, 2, n, 2), torch.rand(n, 2)

    program = hx.export(Model(), given(2), dynamic={"a": {0: "n", 2: "n"}, "b": {0: "n"}})
    assert not program.report.escapes
    x = given(rows + 2)
    torch.testing.assert_close(program.run(*x), Model()(*x), atol=1e-3, rtol=1e-3)


SINGULAR = torch.tensor([[[1.0, 2], [2, 4]], [[1, 2], [3, 4]], [[0, 0], [0, 0]]])


@pytest.mark.parametrize("name", ["inv_ex", "lu_factor_ex", "cholesky_ex", "solve_ex"])
def test_info_tells_which_matrices_have_no_answer(exported, name):
    function = getattr(torch.linalg, name)
    more = (torch.ones(3, 2, 1),) if name == "solve_ex" else ()
    info = exported(lambda *args: function(*args).info, SINGULAR, *more)
    assert torch.equal(info, function(SINGULAR, *more).info)
    assert info.any()
    assert not info.all() or name == "cholesky_ex"


def test_largest_and_smallest_beside_nan(exported):
    x = torch.randn(7, 9)
    x[2, 3] = x[5, 3] = x[6, 8] = torch.nan
    for f in (lambda x: x.amax(0), lambda x: x.max(1).indices, lambda x: x.argmin(0),
              lambda x: x.min(0).values, lambda x: x.max()):  # fmt: skip
        torch.testing.assert_close(exported(f, x), f(x), equal_nan=True)


def test_a_matrix_without_a_factor_is_left_as_lapack_leaves_it(exported):
    x = torch.randn(4, 6, 6)
    x = x @ x.mT + torch.eye(6)
    x[1, 3, 3] = x[2, 0, 0] = x[3, 5, 5] = -50
    for upper in (False, True):
        factor, info = exported(partial(torch.linalg.cholesky_ex, upper=upper), x)
        assert info.tolist() == [0, 4, 1, 6]
        torch.testing.assert_close(factor, torch.linalg.cholesky_ex(x, upper=upper).L)


@pytest.mark.parametrize(
    "function",
    [
        torch.linalg.eigvalsh,
        lambda a: torch.linalg.eigh(a)[0],
        torch.linalg.svdvals,
        torch.linalg.pinv,
        lambda a: torch.linalg.matrix_rank(a).float(),
    ],
)
def test_diagonal_matrices_beside_others(function):
    """They are done at once, and stay as they are while the others are turned."""
    torch.manual_seed(0)
    other = torch.rand(2, 4, 4)
    other = other + other.mT
    program = hx.export(function, other, None)
    flat = torch.zeros(4, 4)
    flat[1:, 1:] = other[0, 1:, 1:]
    for first in (torch.eye(4), torch.diag(torch.tensor([3.0, 1, 2, 0])), flat):
        x = torch.stack([first, other[1]])
        torch.testing.assert_close(program.run(x), function(x), rtol=1e-4, atol=1e-5)
