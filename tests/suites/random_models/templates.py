"""What a line of a drawn model may be."""

from __future__ import annotations

import re

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
