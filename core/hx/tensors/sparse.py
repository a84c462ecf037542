"""Sparse tensors: in the graph, they are their elements and the places of these.

No edge of a graph is sparse. A sparse value has its parts beside it instead, and converters that
know of them write products and dense tensors of the parts; whatever else would read one is refused.
Places that come twice add up. The parts of a constant have its name: `adj.indices`, `adj.values`.

What a sparse tensor holds lies in the memory of other tensors, which share it without sharing an
entry: so nobody may write there while the model is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ..errors import Unsupported, Where
from .values import Absent, Constant, Value

if TYPE_CHECKING:
    from ..graph.op import Op
    from ..recording.recording import Recording

_ROWS_FIRST = (torch.sparse_csr, torch.sparse_bsr)
_COLUMNS_FIRST = (torch.sparse_csc, torch.sparse_bsc)
_INSTEAD = "give it .to_dense(), or compute with dense tensors and a mask"


class Elements:
    """The parts of a sparse value: int64 places [axes, count], and the numbers there."""

    __slots__ = ("dense", "numbers", "places")

    def __init__(self, places: Value | None = None, numbers: Value | None = None) -> None:
        self.places, self.numbers = places, numbers  # of a constant: made when first asked for
        self.dense: Value | None = None


def value(op: Op, places: Value, numbers: Value, shape: Any) -> Value:
    made = op._builder.value(numbers.dtype, shape)
    made.sparse = Elements(places, numbers)
    made.fixed = places.fixed and numbers.fixed and not made.dynamic
    return made


def elements(op: Op, x: Value) -> tuple[Value, Value] | None:
    """The places and the numbers of a sparse value; None of any other, or where a number is a row."""
    found = x.sparse
    if found is None:
        return None
    if found.places is None or found.numbers is None:
        tensor = _contents(x)
        if tensor.layout is not torch.sparse_coo:
            tensor = tensor.to_sparse_coo()
        if tensor.dense_dim():
            return None
        names = (f"{x.name}.indices", f"{x.name}.values") if x.name else ("", "")
        found.places = op._builder.constant(tensor._indices(), names[0])
        found.numbers = op._builder.constant(tensor._values(), names[1])
    return found.places, found.numbers


def dense(op: Op, x: Value) -> Value:
    """The dense form of a sparse value: of a constant, one constant however often it is asked for."""
    found = x.sparse
    if found is None:
        return x
    if found.dense is None:
        if isinstance(x, Constant):
            # Its own memory, which nobody writes to.
            made = op._builder.constant(_contents(x).to_dense(), x.name)
            made.frozen, found.dense = True, made
        else:
            found.dense = _filled(op, x)
    return found.dense


def cast(op: Op, x: Value, dtype: torch.dtype) -> Value:
    if isinstance(x, Constant):
        made = op._builder.constant(_contents(x).to(dtype))
        made.sparse = Elements()
        return made
    assert x.sparse is not None and x.sparse.places is not None and x.sparse.numbers is not None
    return value(op, x.sparse.places, op.cast(x.sparse.numbers, dtype), x.shape)


def _contents(x: Value) -> torch.Tensor:
    assert isinstance(x, Constant)
    if isinstance(x, Absent):
        raise Unsupported(
            "a sparse tensor has no contents", hint="make it on the CPU, not on the meta device"
        )
    if x.written():
        raise _written()
    return x.tensor


def _filled(op: Op, x: Value) -> Value:
    """Zeros, with each number added at its place as counted over all elements."""
    assert x.sparse is not None and x.shape is not None
    places, numbers = x.sparse.places, x.sparse.numbers
    steps: list[Any] = [1]
    for n in reversed(x.shape[1:]):
        steps.insert(0, n * steps[0])
    flat = op.ReduceSum(op.Mul(places, op.Unsqueeze(op.sizes(steps), [1])), [0], keepdims=0)
    zeros = op.Expand(op.constant(0, x.dtype), op.sizes([x.numel()]))
    added = op.ScatterElements(zeros, flat, numbers, axis=0, reduction="add")
    return op.Reshape(added, op.sizes(x.shape))


# Memory.


def hold(recording: Recording, tensor: torch.Tensor) -> None:
    """From now on, what a sparse tensor holds may not change."""
    for part in parts(tensor):
        storage = part.untyped_storage()
        recording.sparse[storage._cdata] = storage  # kept: no other one gets its place


def constant(recording: Recording, tensor: torch.Tensor, name: str) -> Constant:
    """A sparse tensor that no input changes."""
    if tensor.is_nested:
        require_known("the model holds or makes", tensor, _where(recording))
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        hold(recording, tensor)
        made = recording.builder.constant(tensor.detach(), name)
        if recording.guard is not None and any(map(recording.guard.has_changed, parts(tensor))):
            if name:
                raise _written(_where(recording))
            made.freeze()  # what it is made of is put back when the recording ends
    made.sparse = Elements()
    return made


def parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors whose memory has what a sparse one holds, without a copy where that can be."""
    if tensor.layout is torch.sparse_coo:
        return tensor._indices(), tensor._values()
    if tensor.layout in _ROWS_FIRST:
        return tensor.crow_indices(), tensor.col_indices(), tensor.values()
    if tensor.layout in _COLUMNS_FIRST:
        return tensor.ccol_indices(), tensor.row_indices(), tensor.values()
    return (tensor.to_dense(),)  # what oneDNN has in an order of its own


