"""What a mask picks may be nothing. onnxruntime then ends the process in some operators, or gives
what it finds in memory: the file says those otherwise.

The files run in a process of their own, and no proof is made in this one.
"""

import numpy as np
import pytest
import torch
import warm_python
from torch import nn
from torch._higher_order_ops.scan import scan
from torch.nn import functional as F

import hx

FOUND = torch.tensor([[1.0, 2, 3, 4], [2, 0, 1, 5], [-1, 1, 1, 1], [3, 1, 2, 0]])

RUN = """
import sys, numpy, onnxruntime
file, *given = sys.argv[1:]
session = onnxruntime.InferenceSession(file)
for x in given:
    found = session.run(None, {"x": numpy.load(x)})
    numpy.savez(x + ".npz", **{str(i): y for i, y in enumerate(found)})
"""


class Picked(nn.Module):
    """A function, or a module, of the rows that begin with a number above 0."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x[x[:, 0] > 0])


@pytest.fixture
def right(tmp_path):
    """right(function): the file agrees with the function where something is found, and nothing."""

    def check(function, opset=20):
        model = Picked(function).eval()
        file = tmp_path / "m.onnx"
        program = hx.export(
            model, (FOUND,), file, dynamic={"x": {0: "n"}}, opset=opset, verify=False
        )
        given = {tmp_path / "some.npy": FOUND, tmp_path / "none.npy": -FOUND.abs()}
        for name, x in given.items():
            np.save(name, x.numpy())
        done = warm_python.run_code(RUN, str(file), *map(str, given))
        assert done.returncode == 0, done.stderr[-500:]
        for name, x in given.items():
            with torch.no_grad():
                wanted = model(x)
            found = np.load(f"{name}.npz")
            for i, each in enumerate(wanted if isinstance(wanted, tuple) else (wanted,)):
                torch.testing.assert_close(torch.from_numpy(found[str(i)]), each, equal_nan=True)
        return program

    return check


def _attention(q):
    return F.multi_head_attention_forward(
        q, q, q, 4, 2, torch.full((12, 4), 0.1), None, None, None, False, 0.0, torch.eye(4), None
    )[0]


class Attention(nn.Module):
    def __init__(self, before, batch_first=False):
        super().__init__()
        self.before = before
        self.attention = nn.MultiheadAttention(4, 2, batch_first=batch_first)

    def forward(self, y):
        y = self.before(y)
        return self.attention(y, y, y)[0]


@pytest.mark.parametrize(
    "function",
    [
        lambda y: torch.bmm(y.view(-1, 2, 2).transpose(0, 1), torch.ones(2, 2, 3)),
        lambda y: y.view(-1, 2, 2).permute(1, 0, 2) * 0.5 @ torch.ones(2, 2, 3),
        lambda y: torch.ones(2, 3, 2) @ y.view(-1, 2, 2).permute(1, 2, 0),
        lambda y: y.view(-1, 2, 2).permute(1, 2, 0) @ y.view(-1, 2, 2).permute(1, 0, 2),
        lambda y: torch.einsum("bhid,bhjd->bhij", y.view(-1, 2, 1, 2), y.view(-1, 2, 1, 2)),
        lambda y: torch.einsum("mc,mrc->mr", y, y[:, None].expand(-1, 3, -1)),
        lambda y: torch.einsum("bnd,nde->bne", y.view(-1, 2, 2), torch.ones(2, 2, 3)),
        lambda y: F.scaled_dot_product_attention(y[None], y[None], y[None], y @ y.T > 0),
        lambda y: F.rms_norm(y, (4,)),
        _attention,
        lambda y: _attention(y[:, None]),
        lambda y: _attention(y[None]),
        Attention(lambda y: y),
        Attention(lambda y: y[:, None]),
        Attention(lambda y: y[None]),
        Attention(lambda y: y[:, None], True),
        Attention(lambda y: y[None], True),
    ],
)  # fmt: skip
def test_products(right, function):
    right(function)


@pytest.mark.parametrize(
    "function",
    [
        lambda y: torch.stack([y, y + 1]).mT @ torch.stack([y, y]),
        lambda y: torch.stack([y, y + 1]).mT @ y[:, 0],
        lambda y: y.T @ y[:, 0],
        lambda y: torch.einsum("bij,bik->bjk", torch.stack([y, y + 1]), torch.stack([y, y])),
        lambda y: torch.einsum("ij,i->j", y, y[:, 0]),
    ],
)
def test_the_sum_of_no_products_is_0(right, function):
    program = right(function)  # what lies in memory may be 0 by chance: see the form, too
    for node in program.model.graph:
        if node.op_type == "MatMul":
            left, right_ = node.inputs
            assert len(left.shape) == 1 or len(right_.shape) > 1
            made = [v.producer() for v in node.inputs if len(v.shape) > 2]
            assert all(m is None or m.op_type != "Transpose" for m in made)


@pytest.mark.parametrize(
    "function",
    [
        lambda y: y.cummax(1),
        lambda y: y.cummin(0),
        lambda y: y.cumprod(1),
        lambda y: y.cumprod(0),
        lambda y: y[None].logcumsumexp(2),
        lambda y: y[:, None].cummax(1)[1],
        lambda y: (y + 1j).cumprod(1).abs(),
        lambda y: scan(lambda c, v: (c + v, c * v), y.sum(1), y, dim=1),
        lambda y: scan(lambda c, v: (c + v.sum(), v * 2), y.sum(), y, dim=1)[1],
    ],
)
def test_loops(right, function):
    right(function)


class Recurrent(nn.Module):
    def __init__(self, kind, batch_first, **options):
        super().__init__()
        self.layer = kind(2, 3, batch_first=batch_first, **options)

    def forward(self, y):
        y = y.view(-1, 2, 2)
        y, state = self.layer(y if self.layer.batch_first else y.transpose(0, 1))
        return y, *(state if isinstance(state, tuple) else [state])


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}])
def test_recurrent_layers(right, kind, batch_first, options):
    right(Recurrent(kind, batch_first, **options))


@pytest.mark.parametrize("kind, gates", [(nn.LSTM, 4), (nn.GRU, 3), (nn.RNN, 1)])
def test_recurrent_layers_with_a_projection_or_a_state(right, kind, gates):
    if kind is nn.LSTM:
        right(Recurrent(kind, True, proj_size=2))

    class WithState(Recurrent):
        def forward(self, y):
            state = y[None, :, :3].contiguous()
            state = (state, state * 2) if kind is nn.LSTM else state
            return self.layer(y.view(-1, 2, 2), state)[0]

    right(WithState(kind, True))


def test_a_batch_that_is_an_input_is_not_asked():
    model = nn.LSTM(3, 4, batch_first=True)
    program = hx.export(model, (torch.randn(2, 5, 3),), dynamic={"input": {0: "n"}})
    assert "If" not in [node.op_type for node in program.model.graph]


OF_NONE = {
    "any": lambda x: x.any(0),
    "any of all": lambda x: (x > 0).any(),
    "all": lambda x: x.all(0, keepdim=True),
    "uint8": lambda x: x.to(torch.uint8).all(0),
    "roll": lambda x: x.roll(1, 0),
    "roll back": lambda x: x.roll((-5, 1), (0, 1)),
    "roll flat": lambda x: x.roll(2),
    "cummax": lambda x: x.cummax(0),
    "cummin": lambda x: x.cummin(0)[1],
    "cumprod": lambda x: x.cumprod(0),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "cummax across": lambda x: x.cummax(1)[0],
}


@pytest.mark.parametrize("opset", [13, 18, 20])
@pytest.mark.parametrize("name", OF_NONE)
def test_a_size_may_be_0(name, opset):
    function = OF_NONE[name]
    program = hx.export(function, torch.randn(3, 4), dynamic={"x": {0: "n"}}, opset=opset)
    assert all(
        n.op_type != "Scan" or not n.attributes.get("scan_output_axes") for n in _all(program)
    )
    for n in (0, 1, 5):
        x = torch.randn(n, 4)
        torch.testing.assert_close(program.run(x), function(x))


def _all(program):
    return list(program.model.graph.all_nodes())
