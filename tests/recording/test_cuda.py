"""Models whose weights lie on a GPU: what is recorded there is the same graph.

They run where there is a GPU; CI has none.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hx
from hx.runtime import Session

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
CUDA = torch.device("cuda")
BATCH = {"x": {0: "n"}}


def exported(model, args, path=None, **options):
    program = hx.export(model, args, path, **options)
    assert program.proof.ok
    names = {case.name for case in program.proof.cases}
    assert len(names) > 1
    if options.get("dynamic"):  # other sizes as well
        assert any("=" in name for name in names)
    return program


class Net(nn.Module):
    """Convolutions, which TF32 makes coarse on a GPU unless told otherwise."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 64, 3, stride=2)
        self.norm, self.out = nn.BatchNorm2d(32), nn.Linear(64, 10)
        nn.init.uniform_(self.norm.running_mean, -0.5, 0.5)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)

    def forward(self, x):
        y = self.b(F.relu(self.norm(self.a(x))))
        return self.out(F.adaptive_avg_pool2d(y, 1).flatten(1))


def test_the_file_is_that_of_the_cpu(tmp_path):
    model, x = Net().eval(), torch.randn(2, 3, 16, 16)
    here, there = tmp_path / "cpu.onnx", tmp_path / "gpu.onnx"
    exported(model, x, here, dynamic=BATCH)
    exported(model.cuda(), x.cuda(), there, dynamic=BATCH)
    assert here.read_bytes() == there.read_bytes()


@pytest.mark.parametrize("matmul", [False, True])
def test_coarse_products_are_no_wrong_graph(matmul):
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = matmul, True
    try:
        net = nn.Sequential(*(nn.Sequential(nn.Linear(256, 256), nn.GELU()) for _ in range(8)))
        exported(net.cuda().eval(), torch.randn(4, 256, device=CUDA), dynamic={"input": {0: "n"}})
        exported(Net().cuda().eval(), torch.randn(2, 3, 33, 33, device=CUDA), dynamic=BATCH)
        now = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
        assert now == (matmul, True)
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def test_equal_to_the_model_on_other_inputs(tmp_path):
    model, path = Net().cuda().eval(), tmp_path / "m.onnx"
    exported(model, torch.randn(2, 3, 16, 16, device=CUDA), path, dynamic=BATCH)
    x = torch.randn(5, 3, 16, 16)
    with torch.no_grad(), torch.backends.cudnn.flags(allow_tf32=False):
        (found,) = Session(path).run({"x": x})
        torch.testing.assert_close(found, model(x.cuda()).cpu(), rtol=1e-4, atol=1e-5)


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.rnn = kind(8, 16, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x):
        return self.rnn(x)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent(kind):
    x = torch.randn(2, 5, 8, device=CUDA)
    exported(Recurrent(kind).cuda().eval(), x, dynamic={"x": {0: "n", 1: "t"}})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_attention(dtype):
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).cuda().to(dtype).eval()
    x = torch.randn(2, 6, 32, device=CUDA, dtype=dtype)
    exported(model, x, dynamic={"src": {0: "n", 1: "t"}})


