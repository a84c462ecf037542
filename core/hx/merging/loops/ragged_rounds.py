"""Values of varying length, one of each round, one behind the other in a tensor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ...graph.axes import moved
from ...graph.op import Op
from ...ir import shapes
from ...ir.shapes import PAST_EVERY_END
from ...ir.sizes import dims
from ...ir.value import Node, Value
from .stacked_sources import STACK, RoundsDiffer


@dataclass(eq=False)
class Ragged:
    """Pieces that lie one behind the other in `value`; `ends` has the end of each."""

    many: int
    shape: tuple
    value: Value
    along: int
    length: Any  # number of pieces
    lengths: Value
    ends: Value

    def at(self, op: Op, index: Any) -> Value:
        end = op.Gather(self.ends, index, axis=0)
        return self._between(op, op.Sub(end, op.Gather(self.lengths, index, axis=0)), end)

    def stacked(self, op: Op) -> Value:
        """Stack the pieces; the caller knows that they are equally long."""
        axis, sizes = self.along, list(self.shape)
        sizes[axis : axis + 1] = self.length, -1
        return moved(op, op.Reshape(self.value, op.sizes(sizes)), len(sizes), axis, 0)

    def joined(self, op: Op, first: int, count: int) -> Value:
        begin: Any = 0
        end: Any = PAST_EVERY_END
        if first:
            begin = op.Gather(self.ends, first - 1, axis=0)
        if first + count < self.many:
            end = op.Gather(self.ends, first + count - 1 - self.many, axis=0)
        return self._between(op, begin, end) if first or count < self.many else self.value

    def _between(self, op: Op, begin: Any, end: Any) -> Value:
        edges = (op.Reshape(x, [1]) if isinstance(x, Value) else [x] for x in (begin, end))
        return op.Slice(self.value, *edges, [self.along])


class Growing:
    """A carried value that joins pieces of rounds: empty at first, one piece longer each round."""

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
        """Give a value its own size along the axis, and the size of the pieces elsewhere."""
        sizes: list[Any] = list(_shape(self.begin))
        sizes[self._axis] = dims.Dim.leaf(value, self._axis, 0)
        value.sized(sizes)


def laid(
    op: Op, whole: Value, lengths: Value, axis: int, given: list[Value], length: Any
) -> Ragged:
    """Return the pieces that lie in `whole` along an axis, as long as `lengths` says."""
    ends, shape = op.CumSum(lengths, 0), _shape(given[0])
    return Ragged(len(given), shape, whole, axis, length, lengths, ends)


def along(given: list[Value], behind: Iterable[Node]) -> int | None:
    """Return the axis along which each value may have its own length, if there is one."""
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
        return None  # they are equally long, else PyTorch would have failed
    if len(varying) > 1:
        # Sizes that follow from the inputs are mostly equal: x[i:i + 1] is one element.
        varying = {axis: sizes for axis, sizes in varying.items() if _differ(sizes)}
    if len(varying) != 1:
        raise RoundsDiffer
    return next(iter(varying))


def _differ(sizes: Iterable[int]) -> bool:
    """Return True if the recorded sizes differ, or one of them follows from no named size."""
    found = any(type(n) is dims.Dim and not n.poly.named() for n in sizes)
    return found or len(set(map(dims.plain, sizes))) > 1


def _stacks(node: Node, ids: set[int], varying: set[int]) -> bool:
    """Return True if a node joins several of these along an axis where they are equally long."""
    if sum(id(value) in ids for value in node.inputs) < 2:
        return False
    return node.op == STACK or (node.op == "Concat" and node.attributes["axis"] not in varying)


def _shape(value: Value) -> tuple:
    assert value.shape is not None
    return value.shape
