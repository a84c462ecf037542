"""The numbers of a recording that differ at other sizes, computed from the sizes in its graph."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...errors import Unsupported, is_of_the_world
from ...graph.op import Op
from ...sizes import dims, dynamic
from ...sizes.asked import At, Unforeseen
from ...tensors.values import Body, Node, Value
from ..capture import Capture
from .beside import Beside, Differing, Unlike, sizes_of
from .formulas import find, plainest

Sizes = dict[str, int]

MOST = 64  # numbers of one tensor that are looked at one by one


def record(first: Capture, at: Sequence[Sizes], again: Callable[[Sizes], Capture]) -> None:
    """Puts what they follow from into the graph: `at` has its sizes, and others to record at.

    The second recording tells whether there is anything to be found; the rest are made then. The
    last is of sizes so small that numbers may have come to an end, max(n - 2, 1): it may be unlike.
    """
    try:
        all_of = [first, again(at[1])]
        if not Beside(all_of).differing:
            raise Unlike
        *larger, small = at[2:]
        all_of += map(again, larger)
        fitted = Fitted(all_of, at)
    except Unlike:
        raise Unsupported("other sizes make more of a difference than to numbers") from None
    try:
        smallest = again(small)
    except Exception as problem:  # the model's own, of any kind: it need not take sizes so small
        if is_of_the_world(problem):
            raise
    else:
        with contextlib.suppress(Unlike):
            fitted = Fitted([*all_of, smallest], at)
    fitted.write()


class Fitted:
    """What stands in the first recording for what differs in the others, or they are Unlike."""

    def __init__(self, all_of: Sequence[Capture], at: Sequence[Sizes]) -> None:
        self._first, self._at = all_of[0], at[: len(all_of)]
        self._beside = Beside(all_of)
        self._op = Op(self._first.recording.builder)
        self._named = named_sizes(self._first)
        self._instead: dict[int, Value] = {}
        self._before = self._computed_all()
        self._sized = [(value, own) for value, others in self._beside.made
                       if (own := self._size(value, others)) is not None]  # fmt: skip

    def _computed_all(self) -> list[Node]:
        builder = self._first.recording.builder
        nodes, kept = builder.nodes, builder.sizes.scope(empty=True)
        outer, builder.nodes = builder.origin, []
        try:
            for each in self._beside.differing.values():
                builder.origin = each.origin
                self._instead[id(each.value)] = self._computed(each)
            return builder.nodes
        finally:
            builder.nodes, builder.origin = nodes, outer
            builder.sizes.restore(kept)

    def write(self) -> None:
        for value, own in self._sized:
            value.sized(own)
        builder = self._first.recording.builder
        self._replace(builder.nodes)
        builder.nodes = [*self._before, *builder.nodes]
        outputs = self._first.outputs
        differing = self._beside.differing.values()
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
        if len(numbers[0]) > MOST:
            raise Unlike
        columns = list(zip(*numbers))
        if not _are_real(tensors) and any(len(set(column)) > 1 for column in columns):
            raise Unlike  # truth values follow from nothing here
        found = [self._formula(column) for column in columns]
        if all(isinstance(each, int) for each in found):
            return op.Reshape(op.sizes(found), op.sizes(shape))
        parts = [op.Reshape(op.constant(each, torch.float64), [1]) for each in found]
        return op.Reshape(op.Concat(*parts, axis=0), op.sizes(shape))

    def _counted(self, tensors: Sequence[torch.Tensor], dtype: torch.dtype) -> Value:
        """Numbers in even steps, more or fewer of them."""
        if any(each.dim() != 1 or len(each) < 2 for each in tensors) or not _are_real(tensors):
            raise Unlike
        op, wide = self._op, torch.float64 if dtype.is_floating_point else torch.int64
        begins, steps = [], []
        for each in tensors:
            numbers = each.to(wide)
            begin, step = numbers[0].item(), plainest((numbers[1] - numbers[0]).item())
            if not torch.allclose(torch.arange(len(each)).to(wide) * step + begin, numbers):
                raise Unlike
            begins.append(begin)
            steps.append(step)
        count = self._formula([len(each) for each in tensors])
        turns = op.cast(op.Range(0, op.constant(count), 1), wide)
        first, step = (op.cast(self._formula(each), wide) for each in (begins, steps))
        return op.cast(op.Add(op.Mul(turns, step), first), dtype)

    def _size(self, value: Value, others: Sequence[Value]) -> list[Any] | None:
        """A size that was recorded as a number, and differs, follows from the sizes as well."""
        sizes = [sizes_of(each) for each in (value, *others)]
        if value.shape is None or any(each is None for each in sizes):
            return None
        known = [each for each in sizes if each is not None]
        if any(len(each) != len(known[0]) for each in known):
            raise Unlike
        own = list(value.shape)
        for axis, numbers in enumerate(zip(*known)):
            if self._follows(own[axis]) not in (None, numbers):
                own[axis] = self._formula(numbers)
        return own

    def _follows(self, size: Any) -> tuple[int, ...] | None:
        """What a recorded size would be at each of the sizes; None where nobody knows."""
        if not dims.is_dynamic(size):
            return (size,) * len(self._at)
        try:
            return tuple(At(sizes)(size.poly) for sizes in self._at)
        except Unforeseen:
            return None

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