def heads(q, k, v):
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device).tril()
    return F.scaled_dot_product_attention(q, k, v, mask) + F.scaled_dot_product_attention(
        q, k, v, is_causal=True
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_scaled_dot_product(dtype):
    q, k, v = (torch.randn(2, 4, 8, 16, device=CUDA, dtype=dtype) for _ in range(3))
    dynamic = {name: {0: "n", 2: "t"} for name in "qkv"}
    exported(heads, (q, k, v), dynamic=dynamic)


class Mixed(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.conv, self.norm, self.linear = nn.Conv2d(3, 4, 3), nn.LayerNorm(4), nn.Linear(4, 6)
        self.dtype = dtype

    def forward(self, x):
        with torch.autocast("cuda", dtype=self.dtype):
            y = self.conv(x).relu().flatten(2).transpose(1, 2)
            y = self.linear(self.norm(y))
            return y.softmax(-1).sum(1), F.scaled_dot_product_attention(y, y, y)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast(dtype):
    exported(Mixed(dtype).cuda().eval(), torch.randn(2, 3, 6, 6, device=CUDA), dynamic=BATCH)


# What autocast runs in float32 on a GPU, and in the shorter dtype on a CPU.
FULL = {
    "exp": lambda y: y.exp(), "log": lambda y: (y.abs() + 1).log(), "pow": lambda y: y.abs() ** 1.5,
    "rsqrt": lambda y: (y.abs() + 1).rsqrt(), "softmax": lambda y: F.softmax(y, -1),
    "log_softmax": lambda y: y.log_softmax(-1), "sum": lambda y: y.sum(-1),
    "cumsum": lambda y: y.cumsum(-1), "norm": lambda y: y.norm(dim=-1),
    "layer_norm": lambda y: F.layer_norm(y, (8,)), "softplus": lambda y: F.softplus(y),
    "resized": lambda y: F.interpolate(y[:, None], scale_factor=2.0, mode="bilinear"),
    "group_norm": lambda y: F.group_norm(y[..., None].mT, 2), "mse": lambda y: F.mse_loss(y, y * 2),
    "logsumexp": lambda y: y.logsumexp(-1), "prelu": lambda y: F.prelu(y, y.new_full((1,), 0.3)),
    "einsum": lambda y: torch.einsum("nij,nkj->nik", y, y), "cat": lambda y: torch.cat([y, y * 2.0]),
    "in place": lambda y: y.clone().exp_(),
}  # fmt: skip


@pytest.mark.parametrize("name", FULL)
def test_autocast_of_one_operator(name):
    def model(x, w):
        with torch.autocast("cuda", dtype=torch.float16):
            half = x @ w
            return half.dtype == torch.float16, FULL[name](half), FULL[name](x)

    x, w = torch.randn(3, 8, 8, device=CUDA), torch.randn(8, 8, device=CUDA)
    program = exported(model, (x, w), dynamic=BATCH)
    real = model(x, w)
    dtypes = [str(output.dtype) for output in program.model.graph.outputs]
    wanted = {torch.float16: "FLOAT16", torch.float32: "FLOAT", torch.bool: "BOOL"}
    assert dtypes[-2:] == [wanted[each.dtype] for each in real[1:]]


class Places(nn.Module):
    """Says where tensors go in every way there is."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("scale", torch.rand(8) + 0.5)

    def forward(self, x):
        x = x.to(self.scale.device)
        at = torch.arange(x.shape[1], device=x.device)
        y = self.linear(x) * self.scale + at.cuda()
        y = y + torch.zeros(x.shape[0], 1, device="cuda") + x.new_ones(8) + torch.tensor(2.0)
        y = y.cpu().relu().to("cuda", non_blocking=True).to(x)
        y = y[:, torch.tensor([3, 1, 2])] + torch.full((3,), 0.5, device=f"cuda:{y.get_device()}")
        if y.is_cuda and y.device.type == "cuda":
            y = y * 2
        return torch.where(y > 0, y, torch.tensor(0.25)), torch.linspace(0, 1, 4, device=y.device)


def test_places():
    program = exported(Places().cuda().eval(), torch.randn(2, 8, device=CUDA), dynamic=BATCH)
    assert not program.report.escapes


def test_inputs_that_the_model_moves():
    exported(Places().cuda().eval(), torch.randn(2, 8), dynamic=BATCH)


class Split(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 4).cuda()

    def forward(self, x):
        return self.b(self.a(x).cuda()).cpu()


def test_one_half_on_each():
    exported(Split().eval(), torch.randn(2, 8), dynamic=BATCH)


class Positions(nn.Module):
    """As many as were recorded: on a GPU an index beyond them would end its use for good."""

    def __init__(self):
        super().__init__()
        self.table, self.words = nn.Embedding(5, 8), nn.Embedding(9, 8)

    def forward(self, ids):
        at = torch.arange(ids.shape[1], device=ids.device)
        return self.words(ids) + self.table(at)


def test_an_index_out_of_range_is_not_tried_on_the_gpu():
    ids = torch.randint(0, 9, (2, 5), device=CUDA)
    model = Positions().cuda().eval()
    program = hx.export(model, ids, dynamic={"ids": {0: "n", 1: "t"}})
    assert program.proof.ok
    torch.cuda.synchronize()  # it would say so here
    assert model(ids).isfinite().all()


def picked(table, at):
    return table[at]


def test_nor_where_an_axis_gets_shorter():
    table, at = torch.randn(4, 3, device=CUDA), torch.tensor([3, 1, 2], device=CUDA)
    program = hx.export(picked, (table, at), dynamic={"table": {0: "n"}})
    assert program.proof.ok
    torch.cuda.synchronize()


class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 6, 4))

    def forward(self, x, at):
        self.keys[:, at] = x
        self.keys.index_add_(1, at, x)
        return self.keys.sum(1)


def test_what_is_written_in_place_is_put_back():
    model = Cache().cuda()
    x, at = torch.randn(2, 3, 4, device=CUDA), torch.tensor([0, 2, 5], device=CUDA)
    exported(model, (x, at))
    assert not model.keys.any()


def test_nothing_is_left_on_the_gpu():
    model, x = Net().cuda().eval(), torch.randn(2, 3, 16, 16, device=CUDA)
    drawn = torch.cuda.get_rng_state()
    exported(model, x, dynamic=BATCH)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    exported(model, x, dynamic=BATCH)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() == before
    assert torch.equal(torch.cuda.get_rng_state(), drawn)


def test_no_second_copy_of_the_weights():
    model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(16))).cuda().eval()
    x = torch.randn(1, 1024, device=CUDA)
    exported(model, x)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    hx.export(model, x, verify=False)
    assert torch.cuda.max_memory_allocated() - before < 4 * 1024 * 1024 * 2


class Noise(nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x) * 0 + F.dropout(x, 0.5, training=False)


def test_random_numbers():
    exported(Noise(), torch.randn(2, 8, device=CUDA), dynamic=BATCH)


class Branch(nn.Module):
    def forward(self, x):
        return x + 1 if x.sum() > 0 else x - 1


def test_a_branch():
    program = exported(Branch(), torch.randn(4, 8, device=CUDA), dynamic=BATCH)
    (escape,) = program.report.escapes
    assert escape.carried


def test_a_default_device():
    torch.set_default_device("cuda")
    try:
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        exported(model, torch.randn(2, 8), dynamic={"input": {0: "n"}})
        assert str(torch.get_default_device()).startswith("cuda")
    finally:
        torch.set_default_device(None)


def test_data_parallel():
    exported(nn.DataParallel(nn.Linear(8, 4)).cuda().eval(), torch.randn(2, 8, device=CUDA))


def test_half_of_a_library():
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=99, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, intermediate_size=64, max_position_embeddings=64, use_cache=False,
    )  # fmt: skip
    model = transformers.LlamaForCausalLM(config).cuda().half().eval()
    ids = torch.randint(0, 99, (2, 7), device=CUDA)
    exported(model, (ids,), dynamic={"input_ids": {0: "n", 1: "t"}})


def test_compiled():
    model = torch.compile(nn.Sequential(nn.Linear(8, 8), nn.GELU()).cuda().eval())
    exported(model, torch.randn(2, 8, device=CUDA))


KERNEL = """
import torch, triton
import triton.language as tl

@triton.jit
def _swish(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    given = tl.load(x + at, mask=at < n)
    tl.store(y + at, given * tl.sigmoid(given), mask=at < n)

def swish(x):
    y = torch.empty_like(x)
    _swish[(triton.cdiv(x.numel(), 256),)](x, y, x.numel(), BLOCK=256)
    return y
"""


@pytest.fixture
def acme_triton(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    (tmp_path / "acme_triton.py").write_text(KERNEL)
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("acme_triton")
    del sys.modules["acme_triton"]


class Swish(nn.Module):
    def __init__(self, swish):
        super().__init__()
        self.linear, self.swish = nn.Linear(8, 8), swish

    def forward(self, x):
        return self.linear(self.swish(self.linear(x)))


def test_a_kernel_of_triton_is_not_passed_by(acme_triton):
    model = Swish(acme_triton.swish).cuda().eval()
    with pytest.raises(hx.HxError) as caught:
        hx.export(model, torch.randn(3, 8, device=CUDA), dynamic=BATCH)
    print(caught.value)
    assert "acme_triton.py" in str(caught.value)


def test_a_kernel_of_triton_with_a_converter(acme_triton):
    @hx.converter("acme_triton.swish")
    def swish(op, x):
        return op.Mul(x, op.Sigmoid(x))

    registry = hx.Registry.installed()
    registry.add(swish)
    exported(
        Swish(acme_triton.swish).cuda().eval(), torch.randn(3, 8, device=CUDA),
        dynamic=BATCH, packs=registry,
    )  # fmt: skip


FILE = """
import torch
def build():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU()).cuda().eval()
"""


def hx_runs(*words, where):
    return subprocess.run(
        [sys.executable, "-m", "hx", *words], cwd=where, capture_output=True, text=True
    )


def test_the_command_line_puts_inputs_where_the_model_is(tmp_path):
    (tmp_path / "m.py").write_text(FILE)
    done = hx_runs(
        "export", "m.py:build", "-i", "input=float32[n,8]", "-o", "m.onnx", where=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    done = hx_runs("verify", "m.onnx", "m.py:build", "-i", "input=float32[n,8]", where=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    done = hx_runs("inspect", "m.py:build", "-i", "input=float32[n,8]", where=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_numbers_of_a_gpu_in_numpy():
    class Numpy(nn.Module):
        def forward(self, x):
            rows = torch.from_numpy(np.arange(4)[::-1].copy()).cuda()
            return x[:, rows] + float(x.shape[0])

    exported(Numpy(), torch.randn(2, 4, device=CUDA), dynamic=BATCH)


def test_a_stream_of_its_own():
    class Streams(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                a = self.a(x)
            b = self.b(x)
            torch.cuda.current_stream().wait_stream(stream)
            return a + b

    exported(Streams().cuda().eval(), torch.randn(2, 8, device=CUDA), dynamic=BATCH)
