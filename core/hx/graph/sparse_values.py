"""Sparse values: the graph holds their elements and the places of these.

No edge of a graph is sparse. A sparse value has its parts beside it instead. Converters that
support it write products and dense tensors of the parts; all others refuse it. Places that occur
twice add up. The parts of a constant are named after it: `adj.indices`, `adj.values`.
"""

from __future__ import annotations

from typing import Any

import torch

from ..errors import Unsupported, Where
from ..ir.value import Absent, Constant, Elements, Value
from .writers import OpWriter

DENSE_HINT = "give it .to_dense(), or compute with dense tensors and a mask"


def value(op: OpWriter, places: Value, numbers: Value, shape: Any) -> Value:
    made = op._builder.value(numbers.dtype, shape)
    made.sparse = Elements(places, numbers)
    made.fixed = places.fixed and numbers.fixed and not made.dynamic
    return made


def elements(op: OpWriter, x: Value) -> tuple[Value, Value] | None:
    """The places and the numbers of a sparse value; None for others, or where a number is a row."""
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


def dense(op: OpWriter, x: Value) -> Value:
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


def cast(op: OpWriter, x: Value, dtype: torch.dtype) -> Value:
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
        raise written_to()
    return x.tensor


def _filled(op: OpWriter, x: Value) -> Value:
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


def edge(name: str) -> Unsupported:
    return Unsupported(
        f"{name} would read a sparse tensor, which no edge of a graph can hold",
        why="a graph can hold the dense form of a sparse tensor, and its products with dense ones",
        hint=DENSE_HINT,
    )


def written_to(where: Where | None = None) -> Unsupported:
    return Unsupported(
        "a sparse tensor, or memory that it holds, is written to",
        where=where,
        why="in the graph it is its elements, as they were when it was made",
        hint="make a new sparse tensor of the changed elements: adj * 2, or "
        "torch.sparse_coo_tensor(indices, values * 2, size)",
    )
