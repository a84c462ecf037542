"""Science: differential equations, Fourier, linear algebra, interpolation."""

from __future__ import annotations

import math

import torch
from torch import nn

from ..listing import model


@model(x="float[n,2]")
def euler_steps(x):
    for _ in range(10):
        x = x + 0.05 * torch.stack([x[:, 1], -torch.sin(x[:, 0])], 1)
    return x


@model(x="float[n,2]")
def runge_kutta(x):
    def f(y):
        return torch.stack([y[:, 1], -y[:, 0]], 1)

    h = 0.1
    for _ in range(5):
        a = f(x)
        b = f(x + h / 2 * a)
        c = f(x + h / 2 * b)
        x = x + h / 6 * (a + 2 * b + 2 * c + f(x + h * c))
    return x


@model(x="float[3]", t="rising[n]", most=131)
def trajectory(x, t):
    out = [x]
    for a, b in zip(t[:-1], t[1:]):
        x = x + (b - a) * torch.tanh(-x)
        out.append(x)
    return torch.stack(out)


@model(x="float[n,2]")
class NeuralOde(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, x):
        for _ in range(6):
            x = x + 0.1 * self.f(x)
        return x


@model(x="float[n]")
def heat_equation(x):
    for _ in range(8):
        x = torch.cat([x[:1], x[1:-1] + 0.2 * (x[2:] - 2 * x[1:-1] + x[:-2]), x[-1:]])
    return x


@model(x="float[n]")
def wave_with_period(x):
    before, now = x, x
    for _ in range(5):
        next_ = 2 * now - before + 0.1 * (now.roll(1) - 2 * now + now.roll(-1))
        before, now = now, next_
    return now


@model(x="float[h,w]", most=64)
def laplacian(x):
    p = torch.nn.functional.pad(x[None, None], (1, 1, 1, 1), mode="replicate")[0, 0]
    return p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * x


@model(x="float[n]")
def spectral_derivative(x):
    n = x.shape[0]
    k = torch.fft.fftfreq(n, 1 / n)
    return torch.fft.ifft(1j * k * torch.fft.fft(x)).real


@model(x="float[n]")
def real_transform(x):
    s = torch.fft.rfft(x, norm="ortho")
    return s.real, s.imag


@model(x="float[h,w]", most=64)
def plane_transform(x):
    return torch.fft.fft2(x).abs(), torch.fft.fftshift(x)


@model(x="float[h,w]", most=64)
class SpectralLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 3))

    def forward(self, x):
        s = torch.fft.rfft2(x)
        out = torch.zeros_like(s)
        out[:3, :3] = s[:3, :3] * self.weight
        return torch.fft.irfft2(out, s=x.shape)


@model(x="float[b,3,3]")
def solved(x):
    a = x @ x.mT + torch.eye(3) * 2
    return torch.linalg.solve(a, torch.ones(3, 1))


@model(x="float[b,3,3]")
def inverted(x):
    return torch.linalg.inv(x @ x.mT + torch.eye(3) * 2)


@model(x="float[b,3,3]")
def determinants(x):
    return torch.linalg.det(x), torch.linalg.slogdet(x @ x.mT + torch.eye(3))[1]


@model(x="float[n,n]", most=16)
def solved_of_any_size(x):
    a = x @ x.t() + torch.eye(x.shape[0]) * 3
    return torch.linalg.solve(a, x.sum(1))


@model(x="float[n,n]", most=16)
def cholesky_of_any_size(x):
    return torch.linalg.cholesky(x @ x.t() + torch.eye(len(x)) * 3)


@model(x="float[n,n]", most=33)
def matrix_powers(x):
    y = x / (x.norm() + 1)
    return torch.linalg.matrix_power(y, 3), y.trace()


@model(x="float[n,n]", most=33)
def power_iteration(x):
    a = x @ x.t()
    v = torch.ones(x.shape[0]) / math.sqrt(x.shape[0])
    for _ in range(10):
        v = a @ v
        v = v / (v.norm() + 1e-3)
    return v @ a @ v


@model(x="float[n,n]", most=16)
def jacobi_iteration(x):
    a = x / (x.abs().sum(1, keepdim=True) + 1) + torch.eye(x.shape[0]) * 2
    d = a.diagonal()
    v = torch.zeros(len(x))
    for _ in range(8):
        v = (1 - (a @ v - d * v)) / d
    return v


