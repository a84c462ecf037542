"""Puts elements that were written through a view back into the tensor that it is a view of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .builder import Builder, Op
from .liveness import Entry, Family, Geometry, geometry
from .values import Value


def write_back(
    builder: Builder,
    family: Family,
    entry: Entry,
    value: Value,
    replay: Callable[[Any, Value], Value],
) -> Value:
    """The root of a family after `value` was written into one of its views."""
    op = Op(builder)
    root = family.root
    tensor = entry()
    assert tensor is not None and root.shape is not None and entry.path is not None
    view = geometry(tensor)
    value = builder.cast(value, root.dtype)
    if _whole(family.geometry, view):
        return op.Reshape(value, op.sizes(root.shape)) if value.shape is None or not op.same(value.shape, root.shape) else value
    if not root.dynamic and not value.dynamic:
        places: Value = builder.constant(_positions(family.geometry, view))
    else:
        # The same views of a tensor that counts its elements: where each element came from.
        count = op.Range(0, op.constant(root.numel()), 1)
        places = op.Reshape(count, op.sizes(root.shape))
        for step in entry.path:
            places = replay(step, places)
        places = op.Reshape(places, [-1])
    flat = op.ScatterElements(op.Reshape(root, [-1]), places, op.Reshape(value, [-1]), axis=0)
    return op.Reshape(flat, op.sizes(root.shape))


def _whole(root: Geometry, view: Geometry) -> bool:
    """Whether a view holds all elements of the root in the same order."""
    count = torch.Size(root[0]).numel()
    return (
        torch.Size(view[0]).numel() == count
        and root[2] == view[2]
        and _dense(root) and _dense(view)
    )  # fmt: skip


def _dense(shape: Geometry) -> bool:
    expected = 1
    for n, stride in zip(reversed(shape[0]), reversed(shape[1])):
        if n != 1 and stride != expected:
            return False
        expected *= n
    return True


def _positions(root: Geometry, view: Geometry) -> torch.Tensor:
    """For each element of the view in order, its position in the flattened root."""
    last = max(_extent(root), _extent(view))
    memory = torch.full((last,), -1, dtype=torch.int64)
    memory.as_strided(*root).copy_(torch.arange(root[0].numel()).reshape(root[0]))
    return memory.as_strided(*view).reshape(-1).clone()


def _extent(shape: Geometry) -> int:
    size, stride, offset = shape
    return offset + 1 + sum((n - 1) * s for n, s in zip(size, stride) if n)


