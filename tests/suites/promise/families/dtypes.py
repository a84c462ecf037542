"""Mixed dtypes: halves, integers, bool, complex."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from ..listing import model


@model(x="half[n,4]")
def halves(x):
    return (x * 0.5 + 1).float().sum(0)


@model(x="float[n,4]")
def through_half(x):
    return x.clamp(-100, 100).half().relu().float() * 2


@model(x="bfloat16[n,4]")
def brain_floats(x):
    return (x.float() * 1.5).relu()


@model(x="half[n,8]", most=131)
class HalfLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 4).half()

    def forward(self, x):
        return self.layer(x.clamp(-10, 10)).softmax(-1)


@model(x="float[n,4]")
def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x.clamp(-10, 10) @ torch.ones(4, 4)
    return y.float()


@model(x="double[n,4]")
def doubles(x):
    return x.exp().clamp(max=1e6).mean(0) + 1e-10


@model(x="float[n,4]")
def summed_in_double(x):
    return x.double().sum(0).float(), x.sum(0, dtype=torch.float64)


@model(x="signed[n]")
def integer_division(x):
    return x // 2, x % 3, torch.div(x, 2, rounding_mode="trunc"), x.fmod(3), x.remainder(-4)


@model(x="signed[n]")
def true_division(x):
    return x / 2, x.float() / 3


@model(x="signed[n]")
def floats_by_mixture(x):
    return x * 0.5, x + 1, x > 0.5


@model(x="int32[n]", y="signed[n]")
def promoted_integers(x, y):
    return x + y, x * 2, x.sum(), x.prod() * 0


@model(x="uint8[n]")
def bytes_wrap(x):
    return x + 100, x * 2, x.sum()


@model(x="uint8[b,3,h,w]", most=64)
def picture_to_floats(x):
    return x.float().div(255).sub(0.5).mul(2)


@model(x="float[n,4]")
def floats_to_bytes(x):
    return (x.sigmoid() * 255).round().to(torch.uint8)


@model(x="float[n,4]")
def truncated_to_int(x):
    return x.int(), x.long(), x.to(torch.int8) * 0


@model(x="float[n,4]")
def rounding_modes(x):
    return x.round(), x.floor(), x.ceil(), x.trunc(), x.frac()


@model(x="float[n,4]")
def rounded_half_to_even(x):
    return (x.trunc() + 0.5).round(), torch.round(x, decimals=1)


@model(m="bool[n]")
def arithmetic_of_bools(m):
    return m.sum(), m.float().mean(), ~m, m.long() * 2 - 1, m.cumsum(0)


@model(m="bool[n]", k="bool[n]")
def logic(m, k):
    return m & k, m | k, m ^ k, m == k, (m <= k)


@model(m="bool[b,n]")
def any_and_all(m):
    return m.any(1), m.all(1), m.any(), m.all(), m.logical_not().any(0)


@model(m="bool[n]", x="float[n,4]")
def bool_times_float(m, x):
    return x * m[:, None], torch.where(m[:, None], x, 0)


@model(x="signed[n]")
def bits(x):
    return x & 3, x | 4, x ^ 1, ~x, x << 1, x >> 1


@model(x="signed[n]")
def powers_of_integers(x):
    return x**2, 2 ** x.abs().clamp(max=8), x.abs()


@model(x="complex[n,4]")
def complex_product(x):
    return (x * x.conj()).real, x.abs(), x.real + x.imag


@model(x="complex[n,4]")
def complex_rotated(x):
    return x * torch.polar(torch.ones(4), torch.arange(4.0)), x.angle().abs() * 0


@model(x="float[n,4]")
def complex_inside(x):
    z = torch.view_as_complex(x.reshape(-1, 2, 2))
    return torch.view_as_real(z * 1j).flatten(1), z.sum(1).abs()


@model(x="float[n,4]")
def compared_across(x):
    return (x > 0).to(x.dtype) + (x == x.round()).float()


@model(x="float[n,4]", i="int32[m]<4")
def index_of_int32(x, i):
    return x[:, i.abs() % 4]


@model(x="float[n,4]")
def scalar_tensors(x):
    return x * torch.tensor(2) + torch.tensor(0.5, dtype=torch.float64)


@model(x="signed[n]")
def sorted_integers(x):
    return x.sort().values, x.max(), x.argmin(), x.unique()


@model(x="signed[n]")
def clipped_integers(x):
    return x.clamp(-3, 3), x.clamp(min=0).float().sqrt(), x.sign()


@model(x="float[n,4]")
def nan_and_inf(x):
    y = x / (x > 0)
    return y.isnan(), y.isinf(), y.nan_to_num(0, 9, -9)


@model(x="float[n,4]")
def finfo_and_iinfo(x):
    return x.clamp(torch.finfo(x.dtype).min, torch.finfo(torch.float16).max), x.long().clamp(
        max=torch.iinfo(torch.int16).max
    )


@model(x="float[n,4]")
def type_as_other(x):
    i = torch.arange(x.shape[0])
    return i.type_as(x) + x[:, 0], i.to(x) * 2


@model(x="float[n,4]")
def result_type_decides(x):
    i = torch.arange(4)
    return x.to(torch.result_type(x, i)) + i.float().to(
        torch.promote_types(torch.int64, torch.float32)
    )


@model(x="half[b,n,8]", most=64)
def half_attention(x):
    x = x.clamp(-4, 4)
    return F.softmax((x @ x.mT).float(), -1).to(x.dtype) @ x


@model(x="signed[n]")
def mean_of_integers(x):
    return x.float().mean(), x.double().std(correction=0), x.median()


@model(x="uint8[n]")
def unpacked_bits(x):
    return (x[:, None] >> torch.arange(8, dtype=torch.uint8)) & 1


@model(x="float[n,4]")
def bytes_viewed(x):
    return x.view(torch.int32) < 0
