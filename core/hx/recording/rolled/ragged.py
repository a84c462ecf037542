"""Rounds that give as many elements each as it happens to be: one behind the other, in one tensor."""

from __future__ import annotations

from builtins import len  # its own: `world` hooks that of the model
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...graph.axes import moved
from ...graph.op import Op
from ...sizes import dims, shapes
from ...tensors.values import Node, Value
from .sources import FAR, STACK, Unlike


@dataclass(eq=False)
class Ragged:
    """`value` has one behind the other, `ends` where each ends in it."""

    many: int
    shape: tuple
    value: Value
    along: int
    length: Any  # how many there are
    lengths: Value
    ends: Value

    def at(self, op: Op, index: Any) -> Value:
        end = op.Gather(self.ends, index, axis=0)
        return self._between(op, op.Sub(end, op.Gather(self.lengths, index, axis=0)), end)

    def stacked(self, op: Op) -> Value:
        """Who stacks them knows that they are equally long."""
        axis, sizes = self.along, list(self.shape)
        sizes[axis : axis + 1] = self.length, -1
        return moved(op, op.Reshape(self.value, op.sizes(sizes)), len(sizes), axis, 0)

    def joined(self, op: Op, first: int, count: int) -> Value:
        begin: Any = 0
        end: Any = FAR
        if first:
            begin = op.Gather(self.ends, first - 1, axis=0)
        if first + count < self.many:
            end = op.Gather(self.ends, first + count - 1 - self.many, axis=0)
        return self._between(op, begin, end) if first or count < self.many else self.value

    def _between(self, op: Op, begin: Any, end: Any) -> Value:
        edges = (op.Reshape(x, [1]) if isinstance(x, Value) else [x] for x in (begin, end))
        return op.Slice(self.value, *edges, [self.along])


class Growing:
    """What a loop carries to join what its rounds give: nothing at first, a piece more behind each."""

    def __init__(self, op: Op, given: list[Value], axis: int) -> None:
        self._op, self.given, self._axis = op, given, axis
        sizes = [0 if place == axis else n for place, n in enumerate(_shape(given[0]))]
        self.begin = op.Expand(op.constant(0, given[0].dtype), op.sizes(sizes))
        self.inside = op._builder.value(self.begin.dtype, None)
        self._size(self.inside)

    def more(self, piece: Value) -> Value:
        return self._op.Concat(self.inside, piece, axis=self._axis)

    def length(self, piece: Value) -> Value:
        return self._op.Gather(self._op.Shape(piece), self._axis)

    def source(self, whole: Value, length: Any, lengths: Value) -> Ragged:
        self._size(whole)
        lengths.sized((length,))
        return laid(self._op, whole, lengths, self._axis, self.given, length)

    def _size(self, value: Value) -> None:
        """As long as it is along the axis; else as large as each of them."""
        sizes: list[Any] = list(_shape(self.begin))
        sizes[self._axis] = dims.Dim.leaf(value, self._axis, 0)
        value.sized(sizes)


def laid(
    op: Op, whole: Value, lengths: Value, axis: int, given: list[Value], length: Any
) -> Ragged:
    """What lies one behind the other along an axis, as long as `lengths` says."""
    ends, shape = op.CumSum(lengths, 0), _shape(given[0])
    return Ragged(len(given), shape, whole, axis, length, lengths, ends)


def along(given: list[Value], behind: Iterable[Node]) -> int | None:
    """The axis which each of them may have its own length along, if there is one."""
    each = [_shape(value) for value in given]
    varying = {
        axis: sizes
        for axis, sizes in enumerate(zip(*each))
        if not all(shapes.same(sizes[0], n) for n in sizes)
    }
    if not varying:
        return None
    ids = set(map(id, given))
    readers = [node for node in behind if ids & set(map(id, node.inputs))]
    if readers and all(_stacks(node, ids, set(varying)) for node in readers):
        return None  # they are equally long, or PyTorch had refused it
    if len(varying) > 1:  # what sizes of the inputs say is mostly alike: x[i:i + 1] is one element
        varying = {axis: sizes for axis, sizes in varying.items() if _differ(sizes)}
    if len(varying) != 1:
        raise Unlike
    return next(iter(varying))


def _differ(sizes: Iterable[int]) -> bool:
    """Whether they are other numbers in the recording, or each is what was found."""
    found = any(type(n) is dims.Dim and not n.poly.named() for n in sizes)
    return found or len(set(map(dims.plain, sizes))) > 1


def _stacks(node: Node, ids: set[int], varying: set[int]) -> bool:
    """Whether it joins them beside one another."""
    if sum(id(value) in ids for value in node.inputs) < 2:
        return False
    return node.op == STACK or (node.op == "Concat" and node.attributes["axis"] not in varying)


def _shape(value: Value) -> tuple:
    assert value.shape is not None
    return value.shape