@model(x="float[n,n]", most=16)
def conjugate_gradient(x):
    a = x @ x.t() + torch.eye(x.shape[0])
    v, r = torch.zeros(len(x)), torch.ones(len(x))
    p = r
    for _ in range(5):
        if r.norm() < 1e-3:
            break
        q = a @ p
        alpha = (r @ r) / (p @ q)
        v = v + alpha * p
        new = r - alpha * q
        p = new + (new @ new) / (r @ r) * p
        r = new
    return v


@model(x="positive[n]")
def newton_root(x):
    r = x
    for _ in range(20):
        step = (r * r - x) / (2 * r)
        r = r - step
        if step.abs().max() < 1e-5:
            break
    return r


@model(x="float[n]")
def bisection(x):
    low, high = torch.full_like(x, -1e3), torch.full_like(x, 1e3)
    for _ in range(30):
        middle = (low + high) / 2
        above = middle + middle.tanh() > x
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return low


@model(x="float[m]", t="rising[n]", y="float[n]")
def interpolated(x, t, y):
    at = torch.searchsorted(t, x).clamp(1, max(t.shape[0] - 1, 1))
    a, b = t[at - 1], t[at]
    w = ((x - a) / (b - a).clamp(min=1e-3)).clamp(0, 1)
    return y[at - 1] * (1 - w) + y[at] * w


@model(x="float[n]")
def table_lookup(x):
    table = torch.linspace(0, 1, 11).square()
    p = x.sigmoid() * 10
    low = p.floor().long().clamp(max=9)
    return table[low] + (p - low) * (table[low + 1] - table[low])


@model(x="float[n]")
def trapezoid(x):
    return torch.trapezoid(x, dx=0.1), torch.cumulative_trapezoid(x)


@model(x="float[n]")
def simpson(x):
    n = x.shape[0]
    if n % 2 == 0:
        raise ValueError("an odd number of points is needed")
    w = torch.ones(n)
    w[1:-1:2], w[2:-1:2] = 4, 2
    return (w * x).sum() / 3


@model(x="float[n]")
def finite_differences(x):
    return torch.diff(x), torch.diff(x, n=2), torch.gradient(x)[0] if x.shape[0] > 1 else x


@model(x="float[n]", y="float[m]")
def convolved(x, y):
    n = x.shape[0] + y.shape[0] - 1
    return torch.fft.irfft(torch.fft.rfft(x, n) * torch.fft.rfft(y, n), n)


@model(x="float[n]")
def polynomial_values(x):
    powers = x.clamp(-3, 3)[:, None] ** torch.arange(5)
    return powers @ torch.tensor([1.0, -2.0, 0.5, 0.0, 0.1])


@model(x="float[n]")
def chebyshev(x):
    x = x.tanh()
    a, b, total = torch.ones_like(x), x, 1 + x
    for _ in range(4):
        a, b = b, 2 * x * b - a
        total = total + b
    return total


@model(x="float[n]")
def vandermonde(x):
    return torch.vander(x.tanh(), 4), torch.outer(x, x.tanh())


@model(x="float[n,3]", y="float[n,3]")
def vector_products(x, y):
    return torch.linalg.cross(x, y), (x * y).sum(-1), torch.einsum("ni,nj->nij", x, y)


@model(x="float[n,4]")
def rotations_of_quaternions(x):
    w, a, b, c = (x / (x.norm(dim=-1, keepdim=True) + 1e-6)).unbind(-1)
    rows = [1 - 2 * (b * b + c * c), 2 * (a * b - w * c), 2 * (a * c + w * b)]
    return torch.stack(rows, -1)


@model(x="float[n,3]")
def pair_energy(x):
    d = (x[:, None] - x[None]).square().sum(-1) + torch.eye(x.shape[0])
    return (1 / (d + 0.1)).triu(1).sum()


@model(x="float[n,3]")
def gaussian_kernel(x):
    d = torch.cdist(x, x)
    return (-d.square() / 2).exp().mean()


@model(x="float[n,3]", most=64)
def lennard_jones_cutoff(x):
    i, j = torch.triu_indices(len(x), len(x), 1)
    r2 = (x[i] - x[j]).square().sum(-1) + 0.5
    near = r2 < 6
    s = 1 / r2[near] ** 3
    return (4 * (s * s - s)).sum()


@model(x="float[n]")
def golden_section(x):
    a, b = -2.0, 2.0
    shift = x.mean().tanh()
    a, b = a + shift * 0, b + shift * 0
    for _ in range(12):
        c, d = b - (b - a) * 0.618, a + (b - a) * 0.618
        left = (c - shift) ** 2 < (d - shift) ** 2
        a, b = torch.where(left, a, c), torch.where(left, d, b)
    return (a + b) / 2
