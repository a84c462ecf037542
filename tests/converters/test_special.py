"""Special functions over their whole domain, against float64: right to the last digit of float32."""

import math
from functools import reduce

import pytest
import torch

WIDE = [*torch.linspace(-30, 30, 1201).tolist(), *torch.logspace(-38, 37, 151).tolist()]
NUMBERS = [*WIDE, *(-x for x in WIDE[-151:]), 0.0, -0.0, math.inf, -math.inf, math.nan]

# PyTorch's own float64 Bessel functions of the first two kinds are off by 1e-7 and more.
ROUGH = ("special.bessel_j", "special.bessel_y")
NAMES = """lgamma digamma erfinv i0 special.i0e special.i1 special.i1e special.erfcx
special.log_ndtr special.ndtri special.entr special.modified_bessel_k0 special.modified_bessel_k1
special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1 special.spherical_bessel_j0
special.bessel_j0 special.bessel_j1 special.bessel_y0 special.bessel_y1""".split()


def assert_close(found, exact, share, floor=1e-37):
    """Relative errors, also of the smallest results; numbers out of range and NaN are equal."""
    wanted = exact.to(found.dtype)
    assert torch.equal(found.isnan(), wanted.isnan())
    normal = wanted.isfinite() & (wanted.abs() > floor)
    assert torch.equal(found[wanted.isinf()], wanted[wanted.isinf()])
    error = ((found.double() - exact) / exact).abs()[normal]
    assert error.max() <= share, f"off by {error.max():.1e}"


@pytest.mark.parametrize("name", NAMES)
def test_function_of_one_number(exported, name):
    function = reduce(getattr, name.split("."), torch)
    x = torch.tensor(NUMBERS)
    rough = name.startswith(ROUGH)
    x = x[(x.abs() <= 1000) | x.isnan()] if rough else x
    found, exact = exported(function, x), function(x.double())
    if rough:
        torch.testing.assert_close(found.double(), exact, atol=1e-6, rtol=1e-6, equal_nan=True)
    else:
        assert_close(found, exact, 2e-7)


def test_bessel_functions_where_pytorch_is_rough(exported):
    """By the integral that defines them, at points that are zeros but for a little."""
    x = torch.tensor([2.4048, 5.52, 7.0156, 8.6537, 20.0, 50.0])
    angles = torch.linspace(0, 2 * math.pi, 513, dtype=torch.float64)[:-1]
    for order in (0, 1):
        waves = torch.cos(order * angles - x.double()[:, None] * torch.sin(angles))
        found = exported(getattr(torch.special, f"bessel_j{order}"), x)
        assert_close(found, waves.mean(1), 2e-7)


def test_airy_function_on_both_sides(exported):
    x = torch.linspace(-12, 12, 241)
    line = torch.arange(-9, 9, 0.02, dtype=torch.float64) + 1.3j
    exact = torch.exp(1j * (line**3 / 3 + x.double()[:, None] * line)).sum(1).real * 0.02
    found = exported(torch.special.airy_ai, x).double()
    torch.testing.assert_close(found, exact / (2 * math.pi), rtol=1e-7, atol=1e-7)
    right, far = torch.linspace(2.5, 20, 50), torch.linspace(-900, -20, 50)
    for x in (right, far):
        assert_close(exported(torch.special.airy_ai, x), torch.special.airy_ai(x.double()), 1e-6)


@pytest.mark.parametrize("order", range(5))
def test_polygamma_on_both_sides_of_zero(exported, order):
    x = torch.tensor([*torch.linspace(-9.99, 12, 500).tolist(), 0.0, -3.0, 1e-3, -1e-3, 40.0])
    exact = torch.polygamma(order, x.double())
    if order == 0:
        exact[x == 0] = -math.inf
    found = exported(lambda x: torch.polygamma(order, x), x)
    away = x != x.floor()
    assert_close(found[away], exact[away], 1e-6)
    assert torch.equal(found[~away].isnan(), torch.polygamma(order, x)[~away].isnan())


def test_the_shares_of_the_gamma_distribution(exported):
    a = torch.tensor(
        [0.01, 0.5, 1.0, 3.0, 10.0, 50.0, 200.0, 5000.0, 0.0, math.inf, -1.0, math.nan]
    )
    x = torch.tensor(
        [0.0, 1e-3, 0.5, 1.0, 2.5, 10.0, 55.0, 210.0, 4990.0, math.inf, -2.0, math.nan]
    )
    a, x = (v.contiguous() for v in torch.meshgrid(a, x, indexing="ij"))
    for function in (torch.special.gammainc, torch.special.gammaincc):
        assert_close(exported(function, a, x), function(a.double(), x.double()), 2e-6, 1e-30)


def test_orthogonal_polynomials_of_many_degrees(exported):
    x = torch.linspace(-1.5, 1.5, 41)[:, None].repeat(1, 14)
    n = torch.arange(-2, 12, dtype=torch.float32).repeat(41, 1)
    for kind in ("chebyshev_polynomial_t", "hermite_polynomial_h", "laguerre_polynomial_l",
                 "legendre_polynomial_p", "shifted_chebyshev_polynomial_w"):  # fmt: skip
        function = getattr(torch.special, kind)
        torch.testing.assert_close(
            exported(function, x, n).double(),
            function(x.double(), n.double()),
            rtol=1e-6,
            atol=1e-6,
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_next_number(exported, dtype):
    tiny, most = torch.finfo(dtype).tiny, torch.finfo(dtype).max
    found = [0.0, -0.0, 1.0, -1.0, 0.75, tiny, -tiny, tiny * 1.5, most, -most, math.inf, -math.inf]
    numbers = torch.tensor([*found, 3.7, math.nan, 1e-3, tiny / 4], dtype=dtype)
    x, y = (v.contiguous() for v in torch.meshgrid(numbers, numbers, indexing="ij"))
    wanted = torch.nextafter(x, y)
    assert torch.equal(exported(torch.nextafter, x, y).nan_to_num(7.0), wanted.nan_to_num(7.0))


EDGES = {
    "sign": torch.sign,
    "sgn": torch.sgn,
    "clamp from below": lambda x: x.clamp(min=-1),
    "clamp from above": lambda x: torch.clamp_max(x, 2),
    "clamp": lambda x: x.clamp(-1, 2),
    "threshold": lambda x: torch.nn.functional.threshold(x, 0.1, 20),
    "softshrink": torch.nn.functional.softshrink,
    "hardshrink": torch.nn.functional.hardshrink,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", EDGES)
def test_infinite_numbers_and_nan_are_kept_or_cut_as_pytorch_does(exported, name, dtype):
    x = torch.tensor([math.nan, math.inf, -math.inf, 0.0, 0.1, -0.1, 0.5, 3.0, -3.0], dtype=dtype)
    found = exported(EDGES[name], x)
    torch.testing.assert_close(found, EDGES[name](x), equal_nan=True)
