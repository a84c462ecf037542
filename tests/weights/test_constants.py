"""What a model holds, weights and constants: stored once each, as they are."""

from __future__ import annotations

import pytest
import torch
from called import Whole
from torch import nn
from torch.nn import functional as F
from written import initializers, ops

import hx

BATCH = {"x": {0: "b"}}
FIVE = [{"b": 5}]


# Weights.


def test_shared_weights_are_stored_once_under_their_first_name(proved):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 6)
            self.block = nn.Linear(6, 6)
            self.again = self.block
            self.head = nn.Linear(6, 10, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            x = self.again(self.block(self.embed(ids)))
            return self.head(x) + F.linear(x, self.embed.weight)

    model = Tied()
    program = proved(model, torch.randint(0, 10, (2, 5)), dynamic={"ids": [0, 1]})
    stored = initializers(program)
    assert set(stored) == {"embed.weight", "block.weight.transposed", "block.bias"}
    assert sum(v.size for v in stored.values()) == 10 * 6 + 6 * 6 + 6


def test_a_weight_in_several_forms_is_stored_once(proved):
    class Forms(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(torch.randn(20, 20))

        def forward(self, x):
            return (
                x @ self.w + x @ self.w.t() + F.linear(x, self.w) + self.w[3] + self.w.view(-1)[:20]
            )

    program = proved(Forms(), torch.randn(2, 20), dynamic=BATCH, sizes=FIVE)
    big = [k for k, v in initializers(program).items() if v.size > 100]
    assert big == ["w"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_float_weights_keep_their_dtype(proved, dtype):
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).to(dtype)
    program = proved(model, torch.randn(2, 4, dtype=dtype), dynamic={"input": {0: "b"}}, sizes=FIVE)
    kinds = {str(v.dtype) for v in initializers(program).values()}
    assert kinds == {{"float64": "DOUBLE"}.get(str(dtype)[6:], str(dtype)[6:].upper())}


def test_integer_and_boolean_buffers_keep_their_dtype(proved):
    class Buffers(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("long", torch.arange(300))
            self.register_buffer("int8", torch.arange(-100, 100, dtype=torch.int8))
            self.register_buffer("mask", torch.rand(300) > 0.5)
            self.register_buffer("byte", torch.arange(200, dtype=torch.uint8), persistent=False)
            self.table = torch.randn(300)

        def forward(self, x):
            y = torch.where(self.mask, x + self.long, self.table)
            return y, x[:, :200].to(torch.int8) + self.int8, self.byte + x[:, :200].to(torch.uint8)

    program = proved(Buffers(), torch.rand(2, 300), dynamic=BATCH, sizes=FIVE)
    kinds = {k: str(v.dtype) for k, v in initializers(program).items() if v.size > 10}
    assert kinds == {"long": "INT64", "int8": "INT8", "mask": "BOOL", "byte": "UINT8",
                     "table": "FLOAT"}  # fmt: skip


def test_weights_that_no_module_registers_are_named_by_path(proved):
    class Loose(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = [torch.randn(300), torch.randn(300)]
            self.by_name = {"k": torch.randn(300)}

        def forward(self, x):
            return x * self.parts[0] + self.parts[1] - self.by_name["k"]

    program = proved(Whole(Loose().forward), torch.randn(2, 300))
    assert len([v for v in initializers(program).values() if v.size == 300]) == 3
    program = proved(Loose(), torch.randn(2, 300))
    assert set(initializers(program)) == {"parts_0", "parts_1", "by_name_k"}


def test_an_unused_weight_is_not_stored(proved):
    model = Whole(lambda x: x * 2, spare=nn.Linear(50, 50))
    assert initializers(proved(model, torch.randn(3))).keys() <= {"const"}


# Constants.


def test_constants_made_in_forward_are_folded(proved):
    def f(x):
        grid = torch.arange(4.0).view(2, 2) ** 2
        mask = torch.tril(torch.ones(4, 4)).bool() & torch.eye(4).logical_not()
        scale = torch.tensor([1.0, 2.0, 3.0, 4.0]).softmax(0) + torch.linspace(0, 1, 4)
        angles = torch.einsum("i,j->ij", torch.arange(4.0), torch.arange(4.0)).cos()
        return x.masked_fill(mask, 0.0) * scale @ angles + grid.sum()

    program = proved(f, torch.randn(4, 4))
    assert sorted(ops(program)) == sorted(["Where", "Mul", "MatMul", "Add"])


def test_equal_constants_are_stored_once(proved):
    def f(x):
        total = x
        for _ in range(6):
            total = total + torch.arange(1000.0).cos()
        return total

    program = proved(f, torch.randn(1000))
    assert len(initializers(program)) == 1
    assert program.report.size < 9000


def test_a_constant_that_is_one_element_of_a_column(proved):
    def f(x):
        column = torch.arange(12.0).view(3, 4)[:, 1]
        return x + column[1:2], x * column[::3], x - column

    proved(f, torch.randn(2, 3), dynamic=BATCH, sizes=FIVE)


def test_zeros_of_either_sign_and_dtypes_are_no_duplicates(proved):
    def f(x):
        return 1 / (x * torch.tensor([0.0])), 1 / (x * torch.tensor([-0.0])), (
            x.long() + torch.tensor([0])), x * torch.tensor([float("nan")])  # fmt: skip

    proved(f, torch.rand(3) + 1)


def test_constants_from_lists_numpy_and_scalars(proved):
    import numpy as np

    def f(x):
        a = torch.tensor([[1.5, 2.5]])
        b = torch.as_tensor(np.arange(2.0, dtype=np.float32))
        c = torch.from_numpy(np.ones(2, np.float32))
        d = x.new_tensor([1.0, 2.0])
        e = torch.full_like(d, 3)
        return x * a + b - c * d + e + np.float32(2) + np.pi

    proved(f, torch.randn(3, 2), dynamic=BATCH, sizes=FIVE)


def test_a_tensor_of_traced_numbers(proved):
    def f(x):
        return torch.tensor([x.shape[0], 2, x.shape[0] * 3]) + 1, torch.tensor(float(3))

    proved(f, torch.randn(2, 3), dynamic=BATCH, sizes=FIVE)


def test_tensors_of_the_outside_world_are_constants(proved):
    table = torch.randn(3)

    class Config:
        shift = torch.randn(3)

    proved(lambda x: x * table + Config.shift, torch.randn(2, 3), dynamic=BATCH, sizes=FIVE)


def test_the_same_model_twice_gives_the_same_bytes(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    for name in ("a.onnx", "b.onnx"):
        hx.export(model, torch.ones(2, 4), tmp_path / name, dynamic={"input": [0]}, verify=False)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


class AllRows(nn.Module):
    """Looks up every row of its table, as position embeddings do."""

    def __init__(self, then):
        super().__init__()
        self.table = nn.Embedding(300, 64)
        self.then = then

    def forward(self, x):
        rows = self.table(torch.arange(300))
        return self.then(x, rows, self.table.weight)


def _writes_to_the_rows(x, rows, weight):
    rows = rows.detach()
    rows[1:] += 1
    return x + rows, x - weight


def _writes_to_the_weight(x, rows, weight):
    with torch.no_grad():
        weight.mul_(2)
    return x + rows, x - weight


@pytest.mark.parametrize(
    ("then", "large"),
    [
        (lambda x, rows, weight: x + rows, {"table.weight"}),
        (lambda x, rows, weight: (x + rows.T.reshape(300, 64)).sum(1), {"table.weight.transposed"}),
        (lambda x, rows, weight: (x + rows, x * weight), {"table.weight"}),
        (lambda x, rows, weight: x + rows.flip(0), None),
        (_writes_to_the_rows, None),
        (_writes_to_the_weight, None),
    ],
    ids=["read", "turned", "both", "another", "rows written", "weight written"],
)
def test_a_weight_that_comes_back_as_it_is_is_stored_once(then, large):
    model, x = AllRows(then).eval(), torch.randn(1, 300, 64)
    before = model.table.weight.detach().clone()
    program = hx.export(model, x, dynamic={"x": {0: "b"}})
    assert program.proof.ok
    assert torch.equal(model.table.weight, before)
    if large is not None:
        assert {name for name, held in initializers(program).items() if held.size > 1000} == large
    x = torch.randn(3, 300, 64)
    got, want = program.run(x), model(x)
    torch.testing.assert_close(got, want)


@pytest.mark.parametrize(
    "of",
    [
        lambda real, imaginary: (imaginary.conj() + 1j).abs(),
        lambda real, imaginary: imaginary.conj().imag,
        lambda real, imaginary: imaginary.conj().resolve_conj().abs(),
        lambda real, imaginary: imaginary.clone().abs(),
        lambda real, imaginary: torch._neg_view(real),
        lambda real, imaginary: real.clone(),
    ],
    ids=["conjugate", "its part", "resolved", "complex", "negative", "copy"],
)
def test_weights_that_are_seen_otherwise_are_no_copies(of):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.real = nn.Parameter(torch.randn(200, 200))
            self.imaginary = nn.Parameter(torch.randn(200, 200, dtype=torch.complex64))

        def forward(self, x):
            return x * of(self.real, self.imaginary)

    model, x = Model().eval(), torch.randn(2, 1, 1)
    program = hx.export(model, torch.randn(1, 1, 1), dynamic={"x": {0: "b"}})
    torch.testing.assert_close(program.run(x), model(x))
