"""Tensors of one number where PyTorch takes a number, and numbers as tensors."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import hx

AMONG_CONSTANTS = {
    "leaky_relu": lambda x, c: F.leaky_relu(x, c),
    "elu": lambda x, c: F.elu(x, alpha=c),
    "celu": lambda x, c: F.celu(x, c),
    "hardtanh": lambda x, c: F.hardtanh(x, -c, c),
    "softplus": lambda x, c: F.softplus(x, c),
    "threshold": lambda x, c: F.threshold(x, c, c),
    "hardshrink": lambda x, c: F.hardshrink(x, c),
    "softshrink": lambda x, c: F.softshrink(x, c),
    "pad": lambda x, c: F.pad(x, (1, 2), value=c),
    "layer_norm": lambda x, c: F.layer_norm(x, (4,), eps=c),
    "group_norm": lambda x, c: F.group_norm(x, 2, eps=c),
    "rms_norm": lambda x, c: F.rms_norm(x, (4,), eps=c),
    "batch_norm": lambda x, c: F.batch_norm(x, torch.zeros(4), torch.ones(4), eps=c),
    "norm": lambda x, c: x.norm(c * 2, dim=1) + x.norm(p=c, dim=0).sum(),
    "vector_norm": lambda x, c: torch.linalg.vector_norm(x, c),
    "add": lambda x, c: torch.add(x, x, alpha=c),
    "full": lambda x, c: torch.full((2,), c) + x[:, :2],
    "lerp": lambda x, c: torch.lerp(x, x * 2, c),
    "smooth_l1": lambda x, c: F.smooth_l1_loss(x, x * 2, beta=c),
    "huber": lambda x, c: F.huber_loss(x, x * 2, delta=c),
    "cosine": lambda x, c: F.cosine_similarity(x, x.flip(0), eps=c),
    "logit": lambda x, c: torch.logit(x, c * 0.1),
    "nan_to_num": lambda x, c: torch.nan_to_num(x / x.relu(), c, c, c),
    "attention": lambda x, c: F.scaled_dot_product_attention(x, x, x, scale=c),
    "heaviside": lambda x, c: torch.heaviside(x, c),
}


@pytest.mark.parametrize("name", AMONG_CONSTANTS)
@pytest.mark.parametrize("is_buffer", [True, False])
def test_a_constant_is_its_number(name, is_buffer):
    function, x = AMONG_CONSTANTS[name], torch.randn(3, 4)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("c", torch.tensor(0.5))

        def forward(self, x):
            return function(x, self.c if is_buffer else torch.tensor(0.5))

    program = hx.export(Model(), (x,), strict=True)
    torch.testing.assert_close(program.run(x), function(x, torch.tensor(0.5)), equal_nan=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, c: F.leaky_relu(x, c),
        lambda x, c: F.elu(x, c),
        lambda x, c: F.pad(x, (1, 2), value=c),
        lambda x, c: F.hardtanh(x, -c, c),
        lambda x, c: F.threshold(x, c, c),
        lambda x, c: F.softplus(x, c),
        lambda x, c: torch.add(x, x, alpha=c),
    ],
)
def test_a_number_that_the_graph_computes(function):
    x = torch.randn(3, 4)
    program = hx.export(lambda x, v: function(x, v.abs().sum()), (x, torch.rand(2)))
    v = torch.rand(2) * 2
    torch.testing.assert_close(program.run(x, v), function(x, v.sum()))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, c: F.layer_norm(x, (4,), eps=c),
        lambda x, c: F.group_norm(x, 2, eps=c),
        lambda x, c: F.celu(x, c),
        lambda x, c: torch.linalg.vector_norm(x, c, 1),
        lambda x, c: x.norm(c, dim=1),
    ],
)
def test_what_onnx_cannot_compute_with_is_refused_at_the_users_line(function):
    with pytest.raises(hx.Unsupported, match="only known when the file runs") as problem:
        hx.export(lambda x, v: function(x, v.sum()), (torch.randn(3, 4), torch.rand(2)))
    assert problem.value.where.file == __file__


@pytest.mark.parametrize("dim", [0, 1])
def test_one_row_is_selected_by_a_number(dim):
    program = hx.export(
        lambda x, i: (
            x.index_select(dim, torch.tensor(1)), x.index_select(dim, i),
            torch.ops.aten.index_select(x, dim, i), x[0, 0].index_select(0, i * 0),
        ),
        (torch.randn(3, 4), torch.tensor(2)),
        dynamic={"x": {0: "n"}},
    )  # fmt: skip
    x = torch.randn(7, 4)
    found = program.run(x, torch.tensor(0))
    assert torch.equal(found[0], x.index_select(dim, torch.tensor(1)))
    assert torch.equal(found[1], x.index_select(dim, torch.tensor(0)))
    assert torch.equal(found[2], found[1]) and torch.equal(found[3], x[0, 0])


def test_new_tensors_follow_sizes():
    def model(x):
        n = x.shape[0]
        return (
            x * x.new_tensor(n), x * x.new_tensor([n]), x.new_tensor([[n, 1], [2, x.shape[1]]]),
            x.new_tensor(1) + x, x.new_tensor(x[0]), x.new_tensor([n], dtype=torch.int64),
            x.new_tensor([1, 2]), x.new_tensor(data=n),
        )  # fmt: skip

    program = hx.export(model, (torch.randn(3, 4),), dynamic={"x": {0: "n", 1: "m"}}, strict=True)
    assert not program.report.escapes
    x = torch.randn(5, 6)
    for got, wanted in zip(program.run(x), model(x)):
        assert torch.equal(got, wanted) and got.dtype == wanted.dtype


def test_what_keeps_a_logit_finite_may_be_known_at_run_time_only():
    x, eps = torch.rand(50), torch.tensor(0.1)
    program = hx.export(lambda x, eps: torch.logit(x, eps), (x, eps))
    for number in (0.1, 0.3, 0.7, 0.0, -1.0):
        eps = torch.tensor(number)
        torch.testing.assert_close(program.run(x, eps), torch.logit(x, eps))


@pytest.mark.parametrize("eps", [0.1, 0.5, 0.7, 0.0, -1.0])
def test_what_keeps_a_logit_finite_may_be_in_disorder(eps):
    x = torch.tensor([0.1, 0.5, 0.9, 0.0, 1.0, torch.nan])
    program = hx.export(lambda x: torch.logit(x, eps), x)
    torch.testing.assert_close(program.run(x), torch.logit(x, eps), equal_nan=True)


OF_ANOTHER_DTYPE = {
    "baddbmm": lambda x, a, b: torch.baddbmm(x[None], x[None], x[None], alpha=a, beta=b),
    "addmm": lambda x, a, b: torch.addmm(x, x, x, alpha=a, beta=b),
    "addcmul": lambda x, a, b: torch.addcmul(x, x, x, value=a) * b,
    "addcdiv": lambda x, a, b: torch.addcdiv(x, x, x.exp(), value=a) * b,
    "add": lambda x, a, b: torch.add(x, x, alpha=a) + torch.sub(x, x, alpha=b),
}


@pytest.mark.parametrize("name", OF_ANOTHER_DTYPE)
def test_a_number_in_a_tensor_may_be_of_any_dtype(name):
    function = OF_ANOTHER_DTYPE[name]
    program = hx.export(function, (torch.randn(3, 3), torch.tensor(5), torch.tensor(3.5)), None)
    given = torch.randn(3, 3), torch.tensor(2), torch.tensor(0.5)
    torch.testing.assert_close(program.run(*given), function(*given), rtol=1e-5, atol=1e-5)


def test_a_size_may_be_a_tensor_with_one_axis():
    def model(x, n):
        return torch.zeros(n, 2) + x, torch.ones(2, n), x.expand(n, 2)

    program = hx.export(model, (torch.randn(1, 2), torch.tensor([3])), None)
    for given in ((torch.randn(1, 2), torch.tensor([n])) for n in (1, 4)):
        for found, expected in zip(program.run(*given), model(*given)):
            torch.testing.assert_close(found, expected)
