"""Tensors that share memory: the contents of one after another was written to.

Two ways lead from a family's root to a view of it. The recorded *steps* (a slice, a transpose)
are right at every size. *Positions* in memory are right for views that nobody saw being made, and
only where no size may vary: a stride of the recording is one of many.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch

from ...errors import Unaccounted, Unsupported
from ...graph.builder import Builder
from ...graph.op import Op
from ...ir.value import Value
from ...tensor_bytes import Geometry, geometry
from .live_tensors import Entry, Family

Replay = Callable[[Any, Value], Value]

# Views with the elements of their base, all of them and in the same order.
_IN_ORDER = frozenset(
    """_unsafe_view alias contiguous detach flatten ravel requires_grad_ reshape reshape_as squeeze
    unflatten unsqueeze view view_as""".split()
)


class Declined(Exception):
    """Raised when the converter of a view declines: then only its position in memory is known."""


def read_again(builder: Builder, family: Family, entry: Entry, replay: Replay) -> Value:
    """The value of a tensor after its memory was written to through another one."""
    _require_one_dtype(family, entry)
    if entry.path is not None:
        value = family.root
        with contextlib.suppress(Declined):
            for step in entry.path:
                value = replay(step, value)
            return value
    tensor = entry()
    assert tensor is not None
    places = _places(family, geometry(tensor), tensor.dtype)
    if places is None:
        return entry.value  # the rest of that memory: nothing of it was written
    return by_positions(builder, family.root, places, tensor)


def by_positions(
    builder: Builder, root: Value, places: torch.Tensor, tensor: torch.Tensor
) -> Value:
    op = Op(builder)
    picked = op.Gather(op.Reshape(root, [-1]), builder.constant(places), axis=0)
    return op.Reshape(picked, op.sizes(tensor.shape))


def write_back(
    builder: Builder, family: Family, entry: Entry, value: Value, replay: Replay
) -> Value:
    """The root of a family after `value` was written into one of its views."""
    op = Op(builder)
    root = family.root
    tensor = entry()
    assert tensor is not None and root.shape is not None
    _require_one_dtype(family, entry)
    _require_apart(geometry(tensor))
    if value.dtype.is_complex != root.dtype.is_complex or tensor.is_conj() or tensor.is_neg():
        return _number_by_number(op, family, entry, value, replay)
    value = builder.cast(value, root.dtype)
    if _in_order(family, entry, value):
        same = value.shape is not None and op.same(value.shape, root.shape)
        return value if same else op.Reshape(value, op.sizes(root.shape))
    if entry.path is None or not (root.dynamic or value.dynamic or _moves(entry.path)):
        found = _places(family, geometry(tensor), tensor.dtype)
        if found is None:
            return root
        places: Value = builder.constant(found)
    else:
        # The same views of a tensor that counts its elements: where each element came from.
        count = op.Range(0, op.constant(root.numel()), 1)
        places = op.Reshape(count, op.sizes(root.shape))
        for step in entry.path:
            places = replay(step, places)
        places = op.Reshape(places, [-1])
    flat = op.ScatterElements(op.Reshape(root, [-1]), places, op.Reshape(value, [-1]), axis=0)
    return op.Reshape(flat, op.sizes(root.shape))


def _require_one_dtype(family: Family, entry: Entry) -> None:
    """Raise if a view reads the bits of its root as numbers of another dtype."""
    one, other = family.root.dtype, entry.value.dtype
    if one != other and not (one.is_complex or other.is_complex):
        raise Unsupported(
            "the model writes to memory that is read as two dtypes",
            why=f"what is written as {other} would have to be read as {one}",
            hint="write to a copy: x.view(dtype).clone()",
        )


def _require_apart(view: Geometry) -> None:
    """Raise if a write reaches an element several times: PyTorch then computes it as often."""
    reached = 0
    for stride, size in sorted((s, n) for n, s in zip(*view[:2]) if n > 1):
        if stride <= reached:
            raise Unsupported(
                "a view that shows one element at several places is written to",
                why="unfold and as_strided may make views that overlap themselves",
                hint="write to a copy: x.unfold(...).clone()",
            )
        reached += (size - 1) * stride


def _number_by_number(op: Op, family: Family, entry: Entry, value: Value, replay: Replay) -> Value:
    """Write into a part of complex numbers, or into their conjugates.

    The same views of numbers counted from 1 show where each number goes; those that come out
    negative change their sign.
    """
    root, whole = family.root, family.root.dtype.is_complex
    assert root.shape is not None
    if entry.path is None:
        raise Unaccounted(
            "the model writes to a view of complex numbers, and hx did not see how it made that view",
            hint="make the view with torch functions inside forward, or .clone() it",
        )
    base = op.pair(root) if whole else root
    sizes = op.sizes([*root.shape, 2] if whole else root.shape)
    count = op.Range(1, op.constant(root.numel() * (2 if whole else 1) + 1), 1)
    places = op.Reshape(op.cast(count, torch.float64), sizes)
    places = op.joined(places) if whole else places
    for step in entry.path:
        places = replay(step, places)
    places, value = (op.pair(v) if v.dtype.is_complex else v for v in (places, value))
    places, value = op.Reshape(places, [-1]), op.Reshape(op.cast(value, base.dtype), [-1])
    value = op.Where(op.Less(places, 0), op.Neg(value), value)
    places = op.Sub(op.cast(op.Abs(places), torch.int64), 1)
    flat = op.ScatterElements(op.Reshape(base, [-1]), places, value, axis=0)
    flat = op.Reshape(flat, sizes)
    return op.joined(flat) if whole else flat


def _in_order(family: Family, entry: Entry, value: Value) -> bool:
    """Return True if a view holds all elements of its root in the same order."""
    if entry.path is not None and all(keeps_order(step) for step in entry.path):
        return True
    tensor = entry()
    # The layout of memory in the recording proves nothing for other sizes.
    if tensor is None or family.root.dynamic or value.dynamic or _moves(entry.path or ()):
        return False
    root, view = family.geometry, geometry(tensor)
    return (
        torch.Size(view[0]).numel() == torch.Size(root[0]).numel()
        and root[2] == view[2] and _dense(root) and _dense(view)
    )  # fmt: skip


def _moves(path: tuple) -> bool:
    """Return True if a view of memory of fixed size shows another part of it at other sizes."""
    return not all(step is not None and step.fixed for step in path)


def keeps_order(step: Any) -> bool:
    return step is not None and step.choice.target.rpartition(".")[2] in _IN_ORDER


def _dense(shape: Geometry) -> bool:
    expected = 1
    for n, stride in zip(reversed(shape[0]), reversed(shape[1])):
        if n != 1 and stride != expected:
            return False
        expected *= n
    return True


def _places(family: Family, view: Geometry, dtype: torch.dtype) -> torch.Tensor | None:
    """Return the root's position of each element of a view, in order; None if they share none."""
    if family.root.dynamic or dtype != family.root.dtype:
        raise Unaccounted(
            "a tensor shares memory with one that was written to, but hx cannot tell which elements",
            why="which elements they share depends on sizes that may vary"
            if family.root.dynamic
            else f"one is read as {dtype}, the other as {family.root.dtype}",
            hint="make the view with torch functions inside forward, or .clone() it",
        )
    found = positions(family.geometry, view)
    outside = found < 0
    if not outside.any():
        return found
    if outside.all():
        return None
    raise Unaccounted(
        "a tensor shares a part of its memory with one that was written to",
        why="the rest of that memory belongs to a tensor that the recording does not know",
        hint="make both views from one tensor inside forward, or .clone() them",
    )


def positions(root: Geometry, view: Geometry) -> torch.Tensor:
    """Return the flat root's position of each element of a view, in order, or -1."""
    last = max(_extent(root), _extent(view))
    memory = torch.full((last,), -1, dtype=torch.int64)
    memory.as_strided(*root).copy_(torch.arange(torch.Size(root[0]).numel()).reshape(root[0]))
    return memory.as_strided(*view).reshape(-1).clone()


def _extent(shape: Geometry) -> int:
    size, stride, offset = shape
    return offset + 1 + sum((n - 1) * s for n, s in zip(size, stride) if n)