def require_unheld(recording: Recording, tensor: torch.Tensor, key: int) -> None:
    """That a tensor that is about to be written to is not sparse, and no part of a sparse one."""
    if tensor.layout is not torch.strided or key in recording.sparse:
        raise _written(_where(recording))


def _where(recording: Recording) -> Where:
    """The user's line, also where a converter has the call run."""
    origin = recording.builder.origin
    return recording.where() if origin is None or not origin.file else origin.where


def _written(where: Where | None = None) -> Unsupported:
    return Unsupported(
        "a sparse tensor, or memory that it holds, is written to",
        where=where,
        why="in the graph it is its elements, as they were when it was made",
        hint="make a new sparse tensor of the changed elements: adj * 2, or "
        "torch.sparse_coo_tensor(indices, values * 2, size)",
    )


# What a graph cannot have.


def require_plain(what: str, x: Any) -> None:
    """Inputs and outputs of a file are dense, and rectangular."""
    if not isinstance(x, torch.Tensor) or (x.layout is torch.strided and not x.is_nested):
        return
    if x.is_nested:
        raise _nested(f"{what} is a nested tensor", None)
    raise Unsupported(
        f"{what} is {_kind(x)}, and a graph takes and gives dense ones",
        hint="give the model its dense form, or its indices and values as inputs of their own and "
        "make it inside with torch.sparse_coo_tensor; return y.to_dense()",
    )


def require_known(what: str, x: torch.Tensor, where: Where) -> None:
    """That a result is of a kind that the recording can follow."""
    if x.is_nested:
        raise _nested(f"{what} a nested tensor", where)
    if x.layout is not torch.strided:
        raise Unsupported(
            f"{what} {_kind(x)} that depends on the inputs",
            where=where,
            why="a graph has dense tensors only: products of sparse ones with dense ones can be "
            "said, and their dense form",
            hint=_INSTEAD,
        )


def require_answered(target: str, tensors: list[torch.Tensor], where: Where) -> None:
    """That what nobody converts does not fail for being given a sparse tensor."""
    for x in tensors:
        if x.layout is not torch.strided:
            raise Unsupported(
                f"{target} is given {_kind(x)}, and has no form in ONNX for it",
                where=where,
                hint=_INSTEAD,
            )


def edge(name: str) -> Unsupported:
    return Unsupported(
        f"{name} was to be written with a sparse tensor, and no edge of a graph is one",
        why="products of sparse tensors with dense ones can be said, and their dense form",
        hint=_INSTEAD,
    )


def _kind(x: torch.Tensor) -> str:
    kind = str(x.layout).removeprefix("torch.")
    return f"a sparse tensor ({kind})" if "sparse" in kind else f"a tensor in the layout {kind}"


def _nested(what: str, where: Where | None) -> Unsupported:
    return Unsupported(
        what,
        where=where,
        why="the rows of a graph's tensors are all of one length",
        hint="use a padded tensor and a mask: torch.nn.utils.rnn.pad_sequence makes one of a list",
    )
