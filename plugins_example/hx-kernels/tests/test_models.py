"""Layers as models write them, exported once and run at sizes that were not recorded."""

import flash_attn
import onnx_ir
import torch
from causal_conv1d import causal_conv1d_fn, causal_conv1d_update
from hx_kernels import causal_conv1d, mamba
from hx_kernels import flash_attn as attention
from mamba_ssm.ops.selective_scan_interface import selective_scan_fn
from torch import nn
from torch.nn import functional as F

from hx.testing import Session


def outputs(program, *tensors):
    names = [value.name for value in program.model.graph.inputs]
    session = Session(onnx_ir.to_proto(program.model).SerializeToString())
    return session.run(dict(zip(names, tensors)))


class Unpadded(nn.Module):
    """Attention over the tokens of a batch that are no padding, as transformers calls it."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x, mask):
        lengths = mask.sum(1)
        starts = F.pad(lengths.cumsum(0), (1, 0)).int()
        tokens = torch.nonzero(mask.flatten()).flatten()
        q, k, v = self.qkv(x.flatten(0, 1)[tokens]).view(-1, 3, 2, 8).unbind(1)
        longest = x.shape[1]  # of which only the kernel's speed depends
        y = flash_attn.flash_attn_varlen_func(
            q, k, v, starts, starts, longest, longest, causal=True, window_size=(3, 0)
        )
        padded = torch.zeros(x.shape[0] * x.shape[1], 16)
        return padded.index_put((tokens,), y.flatten(1)).view(x.shape)


def test_other_numbers_of_sequences_and_other_lengths(hx_check):
    model = Unpadded().eval()
    mask = torch.arange(5) < torch.tensor([[5], [2], [4]])
    program = hx_check(
        model, (torch.randn(3, 5, 16), mask),
        converters=[attention.flash_attn_varlen_func, *standard()],
        dynamic={name: {0: "batch", 1: "length"} for name in ("x", "mask")},
    )  # fmt: skip
    assert not program.report.escapes
    for lengths in ([7], [1, 9, 4, 2], [3, 0, 5]):
        mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
        x = torch.randn(*mask.shape, 16)
        [found] = outputs(program, x, mask)
        with torch.no_grad():
            torch.testing.assert_close(found, model(x, mask), atol=1e-5, rtol=1e-5)


class Mamba(nn.Module):
    """The mixer of a Mamba block, as mamba-ssm writes it without its fused path."""

    def __init__(self, width=8, states=4, kernel=4):
        super().__init__()
        self.wide, self.states = 2 * width, states
        self.in_proj = nn.Linear(width, 4 * width, bias=False)
        self.conv1d = nn.Conv1d(self.wide, self.wide, kernel, groups=self.wide)
        self.x_proj = nn.Linear(self.wide, 1 + 2 * states, bias=False)
        self.dt_proj = nn.Linear(1, self.wide)
        self.A_log = nn.Parameter(torch.rand(self.wide, states))
        self.D = nn.Parameter(torch.rand(self.wide))
        self.out_proj = nn.Linear(self.wide, width, bias=False)

    def forward(self, hidden):
        x, z = self.in_proj(hidden).transpose(1, 2).chunk(2, 1)
        x = causal_conv1d_fn(x, self.conv1d.weight.squeeze(1), self.conv1d.bias, activation="silu")
        dt, B, C = self.x_proj(x.transpose(1, 2)).split([1, self.states, self.states], -1)
        dt = F.linear(dt, self.dt_proj.weight).transpose(1, 2)
        y = selective_scan_fn(
            x, dt, -torch.exp(self.A_log), B.transpose(1, 2), C.transpose(1, 2), self.D, z=z,
            delta_bias=self.dt_proj.bias, delta_softplus=True,
        )  # fmt: skip
        return self.out_proj(y.transpose(1, 2))


def test_a_mamba_block_is_one_scan_at_any_length(hx_check):
    model = nn.Sequential(Mamba(), Mamba()).eval()
    program = hx_check(
        model, torch.randn(2, 5, 8), dynamic={"input": {0: "batch", 1: "length"}},
        converters=[mamba.selective_scan_fn, causal_conv1d.causal_conv1d_fn, *standard()],
    )  # fmt: skip
    assert [node.op_type for node in program.model.graph].count("Scan") == 2
    assert not program.report.escapes
    for shape in ((1, 1, 8), (3, 40, 8)):
        x = torch.randn(shape)
        [found] = outputs(program, x)
        with torch.no_grad():
            torch.testing.assert_close(found, model(x), atol=1e-5, rtol=1e-5)


class Remembers(nn.Module):
    """One more step of generation: what is kept is written to in place."""

    def forward(self, q, k, v, keys, values, lengths, x, state, weight):
        keys, values, state = keys.clone(), values.clone(), state.clone()
        lengths = lengths.clamp(0, keys.shape[1] - 1)
        y = flash_attn.flash_attn_with_kvcache(
            q, keys, values, k, v, cache_seqlens=lengths, causal=True
        )
        z = causal_conv1d_update(x, state, weight, activation="silu")
        return y, keys, values, z, state


def test_what_is_kept_is_written_to_and_read(hx_check):
    def step(batch, kept, lengths):
        new = [torch.randn(batch, 1, heads, 8) for heads in (4, 2, 2)]
        caches = [torch.randn(batch, kept, 2, 8) for _ in "kv"]
        conv = torch.randn(batch, 6), torch.randn(batch, 6, 3), torch.randn(6, 4)
        return *new, *caches, torch.tensor(lengths).int(), *conv

    batch = {name: {0: "b"} for name in ("q", "k", "v", "lengths", "x", "state")}
    program = hx_check(
        Remembers(), step(2, 9, [3, 0]),
        converters=[attention.flash_attn_with_kvcache, causal_conv1d.causal_conv1d_update,
                    *standard()],
        dynamic={**batch, **{name: {0: "b", 1: "kept"} for name in ("keys", "values")}},
    )  # fmt: skip
    assert not program.report.escapes
    for given in (step(1, 5, [4]), step(3, 20, [19, 7, 0])):
        for found, real in zip(outputs(program, *given), Remembers()(*given)):
            torch.testing.assert_close(found, real, atol=1e-5, rtol=1e-5)


class Attends(nn.Module):
    def forward(self, q, k, v):
        return flash_attn.flash_attn_func(q, k, v, causal=True)


def test_where_onnx_has_attention_it_is_one_node(hx_check):
    q, k, v = (torch.randn(2, 5, 4, 8) for _ in range(3))
    names = {n: {0: "batch", 1: "length"} for n in "qkv"}
    program = hx_check(
        Attends(), (q, k, v), converters=[attention.flash_attn_func], dynamic=names, opset=23
    )
    ops = [node.op_type for node in program.model.graph]
    assert ops.count("Attention") == 1 and set(ops) == {"Attention", "Transpose"}


def test_in_half_floats_as_the_real_kernels_take_them(hx_check):
    q, k, v = (torch.randn(2, 5, 4, 8).half() for _ in range(3))
    program = hx_check(Attends(), (q, k, v), converters=[attention.flash_attn_func])
    assert program.report.proof.ok


def standard():
    """hx's own converters."""
    import importlib

    from hx_converters.standard_pack import hx_converters

    return map(importlib.import_module, hx_converters())
