"""Small models drawn by chance, exported at dynamic sizes and compared with PyTorch.

    python -m tests.suites.random_models --count 2000
    python -m tests.suites.random_models --seed 417 --count 1 --show

A model is a few lines of Python, drawn one after the other out of the templates below: a line that
PyTorch refuses is drawn again. It is exported without verification, at an opset and at dynamic
axes drawn as well, and the file is run beside the model on other inputs, at other sizes, at size 1
and at size 0. What differs is cut down to the lines that are needed, and printed as a program.

right      equal at every size that the model itself takes
told       differs where a value left the graph, and the report names the line
refused    the export said what it cannot do
shaky      differs by no more than the model itself, when its inputs move by a rounding
wrong      the file runs, and computes something else
crashed    anything else: an exporter's own error, a file that does not load or run
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import linecache
import multiprocessing
import random
import re
import sys
import warnings
from typing import Any

import torch

from hx import HxError, compare, halves, runtime, variations, verify, wire

from .attempt import copied, first_line, flat, unsayable

BAD = ("crashed", "wrong")
HEAD = (
    "import math\n\nimport torch\nfrom torch import nn\n"
    "from torch._higher_order_ops import while_loop\nfrom torch.nn import functional as F\n\n\n"
)

# Given nothing, onnxruntime returns garbage or stops.
NOT_EMPTY = {"MatMul", "Gemm", "ReduceMean", "ReduceMax", "ReduceMin", "AveragePool", "MaxPool", "Conv",
             "ConvTranspose", "GlobalAveragePool", "Einsum", "LayerNormalization", "Resize", "Scan",
             "Mod", "TopK", "Split", "Attention",
             "BatchNormalization", "InstanceNormalization"}  # fmt: skip

# What may stand in a template:
#   {f} {i} {b} {h} {t}   a tensor of floats, of int64, of bools, of short or long floats, any
#   {z}                   a tensor of complex numbers
#   {f3} {f3+}            one of rank 3, of rank 3 and more
#   {x}                   the tensor that was drawn last, again
#   {like}                a tensor that broadcasts with it, or a number, or a size
#   {same}                a tensor that is computed from it, of the same shape
#   {d} {dd}              one of its axes; two different ones
#   {n}                   a size of some tensor, or a number computed from sizes
#   {r}                   a float computed from sizes
#   {k} {c}               a small number, a float
#   {part}                a slice
#   {at}                  an index: several slices, numbers, None, ...
#   {w:...}               a parameter of the shape that is written there
MAKES = """
torch.relu({f}) | F.gelu({f}) | torch.sigmoid({f}) | torch.tanh({f}) | F.silu({f}) | {f}.exp()
{f}.abs().sqrt() | ({f}.abs() + 0.1).log() | {t}.abs() | -{f} | {f}.sin() | F.elu({f}, {c})
F.leaky_relu({f}, 0.2) | F.hardswish({f}) | F.softplus({f}) | {f}.round() | {f}.floor()
{f}.sign() | {f}.clamp(-{c}, {c}) | {f}.clamp(min={c}) | {f}.square() | {f}.neg() | torch.erf({f})
{f}.atan() | torch.rsqrt({f}.abs() + 1) | torch.reciprocal({f}.abs() + 0.5) | {f}.frac()
{f}.trunc() | {f}.ceil() | {t} + {like} | {t} - {like} | {t} * {like} | {f} / ({like} + 7.5)
torch.add({f}, {like}, alpha={k}) | torch.maximum({f}, {same}) | torch.minimum({f}, {same})
{f} ** 2 | {f}.pow(3) | {i} // {k} | {i} % {k} | {f} % {c} | {f} // {c} | {k} * {t} | {c} - {f}
{t} == {like} | {t} > {like} | {t} <= {like} | {t} != {like} | {f} < {c} | ~{b} | {b} & {same}
{b} | {b}.logical_not() | {b}.any() | {b}.all({d}) | {b}.sum({d}) | {b}.float().mean()
torch.where({t} > 0, {x}, {like}) | torch.where({f} > {c}, {c}, {x})
{f}.masked_fill({x} > 0, {c}) | {f}.masked_fill({x} > {c}, float("-inf")).softmax({d})
torch.lerp({f}, {same}, {c}) | {f} * {r} | {f} + {r} | {f} * {n} | {n} - {f} | {f} / {n}
{n} / ({f}.abs() + 1) | {i} + {n} | {r} - {f} | {t}.float() | {f}.long() | {f}.bool()
{t}.double() | {f}.half() | {t}.int() | {f}.to({t}.dtype) | {i}.float() / {n} | {t}.type_as({f})
{b}.long() | {i}.to(torch.float32) | {f}.to(torch.bfloat16) | {h} + {h} | {h} * {i} | {h} * {b}
{i} * {b} | {f} + {h} | {f} * {i} | {f}.sum() | {f}.sum({d}) | {f}.mean({d})
{f}.mean({d}, keepdim=True) | {f}.amax({d}) | {i}.sum({d}) | {f}.max({d}).values | {f}.max({d})[1]
{f}.min({d}, keepdim=True)[0] | {f}.argmax({d}) | {f}.std({d}, unbiased=False)
{f}.var({d}, unbiased=False) | {f}.norm(dim={d}) | {f}.prod({d}) | {f}.logsumexp({d})
{f}.amin({d}, True) | {f2+}.sum({dd}) | {f2+}.mean({dd}, keepdim=True) | {f2+}.amax({dd})
{f}.max() | {f}.argmin() | {i}.max() | {f}.softmax({d}) | F.log_softmax({f}, {d})
{f}.cumsum({d}) | {i}.cumsum({d}) | {f}.cumprod({d}) | F.normalize({f}, dim={d})
{f} - {x}.mean({d}, keepdim=True) | {f} / ({x}.std({d}, keepdim=True) + 1) | {t}.reshape(-1)
{t}.flatten() | {t2+}.flatten(0, 1) | {t2+}.flatten(-2) | {t}.reshape({shape})
{t}.reshape({shape}) | {t}.view({shape}) | {t}.contiguous().view({shape})
{t}.reshape({x}.shape[0], -1) | {t}.unsqueeze({d}) | {t}.squeeze() | {t}.squeeze({d})
{t2+}.transpose({ddargs}) | {t2+}.permute({perm}) | {t2+}.transpose({ddargs}).contiguous() * 1
{t2+}.movedim({ddargs}) | {t2}.t() | {t2+}.mT | {t}[None] | {t}.expand(2, *{x}.shape)
{t}.unsqueeze(0).expand({n}, *[-1] * {x}.dim()) | {t}.expand_as({x}) | {t}.repeat({reps})
{t}.repeat_interleave(2, {d}) | {t}.tile(({reps})) | {t}.flip({d}) | {t}.roll({k}, {d})
{t}.roll({n}, {d}) | {t}.unflatten({d}, (-1, 1)) | {t}.view_as({x}) | torch.atleast_2d({t})
{t}.ravel() | {t}[{at}] | {t}[{at}] | {t}[{at}] | {t}[{part}] | {t}[..., {part}]
{t2+}[:, {part}] | {t}[-1] | {t}[..., 0] | {t}.select({d}, 0) | {t}.select({d}, -1)
{t}.narrow({d}, 0, 1) | {t}.narrow({d}, 0, {x}.shape[{ax}]) | {t}[{x}.shape[0] - 1] | {t}[: {n}]
{t}[{n} :] | {t}[..., -{k} :] | {t}[..., : -{k}] | {t}[:: {k}] | {t}[[0, -1]]
{t}[..., [0, 0, -1]] | {t}[{x} > 0] | {t2+}[{x}[..., 0] > 0] | {t}[torch.tensor([0, -1])]
{t}.index_select({d}, torch.tensor([0, -1]) % {x}.shape[{ax}]) | {t}[torch.arange({x}.shape[0])]
{t}[torch.arange({x}.shape[0]).flip(0)] | {t2+}[torch.arange({x}.shape[0]), 0]
{t2+}[:, torch.tensor([0])] | {t2+}[torch.arange({x}.shape[0])[:, None], torch.tensor([0, -1])]
{t3+}[:, [0], :, ...] | {t3+}[0, :, [0, -1]] | {f}.gather({d}, {x}.argsort({d}, stable=True))
{f}.sort({d})[0] | {f}.argsort({d}, stable=True) | {f}.topk(1, {d})[0]
{f}.sort({d}, descending=True).values | {f}.take({i}.flatten() % {x}.numel())
{f}.kthvalue(1, {d})[0] | {f}.gather({d}, torch.zeros_like({x}, dtype=torch.long))
torch.take_along_dim({f}, {f}.argmax({d}, keepdim=True) * 0, {d})
torch.zeros_like({f}).scatter({d}, {x}.argmax({d}, keepdim=True), {c})
{f}.scatter_add({d}, torch.zeros_like({x}, dtype=torch.long), {x})
torch.zeros({n}).index_add(0, {i1} % {n0}, {x}.float()) | F.one_hot({i}.abs() % {k}, {k})
{f}.index_fill({d}, torch.tensor([0]), {c}) | torch.zeros(4).scatter_add(0, {i1} % 4, {x}.float())
F.embedding({i} % 5, {w:5,3}) | {w:6,2}[{i} % 6] | torch.bincount({i1} % 4, minlength=4)
torch.cat([{t}, {same}], {d}) | torch.cat([{t}, {x}[{part}]]) | torch.stack([{t}, {same}], {d})
torch.cat([{t}, {t}]) | torch.cat([{f}, torch.zeros({x}.shape)], {d})
torch.stack([{t}, {same}, {x}]).sum(0) | torch.hstack([{t}, {x}])
torch.cat([{f2+}, torch.ones({x}.shape[0], *{x}.shape[1:])], -1) | torch.cat({t}.split(1), 0)
torch.cat(({t}, {t}), -1) | {t}.chunk(2, {d})[0] | {t}.split({k}, {d})[0]
{t}.split([1, {x}.shape[{ax}] - 1], {d})[1] | {t}.unbind(-1)[0] | {t}.chunk(2, {d})[-1]
{t}.split({k}, {d})[-1] | {t}.tensor_split(2, {d})[0] | sum({t}.unbind({d}))
{f2+} @ {x}.transpose(-1, -2) | {f2+}.mT @ {x} | {f1} @ {x} | torch.outer({f1}, {f1})
torch.einsum("...i,...j->...ij", {f}, {x}) | torch.einsum("ij,kj->ik", {f2}, {x})
torch.einsum("bij,bkj->bik", {f3}, {x}) | torch.einsum("bij->bj", {f3})
torch.bmm({f3}, {x}.transpose(1, 2)) | {lin} | {lin} | torch.mm({f2}, {x}.t())
torch.dot({f1}, {x}) | torch.cdist({f2+}, {x}) | {f2+} @ {x}.mean(-2) | {conv1} | {conv2}
{conv2} | {pool1} | {pool2} | {deconv2} | {norm} | {norm} | F.pad({f}, (1, {k}))
F.pad({f3+}, (1, 0, {k}, 1), value={c}) | F.interpolate({f4}, scale_factor=2)
F.interpolate({f4}, size=({x}.shape[2] * 2, 5))
F.interpolate({f4}, scale_factor=2, mode="bilinear") | F.pad({f}, (-1, 1))
F.adaptive_avg_pool2d({f4}, 1) | F.adaptive_avg_pool1d({f3}, 2)
F.pad({f3}, (1, 1), mode="reflect") | F.unfold({f4}, 2) | F.pad({f3}, (1, 1), mode="replicate")
F.interpolate({f3}, size={n}) | F.interpolate({f3}, size={n}, mode="linear", align_corners=True)
F.max_pool1d({f3}, 2, ceil_mode=True) | {t}.unfold({d}, 1, 1)
F.scaled_dot_product_attention({f3+}, {x}, {x})
F.scaled_dot_product_attention({f4}, {x}, {x}, is_causal=True)
F.scaled_dot_product_attention({f3+}, {x}, {x}, attn_mask={x} @ {x}.mT > 0.5) | torch.zeros({n})
torch.ones({n}, {n}) | torch.full(({n},), {r}) | torch.arange({n}) | torch.arange({n}).float()
torch.linspace(0, 1, {n}) | torch.arange({n}, 0, -1) | torch.full(({n},), {n})
torch.zeros_like({t}) | torch.ones_like({t}) | torch.full_like({f}, {r}) | {t}.new_zeros({n})
{t}.new_ones({x}.shape) | torch.eye({n}) | {f}.new_full(({n}, 2), {c})
torch.empty({n}).fill_({c}) | torch.tensor({n}) | torch.tensor([{n}, {n}]) | torch.tensor({r})
torch.tril(torch.ones({n}, {n})) | torch.triu({f2+}) | {f2+}.tril(-1) | torch.diag({f1})
{f2+}.diagonal() | torch.diag_embed({f}) | torch.meshgrid({t1}, {x}, indexing="ij")[0]
torch.cartesian_prod({t1}, {x}) | torch.arange({n})[None] < torch.arange({n})[:, None]
torch.arange({n}) % {k} | {t}.clone() | {t}.detach() | {t}.contiguous() | {t}.data
torch.broadcast_to({t}, (2, *{x}.shape)) | {t}.nonzero() | {f}.nan_to_num()
torch.bucketize({f}, torch.tensor([-1.0, 0.0, 1.0])) | {f}.isnan() | {f}.isfinite()
torch.logical_xor({t} > 0, {x} > 1) | {t}.numel() * {f} | {f} * len({x}) | {f} * {x}.dim()
{f} / {x}.shape[-1] ** 0.5 | {f} * math.sqrt({x}.size(0)) | {f} + math.log({n} + 1)
{f} * max({n}, {n}) | {f} * min({n}, {k}) | {f} * ({n} % 3) | {f} + (7 // {n})
{f} * math.prod({x}.shape) | {f} + 1 / {n} | {f} * sum({x}.shape) | {f}[: max({n}, 1)]
{f}[..., ({n}) // 2 :] | {f} - math.ceil({n} / 2) | {f} + math.floor({n} * 0.5)
F.cosine_similarity({f2+}, {x}, dim=-1) | F.mse_loss({f}, {same}) | F.glu({f}, {d})
F.one_hot({i} % 4) | torch.searchsorted(torch.tensor([-1.0, 0.0, 1.0]), {f}) | {f2+}.argmax()
{f}.median({d})[0] | {f}.quantile(0.5, {d}) | {f}.diff(dim={d}) | {f}.logcumsumexp({d})
{f}.cummax({d})[0] | {i}.bitwise_and({k}) | {i} << {k} | {i}.clamp(0, {n}) | {i} / {n} | {i} * {c}
{i}.pow(2) | {f}.float().abs().pow({c}) | {f}.addcmul({x}, {x})
torch.clamp({f}, {same}, {x} + 1) | {f}.swapaxes(0, -1) | torch.rot90({f2+})
F.pixel_shuffle({f4}.repeat(1, 4, 1, 1), 2) | F.channel_shuffle({f4}.repeat(1, 2, 1, 1), 2)
F.fold(F.unfold({f4}, 1), {x}.shape[2:], 1) | {t}.index_select({d}, torch.arange({x}.shape[{ax}]))
{f}.masked_select({x} > 0) | {f}.triu() | torch.block_diag({f2}, {x}) | torch.kron({f1}, {x})
torch.histc({f}) | {f}.float().hardtanh() | torch.repeat_interleave({t}, {k}, dim={d})
{t} + {t} | {t} * {t} | {t} - {h} | {i} + {t} | {b} + {b} | {b} * {f} | {b} ^ {same} | {t} // {k}
{t}.byte() | {t}.to(torch.int8) | {t}.short() | {t}.int() * {k} | {h}.to(torch.float16) * {c}
{t}.sum(dtype=torch.float32) | {t}.sum({d}, dtype=torch.float64)
{t}.cumsum({d}, dtype=torch.int64)
{t}.mean({d}, dtype=torch.float32) | {h}.softmax({d}) | {h}.mean({d}) | {h}.sum() | {h}.exp()
{h} / 3
{h}.softmax({d}, dtype=torch.float32) | {h2+} @ {x}.mT | {h}.cumsum({d}) | {h}.amax({d})
{h}.abs().sqrt()
{t}.max() | {t}.min({d})[0] | {t}.argmax({d}) | {t}.sort({d}, stable=True)[0]
{t}.topk(1, {d})[1] * 0
{t}.prod() | {t}.square() | {t}.neg() | {t}.sign() | {t}.clamp(0, 2) | {t}.clamp_min({k})
{i}.abs() ** {k}
{i} ** 2 | {i}.float().pow({k}) | {i} / {i} | {i}.remainder({k}) | {i}.fmod({k})
{i}.div({k}, rounding_mode="trunc")
{i}.div({k}, rounding_mode="floor") | {f}.div({k}, rounding_mode="trunc") | {i}.bitwise_or({k})
{i} & {same} | {i} >> 1
torch.where({b}, {x}, {like}) | torch.where({t} > {k}, {x}, {like}) | torch.where({b}, {k}, {c})
{t}.bool().long()
torch.where({t} != {k})[0] | {t}.count_nonzero({d}) | {t}.any({d}) | {t}.eq({k}).all()
{t}.isin(torch.tensor([0, 1]))
torch.complex({f}, {same}) | torch.fft.fft({f}) | torch.fft.rfft({f}, dim={d})
torch.polar({f}.abs(), {x})
torch.view_as_complex({f}[..., :2].contiguous()) | {z}.abs() | {z}.real | {z}.imag | {z}.angle()
{z} * {z}
{z}.conj() | {z} * {x} | {z} + {f} | {z} * {c} | {z}.sum({d}) | {z}.mean()
torch.view_as_real({z}.resolve_conj())
{z2+}.mT | {z}[{at}] | {z}.reshape(-1) | torch.fft.ifft({z}) | torch.fft.irfft({z}, dim={d})
{z}.flip({d})
torch.cat([{z}, {x}], {d}) | {z2+} @ {x}.mH | {z}.exp() | -{z} | {z}.cumsum({d})
{z}.expand(2, *{x}.shape)
{t}.T | {t2+}.adjoint() | {t}.swapdims(0, -1) | {t}.unbind({d})[0] | {t}.unsqueeze(-1)
{t2+}[..., 0, :]
{t}.unfold({d}, 2, 1) | {t}[..., ::2] | {t}.hsplit(1)[0] | {t2+}.vsplit(1)[0]
{t}.reshape_as({x}) | {t}.squeeze(0)
{t2+}.diagonal(1) | {f3+}.diagonal(0, 1, 2) | {t}.unflatten(-1, (1, -1)) | {t}.chunk(3, {d})[-1]
{t}.view(*{x}.shape, 1)
{t}[..., {n} :] | {t}[{part}, ...] | {t}.narrow({d}, {x}.shape[{ax}] // 2, 1)
{t}.as_strided({x}.shape, {x}.stride())
{f}.std_mean({d})[1] | torch.var_mean({f}, {d}, correction=0)[0] | torch.aminmax({t}).max
{f}.renorm(2, 0, 1.0)
torch.cond({t}.sum() > {k}, lambda t: t * 2.0, lambda t: t + 1.0, ({x},))
torch.cond({f}.mean() > 0, lambda t: t.relu(), lambda t: t.sin() + {x}, ({x},))
torch.cond({b}.any(), lambda t: t.sum(0), lambda t: t.amax(0), ({f},))
torch.cond(({t} > 0).all(), lambda a, b: (a + b, a), lambda a, b: (a - b, b), ({x}, {x}))[0]
while_loop(lambda i, t: i < {k}, lambda i, t: (i + 1, t * 0.5 + i), (torch.tensor(0), {f}))[1]
while_loop(lambda i, t: (t.sum() < 9) & (i < 20), lambda i, t: (i + 1, t.abs() + 1), (torch.tensor(0), {f}))[0]
torch.vmap(lambda row: row.cumsum(0))({t2+}) | torch.vmap(lambda row: row * {k} + row.sum())({f})
torch.vmap(lambda a, b: (a * b).sum(), in_dims=(0, None))({f2+}, {x}[0])
F.conv_transpose1d({f3}, {x}.mean(0, keepdim=True).mT[:, :, :1].expand(-1, 2, -1))
F.instance_norm({f3+})
F.layer_norm({f}, {x}.shape[-1:]) | F.group_norm({f3+}, 1) | F.rms_norm({f}, ({x}.shape[-1],))
F.local_response_norm({f3+}, 2)
F.softmin({f}, {d}) | F.logsigmoid({f}) | F.mish({f}) | F.selu({f}) | F.celu({f})
F.threshold({f}, {c}, {c}) | F.tanhshrink({f})
F.prelu({f2+}, {x}.flatten()[:1]) | F.smooth_l1_loss({f}, {same})
F.pairwise_distance({f2+}, {x} * 2) | F.pdist({f2})
torch.trapezoid({f}, dim={d}) | torch.cov({f2}) | torch.corrcoef({f2}) | {f}.nansum({d})
{f}.nanmean() | torch.cumulative_trapezoid({f})
torch.tensordot({f2+}, {x}, dims=([0], [0])) | torch.addmm({f2} @ {x}.mT, {x}, {x}.mT)
torch.baddbmm({f3} @ {x}.mT, {x}, {x}.mT)
torch.linalg.norm({f2}) | torch.linalg.vector_norm({f}, dim={d})
torch.cross({f}[..., :3], {x}[..., :3], dim=-1) | torch.vander({f1}, {k})
"""

DOES = """
{x}.add_({k}) | {x}.mul_(2) | {xf}.neg_() | {xf}.clamp_(-1, 1) | {x}.zero_() | {xf}.fill_({c})
{xf}.relu_() | {xf}[..., 0] = {c} | {x}[{part}] = {k} | {x}[{at}] = {k} | {x}[{at}] *= 2
{x}[{at}] += {x}[{at2}] | {xf}[{x} > {c}] = {c} | {xf}.masked_fill_({x} < 0, {c})
{x}[..., {part}] += 1 | {x}[0] = {x}[-1] | {xf} += {like} | {xf} *= {r} | {x} -= {n}
{x}[: {n}] = 1 | {x}[{n} :] = 0 | {x}.copy_({x} * 2) | {xf}.sub_({same}) | {x}[-1] += {x}[0]
{x}.unsqueeze_(0) | {x}.t_() | {x}.transpose_(0, -1) | {x}.select({d}, 0).fill_({k})
{x}.narrow({d}, 0, 1).zero_() | {x}[torch.arange({x}.shape[0])] = {x} + 1 | {x}.view(-1)[0] = {k}
{x}.unsqueeze(0)[..., -1] = {k} | {x}.transpose(0, -1)[0] = {k} | {x}[[0, -1]] = {k}
{x}[torch.tensor([0])] += 1 | {xf}.scatter_({d}, {x}.argmax({d}, keepdim=True), {c})
{x}.index_fill_({d}, torch.tensor([0]), {k})
{xf}.index_add_(0, torch.tensor([0]), {x}[:1].clone())
{xf}.index_copy_(0, torch.tensor([0]), {x}[-1:].clone()) | {x}.detach().mul_(2)
{x}.data[0] = {k} | {xf}.div_({n}) | torch.mul({x}, 2, out={x}) | {xf}.cumsum_({d})
{x}.squeeze_() | {x}.fill_diagonal_({k}) | {xf}.tril_()
{xf}.masked_scatter_({x} > 0, {x}.flip(0)) | {xf}.addcmul_({x}, {x}) | {xf}.diagonal().fill_({c})
{x}.chunk(2, {d})[0].mul_(2)
{x}.unbind({d})[0].add_({k}) | {x}.split({k}, {d})[-1].zero_() | {x}.permute({perm})[0] = {k}
{x}.mT[0] = {k}
{x}.movedim({ddargs}).sub_({k}) | {x}.unflatten(-1, (1, -1))[..., 0] = {k}
{x}.unfold({d}, 1, 1)[0] = {k}
{x}[{at}].transpose(0, -1)[0] = {k} | {x}[{part}][..., {part}] = {k}
{x}[{part}].view(-1)[0] = {k} | {x}.squeeze(0).mul_(2)
{x}.flatten()[0] = {k} | {x}.reshape(-1)[{part}] = {k} | {x}.contiguous().mul_(2)
{x}.transpose(0, -1).reshape(-1)[0] = {k}
{x}.diagonal(1).add_({k}) | {x}.swapaxes(0, -1).copy_({x}.swapaxes(0, -1) * 2)
{x}.narrow({d}, {x}.shape[{ax}] // 2, 1).fill_({k})
{x}.select({d}, -1).copy_({x}.select({d}, 0).clone()) | {x}[{part}].copy_({x}[{part}].clone())
{x}.expand(2, *{x}.shape)[0].sum() | {x}[..., :1] = {x}[..., -1:]
{x}.tensor_split(2, {d})[0].neg_() | {x}.view({shape})[0] = {k} | {x}.view({shape}).mul_(2)
{x}[None, ..., None].add_({k}) | {x}.t()[0] = {k}
{x}.unsqueeze_(-1) | {x}.swapaxes_(0, -1) | {x}.detach()[0] = {k} | {x}.view_as({x})[..., 0] = {k}
{x}[{at}].neg_() | {x}.ravel()[-1] = {k}
{x}[{x} > 0] *= 2 | {x}[{x} > {k}] = {x}[{x} > {k}] - 1 | {x}[{x} < 0] = 0 | {x}[..., {n} :] = {k}
{x}[: {n}] += {x}[: {n}].clone() | {x}.add_({like})
{x}[torch.tensor([0, 0])] = {k} | {x}[torch.arange({x}.shape[0]), ..., 0] = {k}
{x}[torch.tensor([0]), ..., torch.tensor([-1])] += 1
{x}.index_put_((torch.tensor([0, 0]),), torch.ones_like({x}[:1]), accumulate=True)
{x}.clamp_min_({k}) | {x}.fmod_({k} + 1) | {x}.floor_divide_(2)
{xf}.lerp_({same}, {c}) | {xf}.add_({same}, alpha={k}) | {xf}.sigmoid_() | {xf}.exp_()
{xf}.addcdiv_({x}, {x}.abs() + 1) | {xf}.round_() | {xf}.pow_(2)
{x}.swapaxes(0, -1)[{part}] += {k} | {x}.mT.mul_({k}) | {x}.mT[{at}] = {k} | {x}.T.add_(1)
{x}.scatter_({d}, torch.zeros_like({x}, dtype=torch.long)[:1], {x} * 2)
torch.add({x}, {k}, out={x}) | torch.clamp({x}, 0, 2, out={x})
torch.neg({x}[{at}], out={x}[{at2}]) | {x}.set_({x}.clone()) | {x}.data.mul_({k})
{xz}.real.mul_(2) | {xz}.imag[0] = {k} | {xz}.mul_(1j) | {xz}.conj().add_({k})
torch.view_as_real({xz})[..., 0] = {k} | {xz}[{at}] = {k}
"""

LOOPS = """
for i in range({x}.shape[{ax}]):\n    {x} = {x} + {x}.select({ax}, i).sum()
for i in range({k}):\n    {x} = {x} * 0.5 + i
for part in {x}.split({k}, {d}):\n    {x} = {x} + part.sum()
for i, row in enumerate({x}.unbind({d})):\n    {x} = {x} + row.sum() * i
for i in range({n}):\n    {x} = {x} + i
rows = [row * (i + 1) for i, row in enumerate({x})]\n{x} = torch.stack(rows)
for size in {x}.shape:\n    {x} = {x} + size
for i in range({x}.shape[{ax}]):\n    {x}.select({ax}, i).mul_(i + 1)
for i in range({k}):\n    {x}[{part}] += i
for i in range({k}):\n    {x} = {x}.clone()\n    {x}[..., i : i + 1] = i
for row in {x}:\n    row.add_(1)
for i, part in enumerate({x}.chunk(2, {d})):\n    part.mul_(i + 2)
for i in range({k}):\n    for j in range(2):\n        {x} = {x} + i * j
i = 0\nwhile i < {k}:\n    {x} = {x} * 2 - i\n    i += 1
old = {x}\n{x} = {x}.clone()\nold.mul_(2)\n{x} = {x} + old
a, b = {x}.split([1, {x}.shape[{ax}] - 1], {d})\na.copy_(a * 2)\nb.add_(a.sum())
a, b = {x}.max({d})\n{x} = torch.cat([a.flatten(), b.flatten() + 0.0])
view = {x}.transpose(0, -1)\n{x}.mul_(2)\nview[0] = {k}\n{x} = {x} + 0
if {x}.dim() > 1 and {x}.shape[0] == {x}.shape[1]:\n    {x} = {x} + 1\nelse:\n    {x} = {x} - 1
try:\n    {x} = {x} + torch.ones(97)\nexcept RuntimeError:\n    {x} = {x} * 2
if torch.is_floating_point({x}):\n    {x} = {x} * 0.5
with torch.no_grad():\n    {x} = {x} * 2
found = {"a": {x}, "b": [{x} * 2, {x}.sum()]}\n{x} = found["b"][0] + found["a"]
rows = []\nfor i in range(0, {x}.shape[{ax}], 2):\n    rows.append({x}.narrow({ax}, i, 1))\n{x} = torch.cat(rows, {ax})
"""


def _split(text: str) -> list[str]:
    parts = re.split(r" \| |\n", text.strip())
    return [p.strip().replace("\\n", "\n") for p in parts if p.strip()]


MAKE, DO = _split(MAKES), _split(DOES)
LOOP = [
    line.replace("\\n", "\n") for line in LOOPS.strip().replace("\n    ", "\\n    ").split("\n")
]


OTHER = ["bool", "float16", "float64", "int32", "uint8", "int8", "bfloat16"]


class Again(Exception):
    """Nothing fits here: draw something else."""


@dataclasses.dataclass
class Model:
    """A drawn program, and how it is to be exported."""

    inputs: dict[str, tuple[str, tuple[int, ...]]]  # name -> dtype, recorded shape
    dynamic: dict[str, dict[int, str]]
    params: dict[str, tuple[int, ...]]
    lines: list[str]
    outputs: list[str]
    opset: int
    seed: int

    def source(self) -> str:
        setup = [f"self.{n} = table({list(s)})" for n, s in self.params.items()]
        body = [row for line in self.lines for row in line.split("\n")]
        returned = ", ".join(self.outputs) + ("," if len(self.outputs) == 1 else "")
        parts = [f"    def forward(self, {', '.join(self.inputs)}):"]
        parts += [f"        {row}" for row in body] + [f"        return {returned}"]
        if setup:
            head = ["    def __init__(self):", "        super().__init__()"]
            parts = head + [f"        {row}" for row in setup] + [""] + parts
        return "\n".join(["class Drawn(nn.Module):", *parts, ""])

    def made(self) -> torch.nn.Module:
        name = f"<drawn {self.seed}>"
        text = HEAD + self.source()
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        space: dict[str, Any] = {"table": table, "__name__": "drawn"}
        exec(compile(text, name, "exec"), space)
        return space["Drawn"]().eval()

    def sizes(self) -> dict[str, int]:
        found = {}
        for name, axes in self.dynamic.items():
            for axis, word in axes.items():
                found[word] = self.inputs[name][1][axis]
        return found

    def tensors(self, sizes: dict[str, int], seed: int) -> dict[str, torch.Tensor]:
        made = {}
        for place, (name, (dtype, shape)) in enumerate(self.inputs.items()):
            words = self.dynamic.get(name, {})
            real = [sizes[words[i]] if i in words else n for i, n in enumerate(shape)]
            made[name] = drawn(dtype, real, 1000 * self.seed + 10 * seed + place)
        return made

    def __str__(self) -> str:
        return (
            f"# seed {self.seed}, opset {self.opset}, inputs {self.inputs}, "
            f"dynamic {self.dynamic}\n{self.source()}"
        )


def drawn(dtype: str, shape, seed: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    if dtype == "bool":
        return torch.rand(tuple(shape), generator=rng) < 0.5
    if "int" in dtype:
        return torch.randint(0 if dtype == "uint8" else -4, 8, tuple(shape), generator=rng).to(
            getattr(torch, dtype)
        )
    return torch.randn(tuple(shape), generator=rng).to(getattr(torch, dtype))


def table(shape) -> torch.nn.Parameter:
    rng = torch.Generator().manual_seed(sum(n * 31**i for i, n in enumerate(shape)))
    return torch.nn.Parameter(torch.randn(tuple(shape), generator=rng) * 0.5)


class Writer:
    """Draws one model, running it as it grows."""

    def __init__(self, seed: int, length: int) -> None:
        self.r = random.Random(seed)
        self.seed = seed
        self.space: dict[str, Any] = {"torch": torch, "math": math_module, "F": F, "self": Holder()}
        self.space["while_loop"] = torch._higher_order_ops.while_loop
        self.tensors: list[str] = []
        self.params: dict[str, tuple[int, ...]] = {}
        self.lines: list[str] = []
        self.length = length
        self.last = ""

    def draw(self) -> Model:
        r = self.r
        inputs, dynamic = self._inputs()
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            tries = 0
            while len(self.lines) < self.length and tries < 40 * self.length:
                tries += 1
                self._line()
        held = [n for n in self.tensors if n not in inputs] or list(inputs)
        outputs = [self._told(n) for n in r.sample(held, min(len(held), 6))]
        opset = r.choice([13, 14, 15, 16, 17, 18, 19, 20, 20, 20, 21, 22, 23, 24, 25, 26])
        params = {n: s for n, s in self.params.items() if any(f"self.{n}" in t for t in self.lines)}
        return Model(inputs, dynamic, params, self.lines, outputs, opset, self.seed)

    def _told(self, name: str) -> str:
        """Complex numbers are pairs in a file."""
        if self.space[name].is_complex():
            return f"torch.view_as_real({name}.resolve_conj().resolve_neg())"
        return name

    def _inputs(self):
        r = self.r
        words = {"b": r.choice([2, 3, 5]), "n": r.choice([4, 6, 7]), "m": r.choice([1, 5, 9])}
        inputs: dict[str, tuple[str, tuple[int, ...]]] = {}
        dynamic: dict[str, dict[int, str]] = {}
        for name in ["x", "y", "z"][: r.choice([1, 1, 2, 3])]:
            dtype = r.choice(["float32"] * 6 + ["int64"] * 2 + OTHER)
            if name == "x" and r.random() < 0.8:
                dtype = "float32"
            axes, shape = {}, []
            for axis in range(r.choice([1, 2, 2, 3, 3, 3, 4, 4])):
                word = (
                    r.choice(["b", "n", "m", "", "", ""]) if axis else r.choice(["b", "b", "n", ""])
                )
                shape.append(words[word] if word else r.choice([1, 2, 3, 4, 6, 8]))
                if word:
                    axes[axis] = word
            inputs[name] = (dtype, tuple(shape))
            dynamic[name] = axes
            self.space[name] = drawn(dtype, shape, 1000 * self.seed + len(inputs) - 1)
            self.tensors.append(name)
        return inputs, {k: v for k, v in dynamic.items() if v}

    def _line(self) -> None:
        r = self.r
        kind = r.random()
        before = dict(self.params)
        try:
            if kind < 0.78 or len(self.lines) == 0:
                self.last = ""
                name = f"v{len(self.lines)}"
                line = f"{name} = {self._filled(r.choice(MAKE))}"
            elif kind < 0.95:
                fresh = [t for t in self.tensors if t.startswith("v")]
                self.last = name = r.choice(fresh or self.tensors)
                if r.random() < 0.05:
                    self.last = name = r.choice(self.tensors)  # an input may be written to as well
                line = self._filled(r.choice(DO))
            else:
                self.last = name = r.choice(self.tensors)
                line = self._filled(r.choice(LOOP))
            exec(line, self.space)
            result = self.space[name]
            if result.numel() == 0 and r.random() < 0.95:
                raise Again
        except Exception:
            self.params = before
            return
        if not isinstance(result, torch.Tensor) or result.numel() > 3000 or result.dim() > 5:
            if name not in self.tensors:
                self.space.pop(name, None)
                return
        self.lines.append(line)
        if name not in self.tensors:
            self.tensors.append(name)

    # Templates.

    def _filled(self, template: str) -> str:
        # Left to right, as some refer to what was drawn before.
        return re.sub(r"\{([a-z]+\d?\+?)(?::([\d,]+))?\}", self._hole, template)

    def _hole(self, match: re.Match) -> str:
        word, detail = match.groups()
        if word == "w":
            return self._param(tuple(map(int, detail.split(","))))
        found = re.fullmatch(r"([tfibhz])(\d)?(\+)?", word)
        if found:
            return self._tensor(*found.groups())
        return getattr(self, f"_{word}")()

    def _tensor(self, kind: str, rank: str | None, more: str | None) -> str:
        def fits(name: str) -> bool:
            t = self.space[name]
            if rank is not None and not (t.dim() >= int(rank) if more else t.dim() == int(rank)):
                return False
            if kind == "f":
                return t.dtype == torch.float32
            if kind == "h":
                return t.is_floating_point()
            if kind == "z" or t.is_complex():
                return t.is_complex() and (kind == "z" or (kind == "t" and self.r.random() < 0.1))
            if kind in "ib":
                return t.dtype == (torch.int64 if kind == "i" else torch.bool)
            return True

        names = [n for n in self.tensors if fits(n)]
        if not names:
            raise Again
        # Rather the newer ones: chains are what models are.
        self.last = self.r.choice(names[-4:] if self.r.random() < 0.6 else names)
        return self.last

    def _value(self) -> torch.Tensor:
        return self.space[self.last]

    def _x(self) -> str:
        return self.last

    def _xf(self) -> str:
        if not self._value().is_floating_point():
            raise Again
        return self.last

    def _xz(self) -> str:
        if not self._value().is_complex():
            raise Again
        return self.last

    def _like(self) -> str:
        x, r = self._value(), self.r
        kind = r.random()
        if kind < 0.15:
            return self._c()
        if kind < 0.25:
            return self._k()
        if kind < 0.4:
            return self._n()
        if kind < 0.5:
            return self._r()
        if kind < 0.7:
            return self._same()
        if kind < 0.8 and x.dim():
            return f"{self.last}.mean({self._d()}, keepdim=True)"
        names = [n for n in self.tensors if _broadcast(x, self.space[n])]
        return r.choice(names)

    def _same(self) -> str:
        x = self.last
        names = [n for n in self.tensors if self.space[n].shape == self._value().shape]
        return self.r.choice([x, f"{x} * 2", f"{x}.flip(0)", *names])

    def _ax(self) -> str:
        return str(self.axis)

    def _d(self) -> str:
        rank = self._value().dim()
        if not rank:
            raise Again
        self.axis = self.r.randrange(rank)
        return str(self.axis if self.r.random() < 0.6 else self.axis - rank)

    def _dd(self) -> str:
        rank = self._value().dim()
        return str(sorted(self.r.sample(range(rank), 2)))

    def _ddargs(self) -> str:
        return self._dd()[1:-1]

    def _perm(self) -> str:
        rank = self._value().dim()
        return ", ".join(map(str, self.r.sample(range(rank), rank)))

    def _reps(self) -> str:
        return ", ".join(str(self.r.choice([1, 1, 2])) for _ in range(self._value().dim())) or "2"

    def _k(self) -> str:
        return str(self.r.choice([1, 2, 3]))

    def _c(self) -> str:
        return self.r.choice(["0.5", "1.25", "0.1", "2.0", "-0.75"])

    def _axis_of(self) -> str:
        r = self.r
        name = r.choice(self.tensors)
        rank = self.space[name].dim()
        if not rank:
            return f"{name}.numel()"
        if r.random() < 0.1:
            return f"len({name})"
        axis = r.randrange(-rank, rank)
        return r.choice([f"{name}.shape[{axis}]", f"{name}.size({axis})"])

    def _n(self) -> str:
        """A number computed from sizes that is not negative, and small."""
        r = self.r
        for _ in range(10):
            a = self._axis_of()
            if r.random() < 0.25:  # of sizes that were themselves computed
                b = self._axis_of()
                a = r.choice([f"({a} + {b} - 1)", f"({a} * 3 // 2)", f"(({a} - 1) // 2 + 1)",
                              f"(({a} + 2 * 1 - 3) // 2 + 1)", f"max({a}, {b} // 2)",
                              f"({a} % {b} + 1)", f"(-{a} % 4)", f"({a} - {a} % 2)"])  # fmt: skip
            text = r.choice([
                a, a, a, a, f"({a} * 2)", f"({a} + 1)", f"({a} * 2 + 1)", f"({a} // 2)", f"({a} % 3)",
                f"(({a} + 1) // 2)", f"max({a}, 3)", f"min({a}, 4)", f"max({a} - 2, 1)", f"abs(3 - {a})",
                f"({a} * {self._axis_of()} // 2)", f"min({a}, {self._axis_of()})", f"max({a}, {self._axis_of()})",
                f"({a} - {self._axis_of()} + 8)", f"(-(-{a} // 2))", f"(({a} - 5) // 2 + 3)", f"(({a} - 5) % 4)",
                f"math.ceil({a} / 2)", f"round({a} * 0.75)", f"({a} << 1)", f"({a} ** 2)", f"int({a} * 2)",
                f"(7 // max({a}, 1))", f"({a} & 3)", f"divmod({a}, 3)[1]", f"math.isqrt({a})",
                f"int({a} * 0.7)", f"int({a} / 3)", f"int(math.sqrt({a}) + 1)",
                f"int(2.5 * {a} % 7)", f"{r.choice(self.tensors)}.shape.numel() % 7",
            ])  # fmt: skip
            value = eval(text, self.space)
            if 0 <= value <= 24:
                self.n0 = text
                return text
        raise Again

    def _n0(self) -> str:
        """The size that was drawn last, again."""
        return self.n0

    def _r(self) -> str:
        a, r = self._axis_of(), self.r
        return r.choice([
            f"({a} / 4)", f"({a} ** -0.5)", f"(1 / {a})", f"math.sqrt({a})", f"({a} * 0.25)",
            f"({a} / {self._axis_of()})", f"math.log({a} + 2)", f"math.exp(-{a})", f"({a} / 2 // 1)",
            f"max({a} / 3, 1.0)", f"({a} / 2 - {self._axis_of()})", f"(1.5 * {a})", f"(1.0 / {a})",
                f"float({a})", f"(2.0 - {a})", f"({a} * 0.1 + {self._axis_of()})",
                f"(({a} - 1) * 0.5)", f"(1 - 1 / {a})",
        ])  # fmt: skip

    def _part(self) -> str:
        r = self.r

        def bound() -> str:
            kind = r.random()
            if kind < 0.4:
                return ""
            if kind < 0.75:
                return str(r.randint(-3, 3))
            return self._n() if kind < 0.9 else f"-{self._n()}"

        step = r.choice(["", "", "", " :2", " :3"]).replace(" ", "")
        return f"{bound()}:{bound()}{step}"

    def _at(self) -> str:
        r, rank = self.r, self._value().dim()
        parts = []
        for _ in range(r.randint(1, max(rank, 1))):
            kind = r.random()
            if kind < 0.5:
                parts.append(self._part())
            elif kind < 0.65:
                parts.append(str(r.choice([0, -1, 1])))
            elif kind < 0.75:
                parts.append("None")
            elif kind < 0.82:
                parts.append("[0, -1]")
            elif kind < 0.88:
                parts.append("torch.tensor([0, 0])")
            else:
                parts.append(":")
        if r.random() < 0.3:
            parts.insert(r.randint(0, len(parts)), "...")
        self.place = ", ".join(parts)
        return self.place

    def _at2(self) -> str:
        return self.place

    def _shape(self) -> str:
        """A shape in sizes of the tensor itself."""
        name, r = self.last, self.r
        rank = self._value().dim()
        sizes = [f"{name}.shape[{i}]" for i in range(rank)]
        if rank < 1:
            return "1, 1"
        i = r.randrange(rank)
        if r.random() < 0.4 and rank > 1 and i < rank - 1:
            sizes[i : i + 2] = [f"{sizes[i]} * {sizes[i + 1]}"]
        elif r.random() < 0.5:
            value = self._value().shape[i]
            if value % 2 == 0:
                sizes[i : i + 1] = r.choice([["2", f"{sizes[i]} // 2"], [f"{sizes[i]} // 2", "2"]])
            else:
                sizes[i : i + 1] = [sizes[i], "1"]
        if r.random() < 0.4:
            sizes[r.randrange(len(sizes))] = "-1"
        if r.random() < 0.15:
            return f"*{name}.shape, 1"
        return ", ".join(sizes)

    # Layers.

    def _param(self, shape: tuple[int, ...]) -> str:
        name = "w" + "_".join(map(str, shape))
        self.params[name] = shape
        setattr(self.space["self"], name, table(shape))
        return f"self.{name}"

    def _f_of_rank(self, rank: int) -> tuple[str, torch.Size]:
        name = self._tensor("f", str(rank), None)
        return name, self.space[name].shape

    def _lin(self) -> str:
        name = self._tensor("f", "1", "+")
        n = self.space[name].shape[-1]
        bias = self._param((3,)) if self.r.random() < 0.5 else "None"
        return f"F.linear({name}, {self._param((3, n))}, {bias})"

    def _conv1(self) -> str:
        name, shape = self._f_of_rank(3)
        more = self.r.choice(
            ["", ", padding=1", ", stride=2, padding=1", ", dilation=2, padding=2"]
        )
        return f"F.conv1d({name}, {self._param((2, shape[1], 3))}{more})"

    def _conv2(self) -> str:
        name, shape = self._f_of_rank(4)
        if self.r.random() < 0.25:
            return f"F.conv2d({name}, {self._param((shape[1], 1, 3, 3))}, padding=1, groups={shape[1]})"
        more = self.r.choice(
            ["", ", padding=1", ", stride=2, padding=1", ", padding='same'", ", padding=(0, 1)"]
        )
        return f"F.conv2d({name}, {self._param((2, shape[1], 3, 3))}{more})"

    def _deconv2(self) -> str:
        name, shape = self._f_of_rank(4)
        more = self.r.choice(["", ", stride=2", ", stride=2, padding=1, output_padding=1"])
        return f"F.conv_transpose2d({name}, {self._param((shape[1], 2, 2, 2))}{more})"

    def _pool1(self) -> str:
        name, _ = self._f_of_rank(3)
        return f"F.{self.r.choice(['max', 'avg'])}_pool1d({name}, 2{self._pooling()})"

    def _pool2(self) -> str:
        name, _ = self._f_of_rank(4)
        return f"F.{self.r.choice(['max', 'avg'])}_pool2d({name}, 2{self._pooling()})"

    def _pooling(self) -> str:
        return self.r.choice(["", ", 1", ", 2, 1", ", ceil_mode=True", ", 3, 1, ceil_mode=True"])

    def _norm(self) -> str:
        r = self.r
        name = self._tensor("f", "2", "+")
        shape = self.space[name].shape
        kind = r.choice(["layer", "layer", "group", "instance", "batch", "rms"])
        if kind in ("layer", "rms"):
            n = shape[-1]
            weight = f", {self._param((n,))}" if r.random() < 0.5 else ""
            size = f"({n},)" if r.random() < 0.7 else f"({name}.shape[-1],)"
            return f"F.{kind}_norm({name}, {size}{weight})"
        if kind == "group":
            return f"F.group_norm({name}, 1)"
        if kind == "instance":
            return f"F.instance_norm({name})"
        c = shape[1]
        return f"F.batch_norm({name}, {self._param((c,))}, {self._param((c,))}.abs() + 0.5)"


class Holder:
    pass


F = torch.nn.functional
math_module = __import__("math")


def _broadcast(a: torch.Tensor, b: torch.Tensor) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(a.shape[::-1], b.shape[::-1]))


# Checking.


@dataclasses.dataclass
class Outcome:
    kind: str
    detail: str = ""
    at: str = ""

    @property
    def key(self) -> str:
        """Alike for faults of one kind, whatever names and numbers are in them."""
        return (
            self.kind + ": " + re.sub(r"[\d.e+-]*\d|'[^']*'|v\d+|\[[^]]*\]", "#", self.detail)[:70]
        )


def check(model: Model, prove: bool = False, only: str = "") -> Outcome:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        return _check(model, prove, only)


def _check(model: Model, prove: bool, only: str) -> Outcome:
    import hx

    try:
        module = model.made()
        recorded = model.tensors(model.sizes(), 0)
        before = [t.clone() for t in recorded.values()]
        expected = flat(module(*copied(tuple(recorded.values()))))
    except Exception as error:
        return Outcome("excluded", f"PyTorch itself refuses: {first_line(error)}")
    reason = unsayable(list(recorded.values()), expected, "hx")
    if reason:
        return Outcome("excluded", reason)
    try:
        program = hx.export(
            module, tuple(recorded.values()), dynamic=model.dynamic or None, opset=model.opset,
            verify=prove,
        )  # fmt: skip
    except HxError as error:
        kind = "refused"
        if isinstance(error, (hx.ConverterError, hx.VerificationError)):
            kind = "crashed" if isinstance(error, hx.ConverterError) else "wrong"
        text = f"{type(error).__name__}: {error}"
        if isinstance(error, hx.VerificationError) and _of_nothing(model, str(error)):
            kind = "refused"
        elif isinstance(error, hx.VerificationError):
            tensors = tuple(recorded.values())
            escapes = hx.scan(module, tensors, dynamic=model.dynamic or None).escapes
            kind = "told" if escapes else kind
        return Outcome(kind, text)
    except Exception as error:
        return Outcome("crashed", f"{type(error).__name__}: {error}")
    if not all(torch.equal(a, b) for a, b in zip(recorded.values(), before)):
        return Outcome("crashed", "the export wrote to the caller's tensors")
    data = _bytes(program.model)
    names = [value.name for value in program.model.graph.inputs]
    nodes = list(program.model.graph.all_nodes())
    try:
        session = runtime.Session(data)
    except runtime.Refused as error:
        return Outcome("crashed", f"does not load: {error}", "load")
    depth, coarse = verify.depth(wire.skeleton(data)), halves.passed(wire.skeleton(data))
    in_halves = [value.name in coarse for value in program.model.graph.outputs]
    for sizes, seed in trials(model):
        told = ", ".join(f"{k}={v}" for k, v in sizes.items()) + f" #{seed}"
        if only and told != only:
            continue
        tensors = model.tensors(sizes, seed)
        try:
            with halves.Watch() as seen:
                expected = flat(module(*copied(tuple(tensors.values()))))
        except Exception:
            continue  # not a size for this model
        used = {node.op_type for node in nodes}
        if 0 in sizes.values() and (used & NOT_EMPTY or (model.opset == 13 and "Reshape" in used)):
            continue
        wanted = {v.name for v in session._session.get_inputs()}
        feeds = {k: v for k, v in zip(names, tensors.values()) if k in wanted}
        changed = bool(program.report.escapes) and seed > 0
        try:
            found = session.run(feeds)
        except runtime.Refused as error:
            if _of_nothing(model, str(error)):
                continue
            return Outcome("told" if changed else "crashed", f"does not run: {error}", told)
        computed = [seen.dtype if half else None for half in in_halves]
        detail = _differs(found, expected, depth, computed)
        if detail:
            if changed:
                return Outcome("told", str(program.report.escapes[0]), told)
            if _shaky(module, tensors, found, expected):
                return Outcome("shaky", detail, told)
            return Outcome("wrong", detail, told)
    return Outcome("right")


def _of_nothing(model: Model, error: str) -> bool:
    """What cannot be said of tensors without elements: by a Reshape-13, or to onnxruntime."""
    unsayable = "dimension with value zero" in error or ("Input shape:{" in error and "0" in re.findall(
        r"\d+", error.partition("Input shape:{")[2].partition("}")[0]
    ))  # fmt: skip
    return (
        (model.opset == 13 and unsayable)
        or "modulo by zero" in error
        or "Only N can be zero" in error
    )


def _bytes(model: Any) -> bytes:
    import onnx_ir

    return onnx_ir.to_proto(model).SerializeToString()


def trials(model: Model):
    """Sizes to compare at, and a seed for the contents: the recorded ones first."""
    recorded = model.sizes()
    yield recorded, 0
    yield recorded, 1
    words = list(recorded)
    if not words:
        return
    r = random.Random(model.seed)
    yield {w: n + 1 + i % 2 for i, (w, n) in enumerate(recorded.items())}, 2
    for number, word in enumerate(words):
        yield {**recorded, word: 1}, 3 + number
    for number in range(3):
        yield {w: r.choice([1, 2, 3, 4, 5, 8, 10, 11]) for w in words}, 6 + number
    for word in words:
        yield {**recorded, word: 0}, 9


def _differs(found: list, expected: list, depth: int, computed: list) -> str:
    """`computed` is for each output the half float that its numbers went through, if any."""
    if len(found) != len(expected):
        return f"{len(found)} outputs for {len(expected)}"
    for place, (mine, real, half) in enumerate(zip(found, expected, computed)):
        dtype = compare.coarser(real.dtype, half)
        allowed = compare.Tolerance.for_dtype(dtype, depth)
        if real.is_floating_point():
            loose = {torch.float16: 4e-3, torch.bfloat16: 3e-2}.get(dtype, 1e-4)
            allowed = dataclasses.replace(allowed, share=max(allowed.share, loose), floor=1e-5)
        off = compare.difference(mine, real, allowed)
        if off.problem:
            return f"output {place}: {off.problem}; {off.got} for {off.want} at {off.worst}"
    return ""


def _shaky(module, tensors, found: list, expected: list) -> bool:
    """Whether the model's own answers move as much when its inputs move by a rounding.

    Also when it is worked out in double precision: then PyTorch's own answer is one of several.
    """
    for seed in range(8):
        moved = variations.jitter(list(tensors.values()), seed)
        if seed == 7:
            moved = [t.double() if t.dtype == torch.float32 else t for t in tensors.values()]
        try:
            other = flat(module(*copied(tuple(moved))))
        except Exception:
            continue
        if [t.shape for t in other] != [t.shape for t in expected]:
            return True
        for mine, real, near in zip(found, expected, other):
            if mine.shape != real.shape or mine.dtype != real.dtype:
                return False
            near = near.to(real.dtype)
            if not torch.allclose(near.double(), real.double(), 1e-5, 1e-6, equal_nan=True):
                if not torch.allclose(mine.double(), real.double(), 1e-5, 1e-6, equal_nan=True):
                    return True
    return False


def shrunk(model: Model, prove: bool = False, alone: bool = False) -> Model:
    """The same fault with as few lines, outputs and dynamic axes as it takes."""

    def look(other: Model) -> str:
        return (_alone(other) if alone else check(other, prove)).key

    found = look(model)

    def still(other: Model) -> bool:
        return look(other) == found

    def without(lines: list[str], i: int) -> list[str]:
        return lines[:i] + lines[i + 1 :]

    for output in model.outputs:
        one = dataclasses.replace(model, outputs=[output])
        if len(model.outputs) > 1 and still(one):
            model = one
            break
    smaller = True
    while smaller:
        smaller = False
        for i in reversed(range(len(model.lines))):
            other = dataclasses.replace(model, lines=without(model.lines, i))
            if still(other):
                model, smaller = other, True
        for name, axes in model.dynamic.items():
            for axis in axes:
                kept = {k: {a: w for a, w in v.items() if (k, a) != (name, axis)}
                        for k, v in model.dynamic.items()}  # fmt: skip
                other = dataclasses.replace(model, dynamic={k: v for k, v in kept.items() if v})
                if still(other):
                    model, smaller = other, True
                    break
            if smaller:
                break
    for opset in (20, 18):
        other = dataclasses.replace(model, opset=opset)
        if model.opset != opset and still(other):
            return other
    return model


def _alone(model: Model) -> Outcome:
    """What comes of it in a process of its own, which may end."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    worker = context.Process(target=lambda: theirs.send(check(model)))
    worker.start()
    theirs.close()
    try:
        found = ours.recv() if ours.poll(120) else Outcome("crashed", "it takes for ever")
    except EOFError:
        worker.join()
        found = Outcome("crashed", f"the process ended with signal {-(worker.exitcode or 0)}")
    worker.kill()
    worker.join()
    return found


def draw(seed: int, length: int = 0) -> Model:
    r = random.Random(seed)
    return Writer(seed, length or r.choice([2, 3, 5, 8, 12])).draw()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="random_models", description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--length", type=int, default=0, help="lines in a model; drawn if 0")
    parser.add_argument("--show", action="store_true", help="print each model")
    parser.add_argument("--prove", type=int, default=10, help="verify every so many exports")
    parser.add_argument("--refused", action="store_true", help="cut down what is refused, too")
    parser.add_argument("--told", action="store_true", help="and what is told")
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    counts: collections.Counter[str] = collections.Counter()
    seen: collections.Counter[str] = collections.Counter()
    for _, kind, key, text in _apart(options):
        counts[kind] += 1
        if key:
            seen[key] += 1
            if seen[key] == 1:
                print(text, flush=True)
    print(", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
    for key, n in seen.most_common():
        print(f"{n:5} {key}")
    return 1 if any(counts[kind] for kind in BAD) else 0


def _apart(options: argparse.Namespace):
    """The outcome of each seed, from a process of its own: a file may bring a runtime down."""
    context = multiprocessing.get_context("spawn")
    seed, last = options.seed, options.seed + options.count
    while seed < last:
        ours, theirs = context.Pipe(duplex=False)
        worker = context.Process(target=_work, args=(theirs, options, seed, last))
        worker.start()
        theirs.close()
        while seed < last:
            try:
                if not ours.poll(120):
                    raise EOFError
                yield ours.recv()
            except EOFError:
                worker.kill()
                worker.join()
                small = shrunk(draw(seed, options.length), alone=True)
                yield seed, "crashed", _alone(small).key, f"--- {_alone(small).detail}\n{small}"
                seed += 1
                break
            seed += 1
        worker.join()


def _work(pipe: Any, options: argparse.Namespace, first: int, last: int) -> None:
    torch.set_num_threads(1)
    seen: set[str] = set()
    wanted = BAD + ("refused",) * options.refused + ("told",) * options.told
    for seed in range(first, last):
        model = draw(seed, options.length)
        if options.show:
            print(model, flush=True)
        prove = bool(options.prove) and seed % options.prove == 0
        outcome = check(model, prove)
        key = text = ""
        if outcome.kind in wanted:
            key = outcome.key
            if key not in seen:
                seen.add(key)
                small = shrunk(model, prove)
                final = check(small, prove)
                text = f"--- {final.kind} at {final.at}: {final.detail}\n{small}"
        pipe.send((seed, outcome.kind, key, text))


if __name__ == "__main__":
    sys.exit(main())
