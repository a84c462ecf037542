from collections import deque

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx import numpy_helper

import hx
from hx import dtypes
from hx.budget import BUDGET
from hx.errors import Unsupported
from hx.saving.weights import TorchTensor, onnx_dtype
from hx.weights import contents

DTYPES = list(dtypes.NUMBER)


def some(dtype, *shape):
    n = int(np.prod(shape, dtype=int))
    width = torch.empty(0, dtype=dtype).element_size()
    raw = torch.arange(n * width, dtype=torch.int64).remainder(59).to(torch.uint8)
    if dtype is torch.bool:
        raw = raw % 2
    return raw.view(dtype).reshape(shape)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_goes_there_and_back(dtype):
    assert dtypes.of_number(dtypes.number(dtype)) is dtype
    tensor = some(dtype, 3, 5)
    wrapped = TorchTensor(tensor, "w")
    assert isinstance(wrapped, ir.TensorProtocol)
    assert wrapped.shape == (3, 5) and wrapped.nbytes == 15 * tensor.element_size()
    assert wrapped.tobytes() == tensor.view(torch.uint8).numpy().tobytes()
    assert wrapped.numpy().dtype == onnx_dtype(dtype).numpy()
    assert wrapped.numpy().tobytes() == wrapped.tobytes()
    proto = onnx.TensorProto.FromString(ir.serde.serialize_tensor(wrapped).SerializeToString())
    assert numpy_helper.to_array(proto).tobytes() == wrapped.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_scalars_and_empty_tensors(dtype):
    assert (
        TorchTensor(some(dtype, 1).reshape(())).tobytes()
        == some(dtype, 1).view(torch.uint8).numpy().tobytes()
    )
    assert TorchTensor(some(dtype, 1).reshape(())).numpy().shape == ()
    empty = TorchTensor(torch.empty(0, 4, dtype=dtype))
    assert empty.tobytes() == b"" and list(empty.chunks()) == [] and empty.numpy().shape == (0, 4)


def test_contiguous_memory_is_not_copied():
    tensor = torch.arange(6.0).reshape(2, 3).requires_grad_()
    (chunk,) = TorchTensor(tensor).chunks()
    with torch.no_grad():
        tensor[0, 0] = 42.0
    assert np.frombuffer(chunk, np.float32)[0] == 42.0
    assert TorchTensor(tensor).numpy()[0, 0] == 42.0
    with pytest.raises(ValueError):
        TorchTensor(tensor).numpy()[0, 0] = 1


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.t(),
        lambda t: t[:, ::2],
        lambda t: t[1:, 1:],
        lambda t: t.flip(0).t(),
        lambda t: t[:1].expand(9, -1),
        lambda t: t[0, 0].expand(7, 6, 5),
        lambda t: t.reshape(4, 3, 5, 2).to(memory_format=torch.channels_last),
        lambda t: t.reshape(1, 120).t(),
    ],
)
def test_other_layouts_in_small_pieces(make, limit):
    limit(BUDGET.bytes, piece=40)
    tensor = make(torch.randn(12, 10))
    chunks = [bytes(chunk) for chunk in TorchTensor(tensor).chunks()]
    assert b"".join(chunks) == tensor.contiguous().numpy().tobytes()
    assert len(chunks) == 1 or max(map(len, chunks)) <= 40


def test_conjugates_and_negatives():
    tensor = torch.randn(4, 3, dtype=torch.complex64)
    for view in (tensor.conj(), tensor.conj().t(), tensor.conj().imag, torch._neg_view(tensor)):
        plain = view.resolve_conj().resolve_neg().contiguous()
        assert TorchTensor(view).tobytes() == plain.numpy().tobytes()


def test_sparse_becomes_dense():
    dense = torch.eye(4)
    for sparse in (dense.to_sparse(), dense.to_sparse_csr()):
        assert TorchTensor(sparse).tobytes() == dense.numpy().tobytes()
        assert (TorchTensor(sparse).numpy() == dense.numpy()).all()


def test_region_is_shared_by_tied_weights_only():
    tensor = torch.randn(4, 4)
    key = TorchTensor(tensor).region()
    assert key == TorchTensor(torch.nn.Parameter(tensor)).region()
    assert key == TorchTensor(tensor.view(16)).region()
    assert key != TorchTensor(tensor.t()).region()
    assert key != TorchTensor(tensor[:2]).region()
    assert key != TorchTensor(tensor.clone()).region()
    assert TorchTensor(torch.empty(0)).region() is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(3, device="meta"),
        lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        lambda: torch.zeros(2, dtype=torch.complex32),
    ],
)
def test_tensors_without_onnx_values_are_refused(make):
    with pytest.raises(Unsupported):
        TorchTensor(make(), "w")


def test_a_fake_tensor_is_refused():
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        tensor = torch.zeros(3)
    with pytest.raises(Unsupported, match="no values"):
        TorchTensor(tensor, "w")


class Everything(torch.nn.Module):
    """Bodies, sizes with and without names, a transposed weight, an output that is an input."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 6)

    def forward(self, x):
        def body(i, y):
            return i + 1, torch.tanh(self.layer(y))

        y = torch.cond(x.sum() > 0, lambda x: self.layer(x), lambda x: x - 1, (x,))
        z = torch.while_loop(lambda i, y: i < x.shape[0], body, (torch.tensor(0), y))[1]
        return z, torch.stft(x.flatten(), 4, return_complex=True), x.nonzero(), x


def test_a_model_that_was_looked_at_is_saved_as_it_was(tmp_path):
    path, again = tmp_path / "m.onnx", tmp_path / "again.onnx"
    dynamic = {"x": {0: "n", 1: "m>=2"}}
    program = hx.export(Everything().eval(), torch.randn(2, 3, 6), path, dynamic=dynamic)
    assert len(list(program.model.graph.all_nodes())) == program.report.nodes
    program.save(again)
    assert path.read_bytes() == again.read_bytes()


def test_what_is_changed_in_the_model_is_what_is_saved_and_run(tmp_path):
    program = hx.export(torch.nn.ReLU(), torch.randn(2, 3))
    (node,) = program.model.graph
    node.op_type = "Neg"
    program.save(tmp_path / "m.onnx")
    assert [n.op_type for n in onnx.load(tmp_path / "m.onnx").graph.node] == ["Neg"]
    x = torch.tensor([[1.0, -2.0, 3.0], [4.0, 5.0, -6.0]])
    assert torch.equal(program.run(x), -x)


@pytest.mark.parametrize("shape", [(2000, 300), (50_000, 64), (64, 50_000)])
def test_pieces_of_a_turned_weight_stay_as_long_as_is_promised(shape):
    tensor = torch.arange(shape[0] * shape[1], dtype=torch.float32).reshape(shape)
    last, found = deque(), []
    for piece in contents.Permuted(contents.Held(tensor), (1, 0)).chunks():
        last.append(piece)
        if len(last) > contents.PIECES_IN_USE:
            found.append(bytes(last.popleft()))
    assert b"".join([*found, *map(bytes, last)]) == tensor.T.contiguous().numpy().tobytes()
    assert len(found) + len(last) > contents.PIECES_IN_USE
