"""The numbers of a recording that differ at other sizes, computed from the sizes in its graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...errors import Unsupported
from ...graph.op import Op
from ...sizes import dims, dynamic
from ...tensors.values import Body, Node, Value
from ..capture import Capture
from .beside import Beside, Differing, Unlike, sizes_of
from .formulas import Sizes, find

MOST = 64  # numbers of one tensor that are looked at one by one


def record(first: Capture, at: Sequence[Sizes], again: Callable[[Sizes], Capture]) -> None:
    """Puts what they follow from into the graph: `at` has its sizes, and others to record at.

    The second recording tells whether there is anything to be found; the rest are made then.
    """
    try:
        others = [again(at[1])]
        if not Beside([first, *others]).differing:
            raise Unlike
        others += map(again, at[2:])
        Fitted(first, at, Beside([first, *others])).write()
    except Unlike:
        raise Unsupported("other sizes make more of a difference than to numbers") from None


class Fitted:
    def __init__(self, first: Capture, at: Sequence[Sizes], beside: Beside) -> None:
        self._first, self._at, self._beside = first, at, beside
        self._op = Op(first.recording.builder)
        self._named = named_sizes(first)
        self._instead: dict[int, Value] = {}

    def write(self) -> None:
        builder, differing = self._first.recording.builder, self._beside.differing.values()
        nodes, kept = builder.nodes, builder.sizes.scope(empty=True)
        outer, builder.nodes = builder.origin, []
        try:
            for each in differing:
                builder.origin = each.origin
                self._instead[id(each.value)] = self._computed(each)
            before = builder.nodes
        finally:
            builder.nodes, builder.origin = nodes, outer
            builder.sizes.restore(kept)
        for value, others in self._beside.made:
            self._size(value, others)
        self._replace(nodes)
        builder.nodes = [*before, *nodes]
        outputs = self._first.outputs
        self._first.outputs = [(name, self._instead.get(id(v), v)) for name, v in outputs]
        lines = sorted({each.where for each in differing if each.where})
        at = f" at {', '.join(lines)}" if lines else ""
        self._first.notes.append(
            f"numbers{at} that Python came to out of sight follow from sizes in the graph, as they "
            f"do in recordings at {len(self._at)} sizes"
        )

    def _formula(self, numbers: Sequence[int | float]) -> Any:
        formula = find(self._at, numbers)
        if formula is None:
            raise Unlike
        return formula(self._named)

    def _computed(self, each: Differing) -> Value:
        tensors, dtype = each.tensors, each.value.dtype
        shapes = [list(tensor.shape) for tensor in tensors]
        rank = len(shapes[0])
        if any(len(shape) != rank for shape in shapes) or not all(t.numel() for t in tensors):
            raise Unlike
        if all(shape == shapes[0] for shape in shapes):
            return self._op.cast(self._listed(tensors, shapes[0]), dtype)
        if all(bool((tensor == tensor.reshape(-1)[0]).all()) for tensor in tensors):
            sizes = [self._formula([shape[axis] for shape in shapes]) for axis in range(rank)]
            filled = self._op.cast(self._listed([t.reshape(-1)[0] for t in tensors], []), dtype)
            return self._op.Expand(filled, self._op.sizes(sizes))
        return self._counted(tensors, dtype)

    def _listed(self, tensors: Sequence[torch.Tensor], shape: list[int]) -> Value:
        """As many numbers at all sizes, each with what it follows from."""
        op, numbers = self._op, [tensor.reshape(-1).tolist() for tensor in tensors]
        if len(numbers[0]) > MOST or not _are_real(tensors):
            raise Unlike
        found = [self._formula(column) for column in zip(*numbers)]
        if all(isinstance(each, int) for each in found):
            return op.Reshape(op.sizes(found), op.sizes(shape))
        parts = [op.Reshape(op.constant(each, torch.float64), [1]) for each in found]
        return op.Reshape(op.Concat(*parts, axis=0), op.sizes(shape))

    def _counted(self, tensors: Sequence[torch.Tensor], dtype: torch.dtype) -> Value:
        """Numbers in even steps, more or fewer of them."""
        if any(tensor.dim() != 1 or len(tensor) < 2 for tensor in tensors):
            raise Unlike
        begins = [tensor[0].item() for tensor in tensors]
        steps = [(tensor[1] - tensor[0]).item() for tensor in tensors]
        for tensor, begin, step in zip(tensors, begins, steps):
            if not torch.equal(tensor, (torch.arange(len(tensor)) * step + begin).to(tensor.dtype)):
                raise Unlike
        op, count = self._op, self._formula([len(tensor) for tensor in tensors])
        begin, step = (op.cast(self._formula(each), dtype) for each in (begins, steps))
        return op.Add(op.Mul(op.cast(op.Range(0, op.constant(count), 1), dtype), step), begin)

    def _size(self, value: Value, others: Sequence[Value]) -> None:
        """A size that was recorded as a number, and differs, follows from the sizes as well."""
        sizes = [sizes_of(each) for each in (value, *others)]
        if value.shape is None or any(each is None for each in sizes):
            return
        known = [each for each in sizes if each is not None]
        if any(len(each) != len(known[0]) for each in known):
            raise Unlike
        own = list(value.shape)
        for axis, numbers in enumerate(zip(*known)):
            if not dims.is_dynamic(own[axis]) and len(set(numbers)) > 1:
                own[axis] = self._formula(numbers)
        value.sized(own)

    def _replace(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            node.inputs = [self._instead.get(id(x), x) for x in node.inputs]
            for body in node.attributes.values():
                if isinstance(body, Body):
                    self._replace(body.nodes)
                    body.outputs[:] = [self._instead.get(id(x), x) for x in body.outputs]


def named_sizes(captured: Capture) -> dict[str, Any]:
    """The sizes that have a name, as the graph's inputs have them."""
    values = dict(captured.inputs)
    return {
        word: values[name].size(axis)
        for name, axes in captured.prepared.dynamic.items()
        for axis, word in axes.items()
        if not dynamic.is_sum(word)
    }


def _are_real(tensors: Sequence[torch.Tensor]) -> bool:
    return not any(t.dtype == torch.bool or t.dtype.is_complex or t.is_quantized for t in tensors)
